package provider

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestMessagesTakesServerMembersOffToolUse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"a string passes":               {`{"role":"user","content":"say dispatch"}`, `{"role":"user","content":"say dispatch"}`},
		"white space around goes":       {" \n{\"role\":\"user\",\"content\":\"x\"}\n", `{"role":"user","content":"x"}`},
		"white space inside stays":      {`{ "role" : "user", "content" : [ ] }`, `{ "role" : "user", "content" : [ ] }`},
		"the last member":               {`{"content":[{"type":"tool_use","id":"1","dispatch":"client"}]}`, `{"content":[{"type":"tool_use","id":"1"}]}`},
		"the first member":              {`{"content":[{"dispatch":"client","type":"tool_use","id":"1"}]}`, `{"content":[{"type":"tool_use","id":"1"}]}`},
		"a member between":              {`{"content":[{"type":"tool_use", "dispatch": "mcp", "id":"1"}]}`, `{"content":[{"type":"tool_use", "id":"1"}]}`},
		"both, side by side":            {`{"content":[{"dispatch":1,"caller":{"a":[1]},"type":"tool_use","id":"1"}]}`, `{"content":[{"type":"tool_use","id":"1"}]}`},
		"both, apart":                   {`{"content":[{"caller":"x","type":"tool_use","dispatch":1,"id":"1","caller":null}]}`, `{"content":[{"type":"tool_use","id":"1"}]}`},
		"a name written with escapes":   {`{"content":[{"type":"tool_use","\u0064ispatch":"client","id":"1"}]}`, `{"content":[{"type":"tool_use","id":"1"}]}`},
		"a type written with escapes":   {`{"content":[{"type":"tool\u005fuse","dispatch":"client"}]}`, `{"content":[{"type":"tool\u005fuse"}]}`},
		"not off other blocks":          {`{"content":[{"type":"note","dispatch":"client","caller":1}]}`, `{"content":[{"type":"note","dispatch":"client","caller":1}]}`},
		"not inside the input":          {`{"content":[{"type":"tool_use","input":{"dispatch":1,"caller":2}}]}`, `{"content":[{"type":"tool_use","input":{"dispatch":1,"caller":2}}]}`},
		"not off nested tool_use":       {`{"content":[{"type":"tool_result","content":[{"type":"tool_use","dispatch":1}]}]}`, `{"content":[{"type":"tool_result","content":[{"type":"tool_use","dispatch":1}]}]}`},
		"not off the message":           {`{"dispatch":"x","role":"user","content":[]}`, `{"dispatch":"x","role":"user","content":[]}`},
		"big numbers and unknown stay":  {`{"content":[{"type":"tool_use","input":{"n":12345678901234567890.000,"e":1E+2},"dispatch":1,"x":{"b":1,"a":2}}]}`, `{"content":[{"type":"tool_use","input":{"n":12345678901234567890.000,"e":1E+2},"x":{"b":1,"a":2}}]}`},
		"signatures stay":               {`{"content":[{"type":"thinking","thinking":"a","signature":"caller=="},{"type":"tool_use","caller":1}]}`, `{"content":[{"type":"thinking","thinking":"a","signature":"caller=="},{"type":"tool_use"}]}`},
		"strings that look like member": {`{"content":[{"type":"tool_use","id":"\"dispatch\":1,","dispatch":"},{"}]}`, `{"content":[{"type":"tool_use","id":"\"dispatch\":1,"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Messages{}.AppendMessage([]byte("before"), []byte(c.in))
			require.NoError(t, err)
			require.Equal(t, "before"+c.want, string(got))
		})
	}
}

func TestMessagesLeavesEmptyAnswersOut(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"role":"assistant","content":[]}`:                          "",
		`{"role":"assistant","content":""}`:                          "",
		`{"role":"user","content":[]}`:                               `{"role":"user","content":[]}`,
		`{"role":"assistant","content":[{"type":"text","text":""}]}`: `{"role":"assistant","content":[{"type":"text","text":""}]}`,
	} {
		got, err := Messages{}.AppendMessage([]byte("before"), []byte(in))
		require.NoError(t, err, in)
		require.Equal(t, "before"+want, string(got), in)
	}
}

func TestMessagesRefusesWhatIsNoMessage(t *testing.T) {
	t.Parallel()
	for _, in := range []string{"", " ", "[]", `"x"`, "{", `{"a":1}{}`, "null"} {
		got, err := Messages{}.AppendMessage([]byte("kept"), []byte(in))
		require.EqualError(t, err, "message is not a JSON object", in)
		require.Equal(t, "kept", string(got))
	}
}

// anyJSON draws a JSON value as text, with the white space and number forms that
// a decode and encode would change.
func anyJSON(depth int) *rapid.Generator[string] {
	scalar := rapid.OneOf(
		rapid.SampledFrom([]string{"null", "true", "12345678901234567890", "-0.0", "1E+2", `"\u0064ispatch"`, `"caller"`, `"a\\\"b"`, `""`}),
		rapid.Map(rapid.String(), func(s string) string { return string(quote(s)) }),
	)
	if depth == 0 {
		return scalar
	}
	return rapid.Custom(func(t *rapid.T) string {
		space := rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "space")
		var parts []string
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 0:
			return scalar.Draw(t, "scalar")
		case 1:
			for range rapid.IntRange(0, 3).Draw(t, "n") {
				parts = append(parts, anyJSON(depth-1).Draw(t, "item"))
			}
			return "[" + space + strings.Join(parts, space+","+space) + space + "]"
		}
		for range rapid.IntRange(0, 3).Draw(t, "n") {
			key := rapid.SampledFrom([]string{"dispatch", "caller", "x", "input", "\u00e9"}).Draw(t, "key")
			parts = append(parts, string(quote(key))+space+":"+anyJSON(depth-1).Draw(t, "value"))
		}
		return "{" + space + strings.Join(parts, space+","+space) + "}"
	})
}

func TestMessagesIsByteIdenticalButForRemovedMembers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var with, without strings.Builder
		both := func(s string) { with.WriteString(s); without.WriteString(s) }
		space := rapid.SampledFrom([]string{"", " ", "\n"})
		both(`{"role":` + space.Draw(t, "s") + `"assistant","content":[`)
		for i := range rapid.IntRange(1, 4).Draw(t, "blocks") {
			if i > 0 {
				both(",")
			}
			kind := rapid.SampledFrom([]string{"tool_use", "text", "unknown"}).Draw(t, "type")
			both("{")
			first, firstKept := true, true
			for range rapid.IntRange(0, 2).Draw(t, "before") {
				removed(t, &with, &without, kind, &first, &firstKept)
			}
			for _, member := range []string{`"type":"` + kind + `"`, `"v":` + anyJSON(2).Draw(t, "v")} {
				if !first {
					with.WriteString(",")
				}
				if !firstKept {
					without.WriteString(",")
				}
				both(member)
				first, firstKept = false, false
				for range rapid.IntRange(0, 2).Draw(t, "after") {
					removed(t, &with, &without, kind, &first, &firstKept)
				}
			}
			both("}")
		}
		both("]}")
		got, err := Messages{}.AppendMessage(nil, []byte(with.String()))
		require.NoError(t, err)
		require.Equal(t, without.String(), string(got))
	})
}

// removed writes a member that only tool_use blocks lose.
func removed(t *rapid.T, with, without *strings.Builder, kind string, first, firstKept *bool) {
	member := rapid.SampledFrom([]string{`"dispatch":`, `"caller":`, `"\u0063aller":`}).Draw(t, "key") + anyJSON(1).Draw(t, "removed")
	if !*first {
		with.WriteString(",")
	}
	with.WriteString(member)
	*first = false
	if kind == "tool_use" {
		return
	}
	if !*firstKept {
		without.WriteString(",")
	}
	without.WriteString(member)
	*firstKept = false
}

func TestDistinctToolsKeepsTheFirstOfEachName(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                 "",
		"null":             "",
		"[]":               "",
		" [ ] ":            "",
		`[ {"name":"a"} ]`: `[ {"name":"a"} ]`,
		`[{"name":"a","x":1.0},{"name":"b"},{"name":"a","x":2}]`: `[{"name":"a","x":1.0},{"name":"b"}]`,
	} {
		got, err := distinctTools(json.RawMessage(in))
		require.NoError(t, err, in)
		require.Equal(t, want, string(got), in)
	}
	for _, in := range []string{"{}", "[", `"x"`} {
		_, err := distinctTools(json.RawMessage(in))
		require.ErrorContains(t, err, "tools: want a JSON array", in)
	}
}

func TestMessagesAnswerRefusesWhatNoHistoryCanHold(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                             "not JSON",
		`<html>`:                       "not JSON",
		`[]`:                           "the answer is an array, want a message object",
		`"x"`:                          "the answer is a string",
		`{}`:                           "content is nothing, want an array of blocks or a string",
		`{"content":null}`:             "content is null",
		`{"content":{}}`:               "content is an object",
		`{"content":["x"]}`:            "content[0] of the answer is a string, want a block",
		`{"content":[{"text":"x"}]}`:   "content[0] of the answer has no type",
		`{"content":[],"role":"user"}`: `role "user", want "assistant"`,
		`{"content":[],"role":null}`:   `role null, want "assistant"`,
		`{"type":"error","error":{"message":"overloaded"}}`:                                             "the answer is an error: overloaded",
		`{"content":[{"type":"text","text":""},{"type":"tool_use","name":"n","input":{}}]}`:             "content[1] of the answer is a tool_use without id or name",
		`{"content":[{"type":"tool_use","id":"i","input":{}}]}`:                                         "a tool_use without id or name",
		`{"content":[{"type":"tool_use","id":"i","name":"n"},{"type":"tool_use","id":"i","name":"n"}]}`: `repeats the tool_use id "i"`,
	} {
		_, err := messagesAnswer(200, []byte(in))
		require.ErrorContains(t, err, want, in)
	}
}

func TestMessagesAnswerPassesContentUntouched(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"content":"plain"}`:               `"plain"`,
		`{"role":"assistant","content":[]}`: `[]`,
		"{\n \"content\": [ {\"type\":\"x\",\r\n \"n\":1e400, \"b\":1, \"a\":\"\u2028\"} ] }": `[{"type":"x","n":1e400,"b":1,"a":"` + "\u2028" + `"}]`,
		"{\"content\":\"\xff\"}": `"` + "\uFFFD" + `"`,
	} {
		got, err := messagesAnswer(200, []byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want, string(got.Content))
		require.NotContains(t, string(got.Body), "\n", "a body fits on a line")
	}
}

func TestMessagesAnswerCountsCachedInput(t *testing.T) {
	t.Parallel()
	got, err := messagesAnswer(200, []byte(`{"content":[],"usage":{"input_tokens":3,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":7}}`))
	require.NoError(t, err)
	require.EqualValues(t, 123, got.InputTokens)
	require.EqualValues(t, 7, got.OutputTokens)
}

func FuzzMessagesAppend(f *testing.F) {
	f.Add([]byte(`{"content":[{"type":"tool_use","dispatch":"client","id":"1","caller":{}}]}`))
	f.Add([]byte(`{"content":[{"dispatch":1,"caller":2,"type":"tool_use"}],"content":[]}`))
	f.Fuzz(func(t *testing.T, message []byte) {
		got, err := Messages{}.AppendMessage(nil, message)
		if err != nil {
			return
		}
		require.True(t, json.Valid(got), "%s", got)
		again, err := Messages{}.AppendMessage(nil, got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(got, again), "nothing is left to take off")
	})
}

func BenchmarkMessagesAppend(b *testing.B) {
	text := strings.Repeat("lorem ipsum ", 100)
	for name, message := range map[string]string{
		"text":     `{"role":"user","content":[{"type":"text","text":"` + text + `"}]}`,
		"tool_use": `{"role":"assistant","content":[{"type":"text","text":"` + text + `"},{"type":"tool_use","id":"toolu_1","name":"a","input":{"x":1},"dispatch":"client"}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(message)))
			b.ReportAllocs()
			dst := make([]byte, 0, 4096)
			for b.Loop() {
				if _, err := (Messages{}).AppendMessage(dst, []byte(message)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
