package provider

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"
)

func TestChatSaysCanonicalMessages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"a user's string":       {`{"role":"user","content":"a\u00e9\n<&>"}`, `{"role":"user","content":"a\u00e9\n<&>"}`},
		"an assistant's string": {`{"role":"assistant","content":"a"}`, `{"role":"assistant","content":"a"}`},
		"one text is a string":  {`{"role":"user","content":[{"type":"text","text":"a","cache_control":{}}]}`, `{"role":"user","content":"a"}`},
		"several are parts": {`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`,
			`{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
		"no block at all": {`{"role":"user","content":[]}`, `{"role":"user","content":""}`},
		"an image's data": {`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}`,
			`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]}`},
		"an image's address": {`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image","source":{"type":"url","url":"https://x/y?a&b"}}]}`,
			`{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"https://x/y?a&b"}}]}`},
		"an assistant's texts join": {`{"role":"assistant","content":[{"type":"text","text":"a\n"},{"type":"text","text":"b"}]}`, `{"role":"assistant","content":"a\nb"}`},
		"an assistant's silence":    {`{"role":"assistant","content":[]}`, `{"role":"assistant","content":""}`},
		"thinking is left out": {`{"role":"assistant","content":[{"type":"thinking","thinking":"x"},{"type":"redacted_thinking","data":"x"},{"type":"text","text":"a"}]}`,
			`{"role":"assistant","content":"a"}`},
		"calls with text": {`{"role":"assistant","content":[{"type":"text","text":"I"},{"type":"tool_use","id":"1","name":"n","input":{"a": 12345678901234567890},"dispatch":"mcp","caller":1}]}`,
			`{"role":"assistant","content":"I","tool_calls":[{"id":"1","type":"function","function":{"name":"n","arguments":"{\"a\": 12345678901234567890}"}}]}`},
		"calls alone": {`{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"n","input":{}},{"type":"tool_use","id":"2","name":"m"}]}`,
			`{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"n","arguments":"{}"}},{"id":"2","type":"function","function":{"name":"m","arguments":"{}"}}]}`},
		"results come before the rest": {`{"role":"user","content":[{"type":"text","text":"and"},{"type":"tool_result","tool_use_id":"1","content":"a"},{"type":"tool_result","tool_use_id":"2"},{"type":"text","text":"more"}]}`,
			`{"role":"tool","tool_call_id":"1","content":"a"},{"role":"tool","tool_call_id":"2","content":""},{"role":"user","content":[{"type":"text","text":"and"},{"type":"text","text":"more"}]}`},
		"results alone": {`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":null}]}`, `{"role":"tool","tool_call_id":"1","content":""}`},
		"a result of texts": {`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}`,
			`{"role":"tool","tool_call_id":"1","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`},
		"a result of one text": {`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"a"}]}]}`,
			`{"role":"tool","tool_call_id":"1","content":"a"}`},
		"a failed result": {`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":true,"content":"gone"}]}`,
			`{"role":"tool","tool_call_id":"1","content":"Error: gone"}`},
		"a failed result without words": {`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","is_error":true}]}`,
			`{"role":"tool","tool_call_id":"1","content":"Error: "}`},
		"a result of any JSON": {`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":{"a":[1.0]}},{"type":"tool_result","tool_use_id":"2","content":[1,{}]}]}`,
			`{"role":"tool","tool_call_id":"1","content":"{\"a\":[1.0]}"},{"role":"tool","tool_call_id":"2","content":"[1,{}]"}`},
		"an unknown block in a result": {`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"link","uri":"x"}]}]}`,
			`{"role":"tool","tool_call_id":"1","content":"{\"type\":\"link\",\"uri\":\"x\"}"}`},
		"an image in a result moves": {`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"type":"url","url":"u"}}]},{"type":"text","text":"hm"}]}`,
			`{"role":"tool","tool_call_id":"1","content":"The result is an image, shown in the next message."},` +
				`{"role":"user","content":[{"type":"text","text":"Image in the result of tool call 1:"},{"type":"image_url","image_url":{"url":"u"}},{"type":"text","text":"hm"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := ChatCompletions{}.AppendMessage([]byte("before"), []byte(c.in))
			require.NoError(t, err)
			require.Equal(t, "before"+c.want, string(got))
			require.True(t, json.Valid([]byte("["+c.want+"]")))
		})
	}
}

func TestChatRefusesWhatItCannotSay(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{`:                              "not a JSON object",
		`[]`:                             "message content is nothing",
		`{"role":"user"}`:                "message content is nothing, want a string or an array of blocks",
		`{"role":"user","content":{}}`:   "message content is an object",
		`{"role":"system","content":""}`: `message role is "system", want "user" or "assistant"`,
		`{"role":"user","content":[{"type":"document","source":{}}]}`:                                       `content[0]: a block of type "document" cannot be said in the OpenAI format`,
		`{"role":"user","content":[1]}`:                                                                     `content[0]: a block of type ""`,
		`{"role":"assistant","content":[{"type":"text","text":"a"},{"type":"server_tool_use"}]}`:            `content[1]: a block of type "server_tool_use" cannot be said`,
		`{"role":"assistant","content":[{"type":"text"}]}`:                                                  "content[0]: a text block without text",
		`{"role":"user","content":[{"type":"text","text":1}]}`:                                              "content[0]: a text block without text",
		`{"role":"assistant","content":[{"type":"tool_use","id":"1"}]}`:                                     "content[0]: a tool_use without id or name",
		`{"role":"user","content":[{"type":"tool_result","content":"a"}]}`:                                  "content[0]: a tool_result without tool_use_id",
		`{"role":"user","content":[{"type":"image","source":{"type":"file","file_id":"f"}}]}`:               `whose source is of type "file"`,
		`{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"a/b"}}]}`:        "an image without media_type or data",
		`{"role":"user","content":[{"type":"image","source":{"type":"url"}}]}`:                              "an image without url",
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"image"}]}]}`: `content[0]: an image whose source is of type ""`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text"}]}]}`:  "content[0]: a text block without text",
	} {
		got, err := ChatCompletions{}.AppendMessage([]byte("kept"), []byte(in))
		require.ErrorContains(t, err, want, in)
		require.Equal(t, "kept", string(got))
	}
}

func TestChatSaysOneToolMessagePerResult(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var blocks, ids []string
		rest := 0
		for range rapid.IntRange(0, 6).Draw(t, "blocks") {
			if rapid.Bool().Draw(t, "is result") {
				id := string(quote(fmt.Sprintf("%d-%s", len(ids), rapid.String().Draw(t, "id"))))
				content := rapid.OneOf(
					rapid.SampledFrom([]string{`null`, `""`, `[]`, `"x"`, `[{"type":"text","text":"a"},{"type":"odd"}]`}), anyJSON(1),
				).Filter(func(s string) bool { return !strings.Contains(s, `"type"`) || strings.Contains(s, "odd") }).Draw(t, "content")
				blocks = append(blocks, fmt.Sprintf(`{"type":"tool_result","is_error":%t,"tool_use_id":%s,"content":%s}`, rapid.Bool().Draw(t, "is_error"), id, content))
				ids = append(ids, id)
				continue
			}
			rest++
			blocks = append(blocks, textPart(string(quote(rapid.String().Draw(t, "text")))))
		}
		got, err := ChatCompletions{}.AppendMessage(nil, []byte(`{"role":"user","content":[`+strings.Join(blocks, ",")+`]}`))
		require.NoError(t, err)
		require.True(t, json.Valid([]byte("["+string(got)+"]")), "%s", got)
		messages := gjson.Parse("[" + string(got) + "]").Array()
		require.NotEmpty(t, messages)
		for i, id := range ids {
			require.Equal(t, "tool", messages[i].Get("role").Str)
			require.Equal(t, id, messages[i].Get("tool_call_id").Raw)
		}
		after := messages[len(ids):]
		if rest == 0 && len(ids) > 0 {
			require.Empty(t, after)
			return
		}
		require.Len(t, after, 1)
		require.Equal(t, "user", after[0].Get("role").Str)
	})
}

func TestChatToolsAreFunctions(t *testing.T) {
	t.Parallel()
	got, err := chatTools(json.RawMessage(toolList))
	require.NoError(t, err)
	require.Equal(t, `[{"type":"function","function":{"name":"weather","description":"Looks out","parameters":{"type":"object","properties":{"city":{"type":"string"}}}}},`+
		`{"type":"function","function":{"name":"clock","parameters":{"type":"object"}}}]`, string(got))
	got, err = chatTools(json.RawMessage(`[{"name":"bare"}]`))
	require.NoError(t, err)
	require.Equal(t, `[{"type":"function","function":{"name":"bare"}}]`, string(got))
	got, err = chatTools(json.RawMessage(`[]`))
	require.NoError(t, err)
	require.Nil(t, got)
}

func BenchmarkChatAppend(b *testing.B) {
	text := strings.Repeat("lorem ipsum ", 100)
	for name, message := range map[string]string{
		"text":     `{"role":"user","content":[{"type":"text","text":"` + text + `"}]}`,
		"tool_use": `{"role":"assistant","content":[{"type":"text","text":"` + text + `"},{"type":"tool_use","id":"toolu_1","name":"a","input":{"x":1},"dispatch":"client"}]}`,
		"results":  `{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":"` + text + `"},{"type":"tool_result","tool_use_id":"2","content":[{"type":"text","text":"a"}]}]}`,
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(message)))
			b.ReportAllocs()
			dst := make([]byte, 0, 8192)
			for b.Loop() {
				if _, err := (ChatCompletions{}).AppendMessage(dst, []byte(message)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
