package bedrock

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/provider"
)

const (
	model = "eu.anthropic.claude-x-v1:0"
	fine  = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"fine"}],"usage":{"input_tokens":3,"output_tokens":1}}`
)

// runtime plays the API: the n-th call gets the n-th answer, further ones the last.
func runtime(t *testing.T, answers ...http.HandlerFunc) (cfg aws.Config, bodies func() []string) {
	t.Helper()
	var seen []string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, r.URL.Path+" "+string(body))
		if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=id/") {
			http.Error(w, "unsigned", http.StatusForbidden)
			return
		}
		answers[min(len(seen), len(answers))-1](w, r)
	}))
	t.Cleanup(srv.Close)
	return aws.Config{
		Region:       "eu-west-1",
		BaseEndpoint: aws.String(srv.URL),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		}),
	}, func() []string { return seen }
}

func whole(status int, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

// stream sends events in the AWS event stream encoding; one that begins with
// "!" is an exception, "!Name message".
func stream(t *testing.T, events ...string) http.HandlerFunc {
	t.Helper()
	var out bytes.Buffer
	for _, e := range events {
		message := eventstream.Message{Payload: fmt.Appendf(nil, `{"bytes":"%s"}`, base64.StdEncoding.EncodeToString([]byte(e)))}
		kind, name, label := "event", ":event-type", "chunk"
		if exception, ok := strings.CutPrefix(e, "!"); ok {
			code, text, _ := strings.Cut(exception, " ")
			kind, name, label = "exception", ":exception-type", code
			message.Payload = fmt.Appendf(nil, `{"message":"%s"}`, text)
		}
		message.Headers.Set(":message-type", eventstream.StringValue(kind))
		message.Headers.Set(name, eventstream.StringValue(label))
		message.Headers.Set(":content-type", eventstream.StringValue("application/json"))
		require.NoError(t, eventstream.NewEncoder().Encode(&out, message))
	}
	return whole(200, out.String(), "Content-Type", "application/vnd.amazon.eventstream")
}

// entry is a bedrock entry with two retries over the given configuration.
func entry(t *testing.T, load func(context.Context) (aws.Config, error), slept *[]time.Duration) provider.Provider {
	t.Helper()
	r, err := provider.NewRegistry([]config.Provider{{Name: "main", Kind: "bedrock", Model: model, MaxTokens: 100, MaxRetries: 2}}, provider.Options{
		Bedrock: New(load),
		Sleep:   func(_ context.Context, d time.Duration) error { *slept = append(*slept, d); return nil },
		Random:  func() float64 { return 0 },
	})
	require.NoError(t, err)
	p, ok := r.Lookup("main")
	require.True(t, ok)
	return p
}

func at(cfg aws.Config) func(context.Context) (aws.Config, error) {
	return func(context.Context) (aws.Config, error) { return cfg, nil }
}

func request() provider.Request {
	return provider.Request{
		System:   "Be brief.",
		Messages: [][]byte{[]byte(`{"role":"user","content":"a & b"}`), []byte(`,{"role":"assistant","content":"c"}`)},
		Tools:    json.RawMessage(`[{"name":"t","input_schema":{}},{"name":"t"}]`),
	}
}

func TestACallIsTheAnthropicFormatWithoutModelOrToken(t *testing.T) {
	t.Parallel()
	cfg, bodies := runtime(t, whole(200, fine))
	p := entry(t, at(cfg), nil)
	got, err := p.Call(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, fine, string(got.Body))
	require.Equal(t, `[{"type":"text","text":"fine"}]`, string(got.Content))
	require.EqualValues(t, 3, got.InputTokens)
	want, err := os.ReadFile("testdata/request.json")
	require.NoError(t, err)
	require.Equal(t, []string{"/model/" + model + "/invoke " + strings.TrimSpace(string(want))}, bodies())
}

func TestAStreamGivesTheBodyOfACallWithoutStreaming(t *testing.T) {
	t.Parallel()
	cfg, bodies := runtime(t, stream(t,
		`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":3,"output_tokens":0}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"fi"}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ne"}}`,
		`{"type":"message_delta","delta":{},"usage":{"output_tokens":1}}`,
		`{"type":"message_stop","amazon-bedrock-invocationMetrics":{"inputTokenCount":3}}`,
	))
	p := entry(t, at(cfg), nil)
	r := request()
	var deltas []provider.Delta
	r.OnDelta = func(d provider.Delta) { deltas = append(deltas, d) }
	got, err := p.Call(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, fine, string(got.Body))
	require.Equal(t, []provider.Delta{{Index: 0, Type: "text", Text: "fi"}, {Index: 0, Type: "text", Text: "ne"}}, deltas)
	require.Contains(t, bodies()[0], "/invoke-with-response-stream {\"anthropic_version\"")
	require.NotContains(t, bodies()[0], `"stream"`)
}

func TestARefusalTellsStatusBodyAndDetail(t *testing.T) {
	t.Parallel()
	cfg, bodies := runtime(t, whole(400, `{"message":"max_tokens: too many"}`, "X-Amzn-Errortype", "ValidationException:http://x/"))
	for _, onDelta := range []func(provider.Delta){nil, func(provider.Delta) {}} {
		r := request()
		r.OnDelta = onDelta
		_, err := entry(t, at(cfg), nil).Call(t.Context(), r)
		var failed *provider.Error
		require.ErrorAs(t, err, &failed)
		require.Equal(t, 400, failed.Status)
		require.Equal(t, `{"message":"max_tokens: too many"}`, *failed.Body)
		require.Equal(t, "HTTP 400 from main: ValidationException: max_tokens: too many", failed.Detail)
		require.False(t, failed.Temporary)
	}
	require.Len(t, bodies(), 2)
}

func TestThrottlingIsTriedAgainAsTheEntrySays(t *testing.T) {
	t.Parallel()
	throttled := func(headers ...string) http.HandlerFunc {
		return whole(429, `{"message":"slow down"}`, append(headers, "X-Amzn-Errortype", "ThrottlingException")...)
	}
	cfg, _ := runtime(t, throttled("Retry-After", "7"), throttled(), whole(200, fine))
	var slept []time.Duration
	_, err := entry(t, at(cfg), &slept).Call(t.Context(), request())
	require.NoError(t, err)
	require.Equal(t, []time.Duration{7 * time.Second, 500 * time.Millisecond}, slept)

	cfg, bodies := runtime(t, throttled())
	_, err = entry(t, at(cfg), &slept).Call(t.Context(), request())
	require.ErrorContains(t, err, "HTTP 429 from main: ThrottlingException: slow down")
	require.Len(t, bodies(), 3, "the SDK's own retries are off")
}

func TestAnExceptionInAStreamIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	start := `{"type":"message_start","message":{"role":"assistant","content":[]}}`
	said := `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"a"}}`
	for name, c := range map[string]struct {
		events []string
		detail string
		calls  int
	}{
		"before a delta it is tried again": {[]string{start, "!throttlingException slow down"}, "error in the stream of main: ThrottlingException: slow down", 3},
		"after one it is final":            {[]string{start, said, "!internalServerException oh"}, "error in the stream of main: InternalServerException: oh", 1},
		"a wrong request is final":         {[]string{"!validationException no"}, "error in the stream of main: ValidationException: no", 1},
		"an error event of the model":      {[]string{start, `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`}, "error in the stream of main: invalid_request_error: no", 1},
		"a stream without end":             {[]string{start, said}, "unusable stream from main: the stream ended before message_stop", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg, bodies := runtime(t, stream(t, c.events...))
			r := request()
			r.OnDelta = func(provider.Delta) {}
			var slept []time.Duration
			_, err := entry(t, at(cfg), &slept).Call(t.Context(), r)
			var failed *provider.Error
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.detail, failed.Detail)
			require.Equal(t, 200, failed.Status)
			require.Len(t, bodies(), c.calls)
		})
	}
}

func TestNoConnectionIsAFailedAttemptWithoutStatus(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(nil)
	srv.Close()
	cfg, _ := runtime(t, whole(200, fine))
	cfg.BaseEndpoint = aws.String(srv.URL)
	var slept []time.Duration
	_, err := entry(t, at(cfg), &slept).Call(t.Context(), request())
	var failed *provider.Error
	require.ErrorAs(t, err, &failed)
	require.Contains(t, failed.Detail, "call main: dial tcp ")
	require.Zero(t, failed.Status)
	require.Nil(t, failed.Body)
	require.Len(t, slept, 2)
}

func TestTheEndOfTheContextIsNoFailedAttempt(t *testing.T) {
	t.Parallel()
	cause := errors.New("closed")
	ctx, cancel := context.WithCancelCause(t.Context())
	cfg, _ := runtime(t, func(_ http.ResponseWriter, r *http.Request) { cancel(cause); <-r.Context().Done() })
	_, err := entry(t, at(cfg), nil).Call(ctx, request())
	require.ErrorIs(t, err, cause)
	var failed *provider.Error
	require.False(t, errors.As(err, &failed))
}

func TestTheClientIsBuiltOnFirstUseAndAgainAfterAFailure(t *testing.T) {
	t.Parallel()
	cfg, _ := runtime(t, whole(200, fine))
	var loads atomic.Int32
	p := entry(t, func(context.Context) (aws.Config, error) {
		if loads.Add(1) == 1 {
			return aws.Config{}, errors.New("no profile")
		}
		return cfg, nil
	}, nil)
	require.Zero(t, loads.Load())
	_, err := p.Call(t.Context(), request())
	var failed *provider.Error
	require.ErrorAs(t, err, &failed)
	require.Equal(t, "call main: load AWS configuration: no profile", failed.Detail)
	require.True(t, failed.Config)
	for range 2 {
		_, err = p.Call(t.Context(), request())
		require.NoError(t, err)
	}
	require.EqualValues(t, 2, loads.Load())
}

func TestWithoutARegionTheCallSaysWhatToSet(t *testing.T) {
	t.Parallel()
	_, err := entry(t, at(aws.Config{}), nil).Call(t.Context(), request())
	require.ErrorContains(t, err, "call main: no AWS region is set; set AWS_REGION")
}

func TestABaseURLIsWhereTheCallGoes(t *testing.T) {
	t.Parallel()
	cfg, bodies := runtime(t, whole(200, fine))
	base := *cfg.BaseEndpoint
	cfg.BaseEndpoint = nil
	client, err := New(at(cfg))(t.Context(), base)
	require.NoError(t, err)
	_, err = client.Invoke(t.Context(), model, []byte("{}"))
	require.NoError(t, err)
	require.Len(t, bodies(), 1)
}
