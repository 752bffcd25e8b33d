package mcp

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

// A call over HTTP whose answer is lost may have run, one that was refused has not.
func TestACallOverHTTPIsSentTwiceOnlyWhenItWasRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fail  func(http.ResponseWriter)
		calls int32
		err   string
	}{
		{"answer lost", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 1,
			`no result from MCP server "remote": the server closed the connection`},
		{"gateway error", func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) }, 1,
			`no result from MCP server "remote": Bad Gateway`},
		{"stream cut", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Write([]byte(": working\n\n"))
		}, 1, `no result from MCP server "remote": request terminated without response`},
		{"session unknown", func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }, 2, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, "http", "", nil)
			inner := *r.handler.Load()
			var calls atomic.Int32
			var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, _ := io.ReadAll(req.Body)
				req.Body = io.NopCloser(strings.NewReader(string(body)))
				if strings.Contains(string(body), `"tools/call"`) && calls.Add(1) == 1 {
					tt.fail(w)
					return
				}
				inner.ServeHTTP(w, req)
			})
			r.handler.Store(&h)
			p := newPool(t, nil, r.Server)
			_, err := p.Call(t.Context(), "s", "remote", "pid", nil)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.err)
				_, err = p.Call(t.Context(), "s", "remote", "pid", nil)
				require.NoError(t, err, "the next call works")
				tt.calls++
			}
			require.Equal(t, tt.calls, calls.Load())
		})
	}
}

func TestRequestsNameTheProtocolVersion(t *testing.T) {
	t.Parallel()
	r := newRemote(t, "http", "", nil)
	inner := *r.handler.Load()
	var mu sync.Mutex
	versions := map[string]string{}
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		var m struct{ Method string }
		json.Unmarshal(body, &m)
		mu.Lock()
		versions[req.Method+" "+m.Method] = req.Header.Get("Mcp-Protocol-Version")
		mu.Unlock()
		inner.ServeHTTP(w, req)
	})
	r.handler.Store(&h)
	p := newPool(t, nil, r.Server)
	callText(t, p, "s", "remote", "pid", `{}`)
	p.Release("s")
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, map[string]string{
		"POST initialize":                "",
		"POST notifications/initialized": legacyVersion,
		"POST tools/call":                legacyVersion,
		"DELETE ":                        legacyVersion,
	}, versions, "and no stream is held open")
}

// A server of 2026-07-28 only, whose tool takes an argument as a header: a new
// connection does not know of it before it listed the tools.
func TestAServerOfTheNewestProtocolIsReached(t *testing.T) {
	t.Parallel()
	s := sdk.NewServer(&sdk.Implementation{Name: "new", Version: "1"}, &sdk.ServerOptions{SupportedProtocolVersions: []string{"2026-07-28"}})
	s.AddTool(&sdk.Tool{
		Name:        "routed",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}`),
	}, func(_ context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: r.Extra.Header.Get("Mcp-Param-Region")}}}, nil
	})
	inner := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s }, &sdk.StreamableHTTPOptions{Stateless: true})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		if strings.Contains(string(body), `"initialize"`) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported protocol version"}}`)
			return
		}
		inner.ServeHTTP(w, req)
	}))
	t.Cleanup(srv.Close)
	server := Server{Name: "new", Transport: "http", URL: srv.URL}

	p := newPool(t, nil, server)
	require.Equal(t, "eu", callText(t, p, "s", "new", "routed", `{"region":"eu"}`))
	require.Equal(t, "us", callText(t, p, "s", "new", "routed", `{"region":"us"}`))
	require.Equal(t, []string{"routed"}, names(p.List(t.Context(), "s", []string{"new"})))
	require.Equal(t, []string{"routed"}, names(p.List(t.Context(), "s", []string{"new"})))
}

func TestAServerThatAsksForInputIsToldThereIsNone(t *testing.T) {
	t.Parallel()
	for _, s := range []Server{newRemote(t, "http", "", nil).Server, stdio("remote", "tools")} {
		p := newPool(t, nil, s)
		require.Contains(t, callText(t, p, "s", "remote", "ask", `{}`), "does not support")
	}
}

func TestAMessageBeyondTheLimitFailsItsCall(t *testing.T) {
	t.Parallel()
	r := newRemote(t, "http", "", nil)
	inner := *r.handler.Load()
	var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		req.Body = io.NopCloser(strings.NewReader(string(body)))
		if !strings.Contains(string(body), `"tools/call"`) {
			inner.ServeHTTP(w, req)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		chunk := []byte(strings.Repeat(" ", 1<<20))
		for range maxMessage>>20 + 1 {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	r.handler.Store(&h)
	p := newPool(t, nil, r.Server)
	_, err := p.Call(t.Context(), "s", "remote", "pid", nil)
	require.ErrorContains(t, err, "the answer is larger than 16 MB")
}
