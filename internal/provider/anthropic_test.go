package provider

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/config"
)

func TestAnthropicRequests(t *testing.T) {
	t.Parallel()
	whole := answer(200, `{"role":"assistant","content":[]}`)
	for name, build := range map[string]func(Request) Request{
		"plain":  func(r Request) Request { return r },
		"system": func(r Request) Request { r.System = "Be <brief> & \"kind\".\n"; return r },
		"tools":  func(r Request) Request { r.Tools = json.RawMessage(toolList); return r },
		"empty_tools": func(r Request) Request {
			r.Tools = json.RawMessage("[]")
			return r
		},
		"everything_streamed": func(r Request) Request {
			r.System, r.Tools, r.OnDelta = "Be brief.", json.RawMessage(toolList), func(Delta) {}
			return r
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, whole)
			p := anthropicAt(t, s.URL+"/", Options{})
			_, err := p.Call(t.Context(), build(Request{Messages: segments(t, p.Format(), conversation()...)}))
			require.NoError(t, err)
			got := s.last(t)
			require.Equal(t, "POST /v1/messages", got.method+" "+got.path)
			require.Equal(t, "sk-hush", got.header.Get("X-Api-Key"))
			require.Equal(t, "2023-06-01", got.header.Get("Anthropic-Version"))
			require.Equal(t, "application/json", got.header.Get("Content-Type"))
			require.NotContains(t, got.header, "Idempotency-Key")
			require.NotContains(t, got.header, "Accept-Encoding")
			require.EqualValues(t, len(got.body), got.length)
			require.True(t, json.Valid([]byte(got.body)))
			golden(t, "anthropic_"+name+".json", got.body)
		})
	}
}

func TestAnthropicWithoutATokenSendsNoKey(t *testing.T) {
	t.Parallel()
	s := serve(t, answer(200, `{"content":"x"}`))
	p := lookup(t, config.Provider{Kind: "anthropic", BaseURL: s.URL}, Options{})
	_, err := p.Call(t.Context(), hello(t, p))
	require.NoError(t, err)
	require.NotContains(t, s.last(t).header, "X-Api-Key")
}

func TestAnthropicAnswers(t *testing.T) {
	t.Parallel()
	whole := file(t, "anthropic_whole.json")
	s := serve(t, answer(200, whole))
	p := anthropicAt(t, s.URL, Options{})
	got, err := p.Call(t.Context(), hello(t, p))
	require.NoError(t, err)
	require.Equal(t, 200, got.Status)
	require.Equal(t, compact(t, whole), string(got.Body), "the body as it came, on one line")
	require.Contains(t, string(got.Content), `{"city":"Paris","n":12345678901234567890}`)
	require.EqualValues(t, 472+100, got.InputTokens)
	require.EqualValues(t, 89, got.OutputTokens)
}

func TestAnthropicStreamGivesTheBodyOfACallWithoutStreaming(t *testing.T) {
	t.Parallel()
	for name, newline := range map[string]string{"LF": "\n", "CRLF": "\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stream := strings.ReplaceAll(file(t, "anthropic_stream.txt"), "\n", newline)
			s := serve(t, answer(200, stream), answer(200, file(t, "anthropic_whole.json")))
			p := anthropicAt(t, s.URL, Options{})

			var deltas []string
			r := hello(t, p)
			r.OnDelta = func(d Delta) { deltas = append(deltas, fmt.Sprintf("%d %s %s", d.Index, d.Type, d.Text)) }
			streamed, err := p.Call(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, []string{
				"0 thinking Paris, then", "0 thinking  Oslo.",
				"1 text I lo", "1 text ok at \"bo\nth\" \U0001D11E",
				`2 input_json {"city":"Par`, `2 input_json is","n":12345678901234567890}`,
			}, deltas)

			r.OnDelta = nil
			whole, err := p.Call(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, string(whole.Body), string(streamed.Body))
			require.Equal(t, whole, streamed)
		})
	}
}

func TestAnthropicStreamsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	start := `data: {"type":"message_start","message":{"role":"assistant","content":[]}}` + "\n\n"
	block := `data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"1","name":"n","input":{}}}` + "\n\n"
	input := `data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a"}}` + "\n\n"
	stop := `data: {"type":"message_stop"}` + "\n\n"
	for name, c := range map[string]struct{ stream, want string }{
		"no end":             {start + block, "the stream ended before message_stop"},
		"no start":           {stop, "message_stop came before message_start"},
		"not JSON":           {"data: {\n\n", "an event is not JSON"},
		"half an input":      {start + block + input + stop, "content[0]: the tool input is not JSON; the answer may have reached max_tokens"},
		"a delta of nothing": {start + input + stop, "a delta is for block 0, which did not start"},
		"no message":         {`data: {"type":"message_start"}` + "\n\n", "message_start: want a JSON object, got nothing"},
		"a wrong role":       {`data: {"type":"message_start","message":{"role":"user"}}` + "\n\n" + stop, `the answer has role "user"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer(200, c.stream))
			p := anthropicAt(t, s.URL, Options{})
			r := hello(t, p)
			r.OnDelta = func(Delta) {}
			_, err := p.Call(t.Context(), r)
			require.Equal(t, 200, failedWith(t, err, "unusable stream from main: "+c.want).Status)
			require.Len(t, s.all(), 1, "what is wrong once is wrong again")
		})
	}
}

func TestAnthropicErrorEventInAStreamIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	start := `data: {"type":"message_start","message":{"role":"assistant","content":[]}}` + "\n\n"
	said := `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Hm"}}` + "\n\n"
	overloaded := "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"
	good := file(t, "anthropic_stream.txt")

	t.Run("after a delta it is final", func(t *testing.T) {
		t.Parallel()
		s := serve(t, answer(200, start+said+overloaded), answer(200, good))
		p := anthropicAt(t, s.URL, Options{})
		r := hello(t, p)
		r.OnDelta = func(Delta) {}
		_, err := p.Call(t.Context(), r)
		failed := failedWith(t, err, "error in the stream of main: overloaded_error: Overloaded")
		require.False(t, failed.Temporary)
		require.Contains(t, *failed.Body, "overloaded_error")
		require.Len(t, s.all(), 1)
	})
	t.Run("before one the call is made again", func(t *testing.T) {
		t.Parallel()
		s := serve(t, answer(200, start+overloaded), answer(200, good))
		p := anthropicAt(t, s.URL, Options{Sleep: (&sleeps{}).sleep})
		r := hello(t, p)
		r.OnDelta = func(Delta) {}
		_, err := p.Call(t.Context(), r)
		require.NoError(t, err)
		require.Len(t, s.all(), 2)
	})
	t.Run("an error of the request is final", func(t *testing.T) {
		t.Parallel()
		s := serve(t, answer(200, "data: {\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"no\"}}\n\n"))
		p := anthropicAt(t, s.URL, Options{})
		r := hello(t, p)
		r.OnDelta = func(Delta) {}
		_, err := p.Call(t.Context(), r)
		failedWith(t, err, "invalid_request_error: no")
	})
}

func TestAGatewayThatDoesNotStreamStillServesAStreamedCall(t *testing.T) {
	t.Parallel()
	s := serve(t, answer(200, `{"content":[{"type":"text","text":"a"},{"type":"thinking","thinking":"b"},{"type":"tool_use","id":"1","name":"n","input":{"c":1}},{"type":"x"}]}`), answer(200, `{"content":"all"}`))
	p := anthropicAt(t, s.URL, Options{})
	var deltas []Delta
	r := hello(t, p)
	r.OnDelta = func(d Delta) { deltas = append(deltas, d) }
	for range 2 {
		_, err := p.Call(t.Context(), r)
		require.NoError(t, err)
	}
	require.Equal(t, []Delta{{0, "text", "a"}, {1, "thinking", "b"}, {2, "input_json", `{"c":1}`}, {0, "text", "all"}}, deltas)
}

func TestAServerThatStreamsUnaskedIsRead(t *testing.T) {
	t.Parallel()
	s := serve(t, answer(200, file(t, "anthropic_stream.txt")))
	p := anthropicAt(t, s.URL, Options{})
	got, err := p.Call(t.Context(), hello(t, p))
	require.NoError(t, err)
	require.Equal(t, compact(t, file(t, "anthropic_whole.json")), string(got.Body))
}

func BenchmarkAnthropicCallWithAMegabyteOfHistory(b *testing.B) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		io.WriteString(w, `{"role":"assistant","content":[{"type":"text","text":"ok"}]}`)
	}))
	defer s.Close()
	r, err := NewRegistry([]config.Provider{{Name: "a", Kind: "anthropic", Model: "m", BaseURL: s.URL, AuthToken: "k"}}, Options{})
	require.NoError(b, err)
	p, _ := r.Lookup("a")
	var history []byte
	for i := 0; len(history) < 1<<20; i++ {
		if i > 0 {
			history = append(history, ',')
		}
		history, err = p.Format().AppendMessage(history, []byte(`{"role":"user","content":"`+strings.Repeat("lorem ipsum ", 90)+`"}`))
		require.NoError(b, err)
	}
	req := Request{Messages: [][]byte{history}, Tools: json.RawMessage(toolList)}
	b.SetBytes(int64(len(history)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Call(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}
