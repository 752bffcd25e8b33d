package provider

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/tidwall/gjson"
)

// This file holds what all formats need of JSON: members cut out of a value
// with their bytes untouched. Every function but valid takes valid JSON.

// valid checks JSON that came from outside and returns it as UTF-8 and without
// white space between tokens, so that it can stand in a line of NDJSON.
func valid(raw []byte) (json.RawMessage, error) {
	if !utf8.Valid(raw) {
		raw = bytes.ToValidUTF8(raw, []byte("\uFFFD"))
	}
	var out bytes.Buffer
	out.Grow(len(raw))
	if err := json.Compact(&out, raw); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// quote returns s as a JSON string, without the escapes that only HTML needs.
func quote(s string) []byte { return appendQuoted(nil, s) }

func appendQuoted(dst []byte, s string) []byte {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.Encode(s) // a string always encodes
	return append(dst, strings.TrimSuffix(b.String(), "\n")...)
}

// object is a JSON object whose members keep their order and their bytes.
type object struct{ members []member }

type member struct {
	key string
	raw string // the value
}

// parseObject reads a JSON object. Of members with the same key the last counts.
func parseObject(raw string) (*object, error) {
	v := gjson.Parse(raw)
	if !v.IsObject() {
		return nil, fmt.Errorf("want a JSON object, got %s", kindOf(v))
	}
	o := &object{}
	v.ForEach(func(key, value gjson.Result) bool {
		o.set(key.Str, value.Raw)
		return true
	})
	return o, nil
}

func (o *object) get(key string) (raw string, ok bool) {
	for _, m := range o.members {
		if m.key == key {
			return m.raw, true
		}
	}
	return "", false
}

// text returns a string member, decoded; "" for any other.
func (o *object) text(key string) string {
	raw, _ := o.get(key)
	return gjson.Parse(raw).Str
}

// set replaces a member where it stands, or adds it at the end.
func (o *object) set(key, raw string) {
	for i := range o.members {
		if o.members[i].key == key {
			o.members[i].raw = raw
			return
		}
	}
	o.members = append(o.members, member{key, raw})
}

func (o *object) append(dst []byte) []byte {
	dst = append(dst, '{')
	for i, m := range o.members {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(appendQuoted(dst, m.key), ':')
		dst = append(dst, m.raw...)
	}
	return append(dst, '}')
}

func (o *object) String() string { return string(o.append(nil)) }

// kindOf names a JSON value in messages.
func kindOf(v gjson.Result) string {
	switch {
	case !v.Exists():
		return "nothing"
	case v.IsObject():
		return "an object"
	case v.IsArray():
		return "an array"
	case v.Type == gjson.Null:
		return "null"
	case v.Type == gjson.String:
		return "a string"
	case v.Type == gjson.Number:
		return "a number"
	}
	return "a boolean"
}

// texts collects string members of an object that come in pieces. A member is
// kept as the inside of its JSON string, which spares decoding and leaves every
// escape as it came.
type texts struct{ members []grown }

type grown struct {
	key string
	raw []byte
}

// add appends a JSON string to a member. What o holds of it goes in front of the
// first piece. Any other JSON value is no piece.
func (t *texts) add(o *object, key string, piece gjson.Result) {
	if piece.Type != gjson.String {
		return
	}
	inside := piece.Raw[1 : len(piece.Raw)-1]
	for i := range t.members {
		if t.members[i].key == key {
			t.members[i].raw = append(t.members[i].raw, inside...)
			return
		}
	}
	var raw []byte
	if start, _ := o.get(key); strings.HasPrefix(start, `"`) {
		raw = append(raw, start[1:len(start)-1]...)
	}
	t.members = append(t.members, grown{key, append(raw, inside...)})
}

// into sets the collected members of o.
func (t *texts) into(o *object) {
	for _, m := range t.members {
		o.set(m.key, `"`+string(m.raw)+`"`)
	}
}
