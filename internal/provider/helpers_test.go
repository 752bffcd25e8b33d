package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lambae/lambae/internal/config"
)

// No call leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seen is a request as a server saw it.
type seen struct {
	method, path string
	header       http.Header
	body         string
	length       int64
}

// server plays a model API: the n-th request gets the n-th answer, further ones the last.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	requests []seen
}

func serve(t *testing.T, answers ...http.HandlerFunc) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		s.mu.Lock()
		n := len(s.requests)
		s.requests = append(s.requests, seen{r.Method, r.URL.Path, r.Header.Clone(), string(body), r.ContentLength})
		s.mu.Unlock()
		answers[min(n, len(answers)-1)](w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) all() []seen {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]seen(nil), s.requests...)
}

func (s *server) last(t *testing.T) seen {
	t.Helper()
	all := s.all()
	require.NotEmpty(t, all)
	return all[len(all)-1]
}

// answer is a handler that writes status and text; a text that begins like an
// event stream is sent as one.
func answer(status int, text string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasPrefix(text, "event:") || strings.HasPrefix(text, "data:") {
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		}
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, text)
	}
}

// file reads a file of testdata.
func file(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	require.NoError(t, err)
	return string(data)
}

// compact takes white space out and leaves everything else.
func compact(t *testing.T, s string) string {
	t.Helper()
	var out bytes.Buffer
	require.NoError(t, json.Compact(&out, []byte(s)))
	return out.String()
}

// golden compares got with a file of testdata, or writes it with UPDATE_GOLDEN=1.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		require.NoError(t, os.WriteFile(path, []byte(got+"\n"), 0o644))
	}
	require.Equal(t, strings.TrimSuffix(file(t, name), "\n"), got)
}

// segments puts canonical messages into the format's wire form, one segment each.
func segments(t testing.TB, f Format, messages ...string) (out [][]byte) {
	t.Helper()
	for i, m := range messages {
		var dst []byte
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, err := f.AppendMessage(dst, []byte(m))
		require.NoError(t, err)
		out = append(out, dst)
	}
	return out
}

// conversation is a history with everything in it that every format can say.
func conversation() []string {
	return []string{
		`{"role":"user","content":"What is the weather in Paris & Oslo?"}`,
		`{"role":"assistant","content":[{"type":"thinking","thinking":"Two calls.","signature":"c2ln"},{"type":"text","text":"I look."},` +
			`{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Paris","n":12345678901234567890},"dispatch":"client"},` +
			`{"type":"tool_use","id":"toolu_2","name":"weather","input":{"city":"Oslo"},"dispatch":"mcp"}]}`,
		`{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"18 °C"},` +
			`{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":[{"type":"text","text":"no such city"}]},` +
			`{"type":"text","text":"and this?"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"aGk="}}]}`,
		`{"role":"assistant","content":"Fine."}`,
	}
}

const toolList = `[{"name":"weather","description":"Looks out","input_schema":{"type":"object","properties":{"city":{"type":"string"}}}},` +
	`{"name":"clock","input_schema":{"type":"object"}},{"name":"weather","input_schema":{"type":"object","x":"later"}}]`

// failedWith asserts that err is a failed attempt and returns it.
func failedWith(t *testing.T, err error, detail string) *Error {
	t.Helper()
	var failed *Error
	require.ErrorAs(t, err, &failed)
	require.Contains(t, failed.Detail, detail)
	return failed
}

// sleeps records waits and takes none.
type sleeps struct {
	mu   sync.Mutex
	list []time.Duration
}

func (s *sleeps) sleep(ctx context.Context, d time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, d)
	return ctx.Err()
}

func anthropicAt(t *testing.T, url string, o Options) Provider {
	t.Helper()
	return lookup(t, config.Provider{Kind: "anthropic", BaseURL: url, AuthToken: "sk-hush", MaxTokens: 100, MaxRetries: 2}, o)
}

func hello(t testing.TB, p Provider) Request {
	return Request{Messages: segments(t, p.Format(), `{"role":"user","content":"hello"}`)}
}
