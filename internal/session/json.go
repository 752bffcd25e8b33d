package session

import (
	"bytes"
	"encoding/json"
)

// appendQuoted appends s as a JSON string, without the HTML escapes of
// encoding/json and with the three line separators escaped that break clients'
// line splitters (protocol, "What existing clients rely on").
func appendQuoted(b []byte, s string) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	return append(b, EscapeLines(bytes.TrimSuffix(buf.Bytes(), []byte{'\n'}))...)
}

// Quote returns s as a JSON string.
func Quote(s string) json.RawMessage { return appendString(nil, s) }

// MarshalJSON encodes v as compact JSON the way the wire wants it: no HTML
// escapes. It panics on a value that has no JSON form, which is a programming
// error: everything encoded here is made of plain structs and raw JSON.
func MarshalJSON(v any) json.RawMessage {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("session: encode: " + err.Error())
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte{'\n'})
}

// CompactJSON returns raw without insignificant white space, so that it can
// stand in one line. It copies only when there is something to take out.
func CompactJSON(raw json.RawMessage) json.RawMessage {
	if !hasSpace(raw) {
		return raw
	}
	var buf bytes.Buffer
	buf.Grow(len(raw))
	if json.Compact(&buf, raw) != nil {
		return raw
	}
	return buf.Bytes()
}

func hasSpace(raw []byte) bool {
	in := false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case in && c == '\\':
			i++
		case c == '"':
			in = !in
		case !in && (c == ' ' || c == '\n' || c == '\t' || c == '\r'):
			return true
		}
	}
	return false
}

// EscapeLines replaces U+2028, U+2029 and U+0085 in JSON text by their escapes:
// the text means the same and no line splitter trips over it. It copies only
// when one of them is there.
func EscapeLines(b []byte) []byte {
	i := lineBreak(b, 0)
	if i < 0 {
		return b
	}
	out := make([]byte, 0, len(b)+16)
	from := 0
	for ; i >= 0; i = lineBreak(b, from) {
		out = append(out, b[from:i]...)
		switch {
		case b[i] == 0xC2:
			out = append(out, `\u0085`...)
			from = i + 2
		case b[i+2] == 0xA8:
			out = append(out, `\u2028`...)
			from = i + 3
		default:
			out = append(out, `\u2029`...)
			from = i + 3
		}
	}
	return append(out, b[from:]...)
}

// lineBreak finds the next of the three from position at, or -1.
func lineBreak(b []byte, at int) int {
	found := -1
	for _, seq := range []string{"\u2028", "\u2029", "\u0085"} {
		end := len(b)
		if found >= 0 {
			end = found
		}
		if at < end {
			if i := bytes.Index(b[at:end], []byte(seq)); i >= 0 {
				found = at + i
			}
		}
	}
	return found
}

// Members returns the members of a JSON object, none for anything else. Unlike the
// fields of a struct they count only when their names are written exactly so.
func Members(raw json.RawMessage) map[string]json.RawMessage {
	var m map[string]json.RawMessage
	_ = json.Unmarshal(raw, &m)
	return m
}

// Text returns the value of a JSON string, "" for anything else.
func Text(raw json.RawMessage) (s string) {
	_ = json.Unmarshal(raw, &s)
	return s
}
