package provider

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/config"
)

func openAIAt(t *testing.T, url string, o Options) Provider {
	t.Helper()
	return lookup(t, config.Provider{Kind: "openai", BaseURL: url, AuthToken: "sk-hush", MaxTokens: 100, MaxRetries: 2}, o)
}

const chatFine = `{"choices":[{"message":{"role":"assistant","content":"fine"}}]}`

func TestOpenAIRequests(t *testing.T) {
	t.Parallel()
	for name, build := range map[string]func(Request) Request{
		"plain":       func(r Request) Request { return r },
		"system":      func(r Request) Request { r.System = "Be <brief> & \"kind\".\n"; return r },
		"system_only": func(r Request) Request { return Request{System: "Begin.", Tools: json.RawMessage("[]")} },
		"everything_streamed": func(r Request) Request {
			r.System, r.Tools, r.OnDelta = "Be brief.", json.RawMessage(toolList), func(Delta) {}
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer(200, chatFine))
			p := openAIAt(t, s.URL+"/", Options{})
			_, err := p.Call(t.Context(), build(Request{Messages: segments(t, p.Format(), conversation()...)}))
			require.NoError(t, err)
			got := s.last(t)
			require.Equal(t, "POST /v1/chat/completions", got.method+" "+got.path)
			require.Equal(t, "Bearer sk-hush", got.header.Get("Authorization"))
			require.NotContains(t, got.header, "Anthropic-Version")
			require.EqualValues(t, len(got.body), got.length)
			require.True(t, json.Valid([]byte(got.body)))
			golden(t, "openai_"+name+".json", got.body)
		})
	}
}

func TestOpenAIAnswersBecomeBlocks(t *testing.T) {
	t.Parallel()
	message := func(m string) string { return `{"id":"c1","choices":[{"index":0,"message":` + m + `}]}` }
	for name, c := range map[string]struct{ in, want string }{
		"text":                   {message(`{"role":"assistant","content":"a\u00e9"}`), `[{"type":"text","text":"a\u00e9"}]`},
		"null content":           {message(`{"role":"assistant","content":null}`), `[]`},
		"empty content":          {message(`{"role":"assistant","content":""}`), `[]`},
		"no role":                {message(`{"content":"a"}`), `[{"type":"text","text":"a"}]`},
		"a refusal":              {message(`{"content":null,"refusal":"I will not."}`), `[{"type":"text","text":"I will not."}]`},
		"parts":                  {message(`{"content":[{"type":"text","text":"a"},{"type":"refusal","refusal":"b"},{"type":"odd"}]}`), `[{"type":"text","text":"a"},{"type":"text","text":"b"}]`},
		"calls":                  {message(`{"content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"n","arguments":"{\n\"b\": 1.0, \"a\": 12345678901234567890}"}}]}`), `[{"type":"tool_use","id":"1","name":"n","input":{"b":1.0,"a":12345678901234567890}}]`},
		"text and calls":         {message(`{"content":"t","tool_calls":[{"id":"1","function":{"name":"n","arguments":"{}"}},{"id":"2","function":{"name":"n","arguments":" "}}]}`), `[{"type":"text","text":"t"},{"type":"tool_use","id":"1","name":"n","input":{}},{"type":"tool_use","id":"2","name":"n","input":{}}]`},
		"arguments as an object": {message(`{"tool_calls":[{"id":"1","function":{"name":"n","arguments":{"a":1}}}]}`), `[{"type":"tool_use","id":"1","name":"n","input":{"a":1}}]`},
		"no calls but a null":    {message(`{"content":"a","tool_calls":null}`), `[{"type":"text","text":"a"}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := chatAnswer(200, []byte(c.in))
			require.NoError(t, err)
			require.Equal(t, c.want, string(got.Content))
			require.Equal(t, compact(t, c.in), string(got.Body))
		})
	}
}

func TestOpenAIAnswersThatAreFailedAttempts(t *testing.T) {
	t.Parallel()
	call := func(c string) string { return `{"choices":[{"message":{"tool_calls":[` + c + `]}}]}` }
	for in, want := range map[string]string{
		"<html>":                      "the answer is not JSON",
		"[]":                          "the answer is an array, want a chat completion object",
		"{}":                          "choices[0].message of the answer is nothing, want an object",
		`{"choices":[]}`:              "choices[0].message of the answer is nothing",
		`{"error":{"message":"bad"}}`: "the answer is an error: bad",
		`{"error":"bad"}`:             "the answer is an error: bad",
		`{"choices":[{"message":{"role":"user","content":"a"}}]}`:                     `role "user", want "assistant"`,
		call(`{"id":"1","function":{"name":"n","arguments":"{oops"}}`):                "tool_calls[0] of the answer: the arguments for n are not JSON",
		call(`{"id":"1","function":{"name":"n","arguments":"[1]"}}`):                  "the arguments for n are an array, want a JSON object",
		call(`{"id":"1","function":{"arguments":"{}"}}`):                              "a call without function.name",
		call(`{"id":"1","function":{"name":"n"}},{"id":"1","function":{"name":"n"}}`): `repeats the tool_use id "1"`,
	} {
		s := serve(t, answer(200, in))
		p := openAIAt(t, s.URL, Options{})
		_, err := p.Call(t.Context(), hello(t, p))
		failed := failedWith(t, err, want)
		require.Equal(t, 200, failed.Status)
		require.Equal(t, in, *failed.Body)
		require.Len(t, s.all(), 1)
	}
}

func TestACallWithoutIDGetsOneFromTheAnswer(t *testing.T) {
	t.Parallel()
	in := func(id string) []byte {
		return []byte(`{"id":"` + id + `","choices":[{"message":{"tool_calls":[{"function":{"name":"n"}},{"id":"","function":{"name":"n"}}]}}]}`)
	}
	ids := map[string]bool{}
	for _, answer := range []string{"a", "b", "a"} {
		got, err := chatAnswer(200, in(answer))
		require.NoError(t, err)
		var blocks []struct{ ID string }
		require.NoError(t, json.Unmarshal(got.Content, &blocks))
		for _, b := range blocks {
			require.Regexp(t, `^call_[0-9a-f]{24}$`, b.ID)
			ids[b.ID] = true
		}
	}
	require.Len(t, ids, 4, "distinct within and between answers, the same for the same answer")
}

func TestOpenAIStreamGivesTheBodyOfACallWithoutStreaming(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"openai_text", "openai_calls"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer(200, file(t, name+"_stream.txt")), answer(200, file(t, name+"_whole.json")))
			p := openAIAt(t, s.URL, Options{})
			var deltas []string
			r := hello(t, p)
			r.OnDelta = func(d Delta) { deltas = append(deltas, fmt.Sprintf("%d %s %s", d.Index, d.Type, d.Text)) }
			streamed, err := p.Call(t.Context(), r)
			require.NoError(t, err)
			golden(t, name+"_deltas.txt", strings.Join(deltas, "\n"))
			r.OnDelta = nil
			whole, err := p.Call(t.Context(), r)
			require.NoError(t, err)
			require.JSONEq(t, string(whole.Body), string(streamed.Body))
			require.Equal(t, string(whole.Content), string(streamed.Content))
			require.Equal(t, []int64{whole.InputTokens, whole.OutputTokens}, []int64{streamed.InputTokens, streamed.OutputTokens})
			require.NotZero(t, streamed.InputTokens)
		})
	}
}

func TestOpenAIStreamsOfOtherServers(t *testing.T) {
	t.Parallel()
	chunk := func(delta, finish string) string {
		return `data: {"id":"1","object":"chat.completion.chunk","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + finish + `}],"usage":null}` + "\n\n"
	}
	for name, c := range map[string]struct{ stream, want string }{
		"calls without index": {
			chunk(`{"tool_calls":[{"id":"1","function":{"name":"n","arguments":"{\"a\""}}]}`, "null") + chunk(`{"tool_calls":[{"function":{"arguments":":1}"}}]}`, "null") +
				chunk(`{"tool_calls":[{"id":"2","function":{"name":"m","arguments":"{}"}}]}`, `"tool_calls"`),
			`[{"type":"tool_use","id":"1","name":"n","input":{"a":1}},{"type":"tool_use","id":"2","name":"m","input":{}}]`,
		},
		"a name in every fragment": {
			chunk(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"n","arguments":"{"}}]}`, "null") + chunk(`{"tool_calls":[{"index":0,"id":"1","function":{"name":"n","arguments":"}"}}]}`, `"stop"`),
			`[{"type":"tool_use","id":"1","name":"n","input":{}}]`,
		},
		"no [DONE]":              {chunk(`{"content":"a"}`, "null") + chunk(`{}`, `"stop"`), `[{"type":"text","text":"a"}]`},
		"no finish_reason":       {chunk(`{"content":"a"}`, "null") + "data: [DONE]\n\n", `[{"type":"text","text":"a"}]`},
		"a chunk without choice": {"data: {\"choices\":[],\"prompt_filter_results\":[]}\n\n" + chunk(`{"content":"a"}`, `"stop"`), `[{"type":"text","text":"a"}]`},
		"a refusal":              {chunk(`{"role":"assistant","content":"","refusal":null}`, "null") + chunk(`{"refusal":"No"}`, "null") + chunk(`{"refusal":"."}`, `"stop"`), `[{"type":"text","text":"No."}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer(200, c.stream))
			p := openAIAt(t, s.URL, Options{})
			r := hello(t, p)
			r.OnDelta = func(Delta) {}
			got, err := p.Call(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got.Content))
			require.Contains(t, string(got.Body), `"choices":[{"index":0,`)
		})
	}
}

func TestOpenAIStreamsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	for stream, want := range map[string]string{
		"data: [DONE]\n\n": "unusable stream from main: the stream held no chunk",
		"data: {\n\n":      "unusable stream from main: an event is not JSON",
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n":                                                                                       "the stream ended before finish_reason",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":\"x\"}}]}}]}\n\n":                                                              "a tool call began without function.name",
		"data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"1\",\"function\":{\"name\":\"n\",\"arguments\":\"{oops\"}}]},\"finish_reason\":\"length\"}]}\n\n": "the arguments for n are not JSON",
		"data: {\"error\":{\"message\":\"bad\",\"type\":\"invalid_request_error\"}}\n\n":                                                                                         "error in the stream of main: invalid_request_error: bad",
		"data: {\"error\":\"bad\"}\n\n": "error in the stream of main: error: bad",
	} {
		s := serve(t, answer(200, stream))
		p := openAIAt(t, s.URL, Options{})
		r := hello(t, p)
		r.OnDelta = func(Delta) {}
		_, err := p.Call(t.Context(), r)
		require.Equal(t, 200, failedWith(t, err, want).Status)
		require.Len(t, s.all(), 1)
	}
}

func TestOpenAITemporaryErrorInAStreamIsTriedAgain(t *testing.T) {
	t.Parallel()
	for _, e := range []string{`{"type":"server_error"}`, `{"code":503}`, `{"code":"429"}`, `{"code":"rate_limit_exceeded"}`} {
		s := serve(t, answer(200, `data: {"error":`+e+"}\n\n"), answer(200, chatFine))
		p := openAIAt(t, s.URL, Options{Sleep: (&sleeps{}).sleep})
		r := hello(t, p)
		r.OnDelta = func(Delta) {}
		_, err := p.Call(t.Context(), r)
		require.NoError(t, err, e)
	}
}

func TestTheLimitIsCalledWhatTheServerKnows(t *testing.T) {
	t.Parallel()
	wants := answer(400, `{"error":{"message":"Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."}}`)
	s := serve(t, wants, answer(200, chatFine))
	p := openAIAt(t, s.URL, Options{})
	for range 2 {
		_, err := p.Call(t.Context(), hello(t, p))
		require.NoError(t, err)
	}
	all := s.all()
	require.Len(t, all, 3)
	require.Contains(t, all[0].body, `"max_tokens":100`)
	require.Contains(t, all[1].body, `"max_completion_tokens":100`)
	require.Contains(t, all[2].body, `"max_completion_tokens":100`, "it is remembered")

	s = serve(t, wants)
	p = openAIAt(t, s.URL, Options{})
	_, err := p.Call(t.Context(), hello(t, p))
	require.Error(t, err)
	require.Len(t, s.all(), 2, "and tried once")
}

func TestOpenAIsOwnHostGetsTheNewName(t *testing.T) {
	t.Parallel()
	s := serve(t, answer(200, chatFine))
	toServer := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		require.Equal(t, "https://api.openai.com/v1/chat/completions", r.URL.String())
		r.URL.Scheme, r.URL.Host = "http", strings.TrimPrefix(s.URL, "http://")
		return s.Client().Transport.RoundTrip(r)
	})}
	p := lookup(t, config.Provider{Kind: "openai", AuthToken: "k"}, Options{HTTPClient: toServer})
	_, err := p.Call(t.Context(), hello(t, p))
	require.NoError(t, err)
	require.Contains(t, s.last(t).body, `"max_completion_tokens":4096`)
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
