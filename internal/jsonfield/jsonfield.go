// Package jsonfield reads JSON objects that came from outside, member by member,
// with errors a caller can act on: each names the member and says what it must
// be. It checks types, not meaning, and knows no member by name.
//
// A body is parsed once by [Parse], which also refuses what decoders tend to let
// pass: invalid UTF-8, nesting without bound, anything after the object. Unknown
// members are ignored, of a repeated one the last counts, and null stands for
// absent wherever a member is optional.
package jsonfield

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may nest.
const MaxDepth = 512

// Error says what a member, or the body itself, must be.
type Error struct {
	Field string // path of the member, such as tools[1].name; "" is the body
	Want  string // what it must be, such as "a string or null"
}

func (e *Error) Error() string {
	if e.Field == "" {
		return "the body must be " + e.Want
	}
	return e.Field + " must be " + e.Want
}

// Object reads the members of one JSON object. Its methods remember the first
// error of the whole body, in the order of the calls, and return zero values
// after it; [Object.Err] tells. The zero Object has no members.
type Object struct {
	path    string
	members map[string]json.RawMessage
	first   *error // shared by all objects of a body
}

// Parse reads body as one JSON object. On an error, an [*Error], the object is
// empty.
func Parse(body []byte) (Object, error) {
	o := Object{first: new(error)}
	if err := Check(body); err != nil {
		return o, err
	}
	if kind(body) != '{' {
		return o, &Error{Want: "a JSON object"}
	}
	if err := json.Unmarshal(body, &o.members); err != nil {
		return o, &Error{Want: "a JSON object: " + err.Error()}
	}
	return o, nil
}

// Check reports whether body is one JSON value that is safe to read: valid
// UTF-8, nested at most [MaxDepth] deep, nothing behind it.
func Check(body []byte) error {
	if !utf8.Valid(body) {
		return &Error{Want: "valid UTF-8"}
	}
	if Depth(body) > MaxDepth {
		return &Error{Want: fmt.Sprintf("JSON nested at most %d deep", MaxDepth)}
	}
	if kind(body) == 0 {
		return &Error{Want: "JSON; it is empty"}
	}
	if !json.Valid(body) {
		return &Error{Want: "valid JSON" + syntaxError(body)}
	}
	return nil
}

// Err returns the first error met so far, an [*Error].
func (o Object) Err() error {
	if o.first == nil {
		return nil
	}
	return *o.first
}

// Fail remembers that a member must be what want says, unless an error came
// first. It is for rules beyond types.
func (o Object) Fail(name, want string) {
	if o.first != nil && *o.first == nil {
		*o.first = &Error{Field: o.at(name), Want: want}
	}
}

// Has reports whether the member is there, null included.
func (o Object) Has(name string) bool { return o.members[name] != nil }

// Raw returns the member as it was sent, nil if it is absent or null.
func (o Object) Raw(name string) json.RawMessage {
	raw := o.members[name]
	if kind(raw) == 'n' {
		return nil
	}
	return raw
}

// RawObject is [Object.Raw] for a member that must be an object or null.
func (o Object) RawObject(name string) json.RawMessage {
	raw := o.Raw(name)
	if raw != nil && kind(raw) != '{' {
		o.Fail(name, "an object or null")
		return nil
	}
	return raw
}

// String returns a member that must be a string.
func (o Object) String(name string) string {
	s, ok := decode[string](o.Raw(name), '"')
	if !ok {
		o.Fail(name, "a string")
	}
	return s
}

// NonBlank returns a member that must be a string of more than white space.
func (o Object) NonBlank(name string) string {
	s, ok := decode[string](o.Raw(name), '"')
	if !ok || strings.TrimSpace(s) == "" {
		o.Fail(name, "a non-empty string")
	}
	return s
}

// OptionalString returns nil for a member that is absent or null.
func (o Object) OptionalString(name string) *string {
	return optional[string](o, name, '"', "a string or null")
}

// OptionalInt returns nil for a member that is absent or null. Only whole
// numbers written without fraction or exponent are integers here.
func (o Object) OptionalInt(name string) *int {
	return optional[int](o, name, '0', "an integer or null")
}

// OptionalBool returns nil for a member that is absent or null.
func (o Object) OptionalBool(name string) *bool {
	return optional[bool](o, name, 't', "true, false or null")
}

// Array returns the elements of a member that must be an array, as they were
// sent; nil if it is absent or null.
func (o Object) Array(name string) []json.RawMessage {
	raw := o.Raw(name)
	if raw == nil {
		return nil
	}
	list, ok := decode[[]json.RawMessage](raw, '[')
	if !ok {
		o.Fail(name, "an array")
	}
	return list
}

// Strings returns the elements of a member that must be an array of strings;
// absent and null are the empty array. The note, if any, says in the error what
// the strings are.
func (o Object) Strings(name, note string) []string {
	out := []string{}
	for i, raw := range o.Array(name) {
		s, ok := decode[string](raw, '"')
		if !ok {
			o.Fail(fmt.Sprintf("%s[%d]", name, i), strings.TrimSpace("a string "+note))
			return []string{}
		}
		out = append(out, s)
	}
	return out
}

// Objects returns the elements of a member that must be an array of objects; nil
// if it is absent or null.
func (o Object) Objects(name string) []Object {
	var out []Object
	for i, raw := range o.Array(name) {
		element := fmt.Sprintf("%s[%d]", name, i)
		members, ok := decode[map[string]json.RawMessage](raw, '{')
		if !ok {
			o.Fail(element, "an object")
			return nil
		}
		out = append(out, Object{path: o.at(element), members: members, first: o.first})
	}
	return out
}

// Object returns a member that must be an object.
func (o Object) Object(name string) Object {
	members, ok := decode[map[string]json.RawMessage](o.Raw(name), '{')
	if !ok {
		o.Fail(name, "an object")
	}
	return Object{path: o.at(name), members: members, first: o.first}
}

func (o Object) at(name string) string {
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

func optional[T any](o Object, name string, want byte, what string) *T {
	raw := o.Raw(name)
	if raw == nil {
		return nil
	}
	v, ok := decode[T](raw, want)
	if !ok {
		o.Fail(name, what)
		return nil
	}
	return &v
}

// decode reads raw if its value is of the wanted kind, see [kind].
func decode[T any](raw json.RawMessage, want byte) (T, bool) {
	var v T
	if k := kind(raw); k != want && !(want == 't' && k == 'f') {
		return v, false
	}
	err := json.Unmarshal(raw, &v)
	return v, err == nil
}

// kind tells what a JSON value is by its first character: one of { [ " t f n, the
// character 0 for any number, or the zero byte for nothing at all.
func kind(raw []byte) byte {
	for _, c := range raw {
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			continue
		case c == '-' || c >= '0' && c <= '9':
			return '0'
		default:
			return c
		}
	}
	return 0
}

// Depth returns how deep arrays and objects nest in what may not even be JSON.
func Depth(body []byte) (deepest int) {
	depth, quoted := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// syntaxError says where what is not JSON goes wrong.
func syntaxError(body []byte) string {
	var v any
	var syntax *json.SyntaxError
	if err := json.Unmarshal(body, &v); errors.As(err, &syntax) {
		return fmt.Sprintf(": %s at byte %d", syntax, syntax.Offset)
	}
	return ""
}
