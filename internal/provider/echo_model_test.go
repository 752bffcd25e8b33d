package provider

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/config"
)

func echoRequest(t *testing.T, text string) Request {
	t.Helper()
	message, err := json.Marshal(map[string]string{"role": "user", "content": text})
	require.NoError(t, err)
	return Request{System: "Be kind.", Messages: segments(t, Messages{}, string(message)), Tools: json.RawMessage(toolList)}
}

func TestEchoAnswersAsTheAnthropicAPIWould(t *testing.T) {
	t.Parallel()
	p := lookup(t, config.Provider{Kind: "echo", Model: "echo-1"}, Options{})
	for name, text := range map[string]string{
		"text":  "hello <you> & \"me\"",
		"tools": "/think Two calls.\n/tool weather {\"city\": \"Zürich\"}\n/tool clock",
	} {
		got, err := p.Call(t.Context(), echoRequest(t, text))
		require.NoError(t, err)
		require.Equal(t, 200, got.Status)
		golden(t, "echo_"+name+".json", string(got.Body))
		require.NotZero(t, got.InputTokens)
		require.NotZero(t, got.OutputTokens)
	}
}

func TestEchoStreamsTheBodyItGivesWhole(t *testing.T) {
	t.Parallel()
	p := lookup(t, config.Provider{Kind: "echo"}, Options{})
	r := echoRequest(t, "/think Let me see.\nhello there you\n/tool weather {\"city\":\"Zürich\"}")
	whole, err := p.Call(t.Context(), r)
	require.NoError(t, err)

	texts := map[int]string{}
	kinds := map[int]string{}
	count := 0
	r.OnDelta = func(d Delta) { texts[d.Index] += d.Text; kinds[d.Index] = d.Type; count++ }
	streamed, err := p.Call(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, whole, streamed)
	require.Equal(t, map[int]string{0: "Let me see.", 1: `{"city":"Zürich"}`, 2: "You said: hello there you"}, texts)
	require.Equal(t, map[int]string{0: "thinking", 1: "input_json", 2: "text"}, kinds)
	require.Equal(t, 3+2+5, count, "word by word")
}

func TestEchoTakesItsTimeAndStopsWithTheContext(t *testing.T) {
	t.Parallel()
	var slept sleeps
	p := lookup(t, config.Provider{Kind: "echo"}, Options{Sleep: slept.sleep})
	_, err := p.Call(t.Context(), echoRequest(t, "/sleep 3s\n/slow 70ms\na b"))
	require.NoError(t, err)
	require.Equal(t, []time.Duration{3 * time.Second, 70 * time.Millisecond, 70 * time.Millisecond, 70 * time.Millisecond, 70 * time.Millisecond}, slept.list)

	cause := errors.New("closed")
	ctx, cancel := context.WithCancelCause(t.Context())
	r := echoRequest(t, "/slow\na b c d")
	deltas := 0
	r.OnDelta = func(Delta) {
		if deltas++; deltas == 2 {
			cancel(cause)
		}
	}
	_, err = p.Call(ctx, r)
	require.ErrorIs(t, err, cause)
	require.Equal(t, 2, deltas)
}

func TestEchoFailsAsAskedAndAFallbackAnswers(t *testing.T) {
	t.Parallel()
	r, err := NewRegistry([]config.Provider{
		{Name: "echo", Kind: "echo", Model: "echo", MaxRetries: 3}, {Name: "echo-2", Kind: "echo", Model: "echo"},
	}, Options{})
	require.NoError(t, err)
	primary, _ := r.Lookup("echo")
	fallback, _ := r.Lookup("echo-2")

	request := echoRequest(t, "/fail 503 echo\nAre you there?")
	_, err = primary.Call(t.Context(), request)
	failed := failedWith(t, err, `HTTP 503 from echo: {"type":"error"`)
	require.Equal(t, 503, failed.Status)
	require.True(t, json.Valid([]byte(*failed.Body)))
	got, err := fallback.Call(t.Context(), request)
	require.NoError(t, err)
	require.Contains(t, string(got.Content), "You said: Are you there?")

	_, err = primary.Call(t.Context(), echoRequest(t, "/fail 0"))
	failed = failedWith(t, err, "connect to echo: no answer, as asked")
	require.Zero(t, failed.Status)
	require.Nil(t, failed.Body)
}

func TestEchoCountsFourBytesAToken(t *testing.T) {
	t.Parallel()
	p := lookup(t, config.Provider{Kind: "echo"}, Options{})
	got, err := p.Call(t.Context(), Request{Messages: [][]byte{[]byte(`{"role":"user",`), []byte(`"content":"` + strings.Repeat("x", 369) + `"}`)}})
	require.NoError(t, err)
	require.EqualValues(t, 100, got.InputTokens)
	require.EqualValues(t, (10+369+3)/4, got.OutputTokens)
}

func TestEchoRefusesWhatNoEngineSends(t *testing.T) {
	t.Parallel()
	p := lookup(t, config.Provider{Kind: "echo"}, Options{})
	_, err := p.Call(t.Context(), Request{Messages: [][]byte{[]byte(`{`)}})
	failedWith(t, err, "messages are not a JSON array")
	for _, kind := range []string{"echo", "anthropic", "openai", "bedrock"} {
		p := lookup(t, config.Provider{Kind: kind, BaseURL: "http://127.0.0.1:1"}, Options{})
		_, err = p.Call(t.Context(), Request{Tools: json.RawMessage(`{}`)})
		failedWith(t, err, "tools: want a JSON array, got an object")
	}
}

func TestBedrockThatIsNotBuiltInSaysSo(t *testing.T) {
	t.Parallel()
	p := lookup(t, config.Provider{Kind: "bedrock"}, Options{})
	_, err := p.Call(t.Context(), Request{})
	require.True(t, failedWith(t, err, "call main: this program is built without Amazon Bedrock; use an entry of another kind").Config)
}

func TestBedrockHosts(t *testing.T) {
	t.Parallel()
	require.Equal(t, "", bedrockHost(""))
	require.Equal(t, "https://bedrock-runtime.us-east-1.amazonaws.com", bedrockHost("us-east-1"))
	require.Equal(t, "https://bedrock-runtime.cn-north-1.amazonaws.com.cn", bedrockHost("cn-north-1"))
}
