package claude

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever encoding/json writes, the scanner takes apart into the same parts.
func TestScannerFindsTheMembersOfAnyObject(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(
			rapid.Map(rapid.String(), func(s string) any { return s }),
			rapid.Map(rapid.Float64Range(-1e9, 1e9), func(f float64) any { return f }),
			rapid.SampledFrom([]any{nil, true, false, "", `\`, `"`, `\"`, "{", "}]", []any{}, map[string]any{}}),
			rapid.Map(rapid.SliceOf(rapid.String()), func(s []string) any { return map[string]any{"list": s} }),
		)
		object := rapid.MapOf(rapid.StringMatching(`[a-z{}\[\],:"\\ ]{0,6}`), value).Draw(t, "object")
		var line []byte
		var err error
		if rapid.Bool().Draw(t, "spaces") {
			line, err = json.MarshalIndent(object, " ", "  ")
		} else {
			line, err = json.Marshal(object)
		}
		require.NoError(t, err)
		found := make(map[string]any)
		ok := eachMember(line, func(name, value []byte) {
			var v any
			require.NoError(t, json.Unmarshal(value, &v), string(value))
			if s, isText := v.(string); isText {
				require.Equal(t, s, unquote(value))
			}
			found[unquote([]byte(`"`+string(name)+`"`))] = v
		})
		require.True(t, ok, string(line))
		again, err := json.Marshal(found)
		require.NoError(t, err)
		want, err := json.Marshal(object)
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(again))
	})
}

func TestScannerRefusesWhatIsNoObject(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", " ", "5", `"x"`, "[]", "null", "{", `{"a"`, `{"a":`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{"a" 1}`, `{a:1}`, `{"a":"x}`, `{"a":{"b":1}`, `{} x`, `{"a":}`,
	} {
		require.False(t, eachMember([]byte(line), func(_, _ []byte) {}), line)
	}
}

func FuzzScannerNeverPanics(f *testing.F) {
	f.Add([]byte(`{"a":"b\"","c":[{"d":1}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		ok := eachMember(line, func(_, value []byte) { unquote(value) })
		var object map[string]json.RawMessage
		if json.Unmarshal(line, &object) == nil && object != nil {
			require.True(t, ok, "a JSON object is recognised")
		}
	})
}
