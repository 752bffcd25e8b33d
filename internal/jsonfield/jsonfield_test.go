package jsonfield_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lambae/lambae/internal/jsonfield"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestParseRefusesWhatIsNoObject(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ body, want string }{
		"nothing":             {"", "the body must be JSON; it is empty"},
		"only white space":    {" \r\n\t", "the body must be JSON; it is empty"},
		"an array":            {"[]", "the body must be a JSON object"},
		"null":                {"null", "the body must be a JSON object"},
		"a string":            {`"x"`, "the body must be a JSON object"},
		"half an object":      {"{", "the body must be valid JSON: unexpected end of JSON input at byte 1"},
		"trailing garbage":    {"{} x", "the body must be valid JSON: invalid character 'x' after top-level value at byte 4"},
		"two objects":         {"{}{}", "the body must be valid JSON: invalid character '{' after top-level value at byte 3"},
		"a byte order mark":   {"\ufeff{}", "the body must be valid JSON: invalid character 'ï' looking for beginning of value at byte 1"},
		"invalid UTF-8":       {"{\"a\":\"\xff\"}", "the body must be valid UTF-8"},
		"nesting past bounds": {strings.Repeat(`{"a":`, 513) + "1" + strings.Repeat("}", 513), "the body must be JSON nested at most 512 deep"},
		"endless nesting":     {strings.Repeat("[", 1<<20), "the body must be JSON nested at most 512 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := jsonfield.Parse([]byte(c.body))
			require.EqualError(t, err, c.want)
		})
	}
}

func TestParseTakes(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"an empty object":             "{}",
		"white space around":          " \n{}\t",
		"nesting up to the bound":     strings.Repeat(`{"a":`, 512) + "1" + strings.Repeat("}", 512),
		"brackets in strings":         `{"a":"` + strings.Repeat("[", 1000) + `\"` + strings.Repeat("{", 1000) + `"}`,
		"a lone surrogate as escaped": `{"a":"\ud800"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := jsonfield.Parse([]byte(body))
			require.NoError(t, err)
		})
	}
}

func TestErrorsNameTheMember(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body string
		read func(o jsonfield.Object)
		want string
	}{
		"absent string":           {`{}`, func(o jsonfield.Object) { o.String("a") }, "a must be a string"},
		"number for a string":     {`{"a":1}`, func(o jsonfield.Object) { o.String("a") }, "a must be a string"},
		"blank string":            {`{"a":" \t"}`, func(o jsonfield.Object) { o.NonBlank("a") }, "a must be a non-empty string"},
		"number for string?":      {`{"a":1}`, func(o jsonfield.Object) { o.OptionalString("a") }, "a must be a string or null"},
		"fraction for an integer": {`{"a":1.5}`, func(o jsonfield.Object) { o.OptionalInt("a") }, "a must be an integer or null"},
		"string for an integer":   {`{"a":"1"}`, func(o jsonfield.Object) { o.OptionalInt("a") }, "a must be an integer or null"},
		"integer out of range":    {`{"a":99999999999999999999}`, func(o jsonfield.Object) { o.OptionalInt("a") }, "a must be an integer or null"},
		"string for a boolean":    {`{"a":"true"}`, func(o jsonfield.Object) { o.OptionalBool("a") }, "a must be true, false or null"},
		"string for an array":     {`{"a":"b"}`, func(o jsonfield.Object) { o.Strings("a", "") }, "a must be an array"},
		"number in strings":       {`{"a":["b",1]}`, func(o jsonfield.Object) { o.Strings("a", "(a name)") }, "a[1] must be a string (a name)"},
		"null in strings":         {`{"a":[null]}`, func(o jsonfield.Object) { o.Strings("a", "") }, "a[0] must be a string"},
		"string for an object":    {`{"a":"b"}`, func(o jsonfield.Object) { o.Object("a").String("b") }, "a must be an object"},
		"array for raw object":    {`{"a":[]}`, func(o jsonfield.Object) { o.RawObject("a") }, "a must be an object or null"},
		"member of an object":     {`{"a":{}}`, func(o jsonfield.Object) { o.Object("a").String("b") }, "a.b must be a string"},
		"null among objects":      {`{"a":[{},null]}`, func(o jsonfield.Object) { o.Objects("a") }, "a[1] must be an object"},
		"member of an element": {`{"a":[{"b":[{"c":"x"}]},{"b":[{"c":2}]}]}`, func(o jsonfield.Object) {
			for _, a := range o.Objects("a") {
				for _, b := range a.Objects("b") {
					b.String("c")
				}
			}
		}, "a[1].b[0].c must be a string"},
		"the first of several": {`{}`, func(o jsonfield.Object) { o.String("b"); o.String("a") }, "b must be a string"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o, err := jsonfield.Parse([]byte(c.body))
			require.NoError(t, err)
			c.read(o)
			require.EqualError(t, o.Err(), c.want)
		})
	}
}

func TestMembersAreRead(t *testing.T) {
	t.Parallel()
	o, err := jsonfield.Parse([]byte(`{"s":"x", "n":null, "i":-3, "b":false, "l":["p","q"], "o":{"k": 1e400},
		"twice":1, "twice":2, "unknown":[[]]}`))
	require.NoError(t, err)
	require.Equal(t, "x", o.String("s"))
	require.Nil(t, o.OptionalString("n"))
	require.Nil(t, o.OptionalInt("absent"))
	require.Equal(t, -3, *o.OptionalInt("i"))
	require.False(t, *o.OptionalBool("b"))
	require.Equal(t, []string{"p", "q"}, o.Strings("l", ""))
	require.Equal(t, []string{}, o.Strings("n", ""))
	require.Equal(t, `{"k": 1e400}`, string(o.RawObject("o")), "raw members keep their bytes")
	require.Equal(t, 2, *o.OptionalInt("twice"), "the last of a repeated member counts")
	require.True(t, o.Has("n"))
	require.Nil(t, o.Raw("n"))
	require.False(t, o.Has("absent"))
	require.Nil(t, o.Objects("n"))
	require.NoError(t, o.Err())
}

func TestZeroObjectHasNoMembers(t *testing.T) {
	t.Parallel()
	var o jsonfield.Object
	require.Empty(t, o.String("a"))
	require.NoError(t, o.Err())
}

// Whatever encoding/json writes, bounded in depth, is read back the same.
func TestStringsSurvive(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]string{"a": rapid.String().Draw(t, "a"), "b": rapid.String().Draw(t, "b")}
		body, err := json.Marshal(want)
		require.NoError(t, err)
		o, err := jsonfield.Parse(body)
		require.NoError(t, err)
		require.Equal(t, want, map[string]string{"a": o.String("a"), "b": o.String("b")})
		require.NoError(t, o.Err())
	})
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":[{"b":"c"}]}`, "{\"a\":\"\xff\"}", `[[[`, `{"a":1e999}`, "\"\\"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := jsonfield.Parse(body)
		if err != nil {
			return
		}
		require.True(t, json.Valid(body))
		for _, e := range o.Objects("a") {
			_ = e.OptionalString("b")
		}
		_ = o.Err()
	})
}
