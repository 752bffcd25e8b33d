package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
)

func TestEveryTransportListsAndCalls(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"stdio", "http", "sse"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			var s Server
			if transport == "stdio" {
				s = stdio("remote", "tools")
			} else {
				s = newRemote(t, transport, "", nil).Server
			}
			p := newPool(t, nil, s)

			tools := p.List(t.Context(), "ses_1", []string{"remote"})
			require.Equal(t, allTools, names(tools))
			require.Equal(t, Tool{"remote", "arguments", "does arguments", json.RawMessage(`{"type":"object"}`)}, tools[0])

			for _, tt := range []struct {
				name, tool, input, raw, content string
				isError                         bool
			}{
				{"a text", "arguments", `{"q":"x"}`,
					`{"content":[{"type":"text","text":"{\"q\":\"x\"}"}],"isError":false}`, `[{"type":"text","text":"{\"q\":\"x\"}"}]`, false},
				{"no input is an empty object", "arguments", ``,
					`{"content":[{"type":"text","text":"{}"}],"isError":false}`, `[{"type":"text","text":"{}"}]`, false},
				{"big numbers reach the tool", "arguments", `{"b":12345678901234567890,"a":1.10}`,
					`{"content":[{"type":"text","text":"{\"b\":12345678901234567890,\"a\":1.10}"}],"isError":false}`,
					`[{"type":"text","text":"{\"b\":12345678901234567890,\"a\":1.10}"}]`, false},
				{"a tool's failure is a result", "fail", `{}`,
					`{"content":[{"type":"text","text":"no such page"}],"isError":true}`, `[{"type":"text","text":"no such page"}]`, true},
				{"an image", "image", `{}`,
					`{"content":[{"type":"image","mimeType":"image/png","data":"cGl4ZWxz"}],"isError":false}`,
					`[{"type":"image","mimeType":"image/png","data":"cGl4ZWxz"}]`, false},
				{"structured content alone becomes a text", "structured", `{}`,
					`{"content":[],"structuredContent":{"n":12345678901234567890},"isError":false}`,
					`[{"type":"text","text":"{\"n\":12345678901234567890}"}]`, false},
			} {
				t.Run(tt.name, func(t *testing.T) {
					r, err := p.Call(t.Context(), "ses_1", "remote", tt.tool, json.RawMessage(tt.input))
					require.NoError(t, err)
					require.Equal(t, tt.raw, string(r.Raw))
					require.Equal(t, tt.content, string(r.Content))
					require.Equal(t, tt.isError, r.IsError)
				})
			}
			t.Run("400 KB", func(t *testing.T) {
				require.Len(t, callText(t, p, "ses_1", "remote", "big", `{}`), 400<<10)
			})
			t.Run("an unknown tool is the server's refusal", func(t *testing.T) {
				_, err := p.Call(t.Context(), "ses_1", "remote", "nothing", nil)
				require.EqualError(t, err, `unknown tool "nothing"`)
			})
			require.Equal(t, 1, p.connections(), "all of it over one connection")
		})
	}
}

func TestResultsKeepWhatTheSDKDoesNotKnow(t *testing.T) {
	t.Parallel()
	p := newPool(t, nil, stdio("hand", "hand"))
	tools := p.List(t.Context(), "s", []string{"hand"})
	require.Equal(t, []Tool{
		{"hand", "odd", "d", json.RawMessage(`{"z":1,"type":"object","a":12345678901234567890}`)},
		{"hand", "bare", "", json.RawMessage(`{"type":"object","properties":{}}`)},
	}, tools)

	r, err := p.Call(t.Context(), "s", "hand", "odd", nil)
	require.NoError(t, err)
	require.Equal(t, strings.TrimSuffix(oddResult, "}")+`,"isError":false}`, string(r.Raw))
	require.Equal(t, `[{"type":"hologram","n":12345678901234567890},{"text":"<&>","type":"text"}]`, string(r.Content))
}

func TestListReadsAllPages(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "sse"} {
		r := newRemote(t, transport, "", &sdk.ServerOptions{PageSize: 3})
		p := newPool(t, nil, r.Server)
		require.Equal(t, allTools, names(p.List(t.Context(), "s", []string{"remote"})), transport)
	}
}

func TestListSkipsWhatItCannotUse(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var logged sync.Mutex
	a, b := newRemote(t, "http", "", nil), newRemote(t, "sse", "b_", nil)
	a.Name, b.Name = "a", "b"
	p := newPool(t, &Options{
		ConnectTimeout: 2 * time.Second,
		Logger:         slog.New(slog.NewTextHandler(&lockedWriter{&logged, &log}, nil)),
	}, a.Server, b.Server, stdio("mute", "mute"), stdio("broken", "broken"), Server{Name: "odd", Transport: "pigeon"},
		Server{Name: "gone", Transport: "http", URL: "http://127.0.0.1:1/mcp"}, Server{Name: "nowhere", Transport: "stdio", Command: "/no/such/program"})

	tools := p.List(t.Context(), "s", []string{"mute", "b", "missing", "broken", "odd", "gone", "nowhere", "a", "b"})
	var want []string
	for _, name := range allTools {
		want = append(want, "b_"+name)
	}
	require.Equal(t, append(want, allTools...), names(tools), "servers as given, tools as listed")
	require.Equal(t, "b", tools[0].Server)

	logged.Lock()
	defer logged.Unlock()
	for _, line := range []string{
		`mcp_server=mute error="no answer within 2s"`,
		`mcp_server=missing error="not in the configuration"`,
		`mcp_server=broken error="the process ended: exit status 3"`,
		`stderr="cannot find my database"`,
		`mcp_server=odd error="unknown transport \"pigeon\"; use stdio, http or sse"`,
		`mcp_server=gone error="dial tcp 127.0.0.1:1: connect: connection refused"`,
		`mcp_server=nowhere error="fork/exec /no/such/program: no such file or directory"`,
	} {
		require.Contains(t, log.String(), line)
	}
}

func TestOnAClashTheLaterServerWins(t *testing.T) {
	t.Parallel()
	a, b := newRemote(t, "http", "", nil), newRemote(t, "http", "", nil)
	a.Name, b.Name = "a", "b"
	var log bytes.Buffer
	p := newPool(t, &Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}, a.Server, b.Server)
	tools := p.List(t.Context(), "s", []string{"b", "a"})
	require.Equal(t, allTools, names(tools))
	for _, tool := range tools {
		require.Equal(t, "a", tool.Server)
	}
	require.Contains(t, log.String(), "tool=pid mcp_server=a dropped=b")
}

func TestACrashFailsItsCallAndTheNextReconnects(t *testing.T) {
	t.Parallel()
	p := newPool(t, nil, stdio("x", "tools"))
	before := callText(t, p, "s", "x", "pid", `{}`)
	file := filepath.Join(t.TempDir(), "runs")
	input, _ := json.Marshal(map[string]string{"path": file})

	_, err := p.Call(t.Context(), "s", "x", "crash", input)
	require.EqualError(t, err, `no result from MCP server "x": the server closed the connection`)
	ran, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, "ran\n", string(ran), "a call that reached the server is not sent again")

	require.NotEqual(t, before, callText(t, p, "s", "x", "pid", `{}`))
}

func TestAServerThatDiedWhileUnusedIsStartedAgain(t *testing.T) {
	t.Parallel()
	p := newPool(t, nil, stdio("x", "tools"))
	pid, err := strconv.Atoi(callText(t, p, "s", "x", "pid", `{}`))
	require.NoError(t, err)
	server, err := os.FindProcess(pid)
	require.NoError(t, err)
	require.NoError(t, server.Kill())
	eventually(t, "the pool sees it", func() bool { return p.connections() == 0 })
	require.NotEqual(t, strconv.Itoa(pid), callText(t, p, "s", "x", "pid", `{}`))
}

func TestALostSessionIsOpenedAgain(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"http", "sse"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			r := newRemote(t, transport, "", nil)
			p := newPool(t, nil, r.Server)
			callText(t, p, "s", "remote", "pid", `{}`)
			require.EqualValues(t, 1, r.sessions.Load())
			r.forgetSessions()
			callText(t, p, "s", "remote", "pid", `{}`)
			require.EqualValues(t, 2, r.sessions.Load())
		})
	}
}

func TestAnSSEStreamThatBrokeIsOpenedAgain(t *testing.T) {
	t.Parallel()
	r := newRemote(t, "sse", "", nil)
	p := newPool(t, nil, r.Server)
	callText(t, p, "s", "remote", "pid", `{}`)
	r.http.CloseClientConnections()
	eventually(t, "the pool sees it", func() bool { return p.connections() == 0 })
	callText(t, p, "s", "remote", "pid", `{}`)
	require.EqualValues(t, 2, r.sessions.Load())
}

func TestACallThatTakesTooLongLeavesTheConnection(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"stdio", "http", "sse"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			var p *Pool
			var opened func() string
			if transport == "stdio" {
				p = newPool(t, &Options{CallTimeout: time.Second}, stdio("remote", "tools"))
				opened = func() string { return callText(t, p, "s", "remote", "pid", `{}`) }
			} else {
				r := newRemote(t, transport, "", nil)
				p = newPool(t, &Options{CallTimeout: time.Second}, r.Server)
				opened = func() string {
					callText(t, p, "s", "remote", "pid", `{}`)
					return strconv.Itoa(int(r.sessions.Load()))
				}
			}
			p.List(t.Context(), "s", []string{"remote"}) // connects, in its own time
			before := opened()

			_, err := p.Call(t.Context(), "s", "remote", "slow", nil)
			require.EqualError(t, err, `no result from MCP server "remote": no answer within 1s`)

			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			_, err = p.Call(ctx, "s", "remote", "slow", nil)
			require.EqualError(t, err, `no result from MCP server "remote": no answer in the time left`)

			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err = p.Call(ctx, "s", "remote", "slow", nil)
			require.EqualError(t, err, `no result from MCP server "remote": the call was cancelled`)

			require.Equal(t, before, opened())
		})
	}
}

func TestACallIsNotHeldUpByAServerThatDoesNotRead(t *testing.T) {
	t.Parallel()
	p := newPool(t, nil, stdio("x", "deaf"))
	c, _, err := p.acquire(t.Context(), key{"s", "x"})
	require.NoError(t, err)
	p.put(c)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	failed := make(chan error, 1)
	go func() {
		_, err := p.Call(ctx, "s", "x", "odd", json.RawMessage(`{"big":"`+strings.Repeat("x", 1<<20)+`"}`))
		failed <- err
	}()
	eventually(t, "the call writes", func() bool { return len(c.tap.Connection.(*stdioConn).writing) == 1 })
	cancel()
	require.EqualError(t, <-failed, `no result from MCP server "x": the call was cancelled`)
	eventually(t, "a connection with half a message ends", func() bool { return p.connections() == 0 })
}

func TestCallsShareTheConnectionOfTheirSession(t *testing.T) {
	t.Parallel()
	r := newRemote(t, "http", "", nil)
	p := newPool(t, nil, r.Server)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			text := strconv.Itoa(i)
			got, err := p.Call(t.Context(), "s"+strconv.Itoa(i%2), "remote", "arguments", json.RawMessage(text))
			if err != nil || !strings.Contains(string(got.Content), text) {
				t.Errorf("call %d: %s %v", i, got.Content, err)
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 2, r.sessions.Load())
}

func TestReleaseEndsTheSessionsProcesses(t *testing.T) {
	t.Parallel()
	p := newPool(t, nil, stdio("x", "tools"), stdio("y", "stubborn"))
	x := callText(t, p, "s", "x", "pid", `{}`)
	child := callText(t, p, "s", "x", "spawn", `{}`)
	y := callText(t, p, "s", "y", "pid", `{}`)
	other := callText(t, p, "other", "x", "pid", `{}`)
	require.True(t, alive(child))

	failed := make(chan error, 1)
	go func() {
		_, err := p.Call(context.Background(), "s", "x", "slow", nil)
		failed <- err
	}()
	eventually(t, "the call runs", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.conns[key{"s", "x"}].users == 1
	})
	p.Release("s")
	require.EqualError(t, <-failed, `no result from MCP server "x": the session ended`)
	for _, pid := range []string{x, child, y} {
		require.False(t, alive(pid), "process %s", pid)
	}
	require.True(t, alive(other), "another session's server runs on")
	require.Equal(t, 1, p.connections())
}

func TestCloseEndsAllAndLetsNothingIn(t *testing.T) {
	t.Parallel()
	p := NewPool([]Server{stdio("x", "tools")}, nil)
	pid := callText(t, p, "s", "x", "pid", `{}`)
	require.NoError(t, p.Close())
	require.False(t, alive(pid))
	_, err := p.Call(t.Context(), "s", "x", "pid", nil)
	require.EqualError(t, err, `cannot connect to MCP server "x": this process is shutting down`)
	require.NoError(t, p.Close())
}

func TestUnusedConnectionsEnd(t *testing.T) {
	t.Parallel()
	t.Run("after a while", func(t *testing.T) {
		t.Parallel()
		p := newPool(t, &Options{IdleTimeout: 20 * time.Millisecond}, stdio("x", "tools"))
		pid := callText(t, p, "s", "x", "pid", `{}`)
		eventually(t, "the process ends", func() bool { return !alive(pid) })
		require.Zero(t, p.connections())
	})
	t.Run("the longest unused first when there are many", func(t *testing.T) {
		t.Parallel()
		r := newRemote(t, "http", "", nil)
		p := newPool(t, &Options{MaxIdle: 2}, r.Server)
		for _, session := range []string{"a", "b", "a", "c"} {
			callText(t, p, session, "remote", "pid", `{}`)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		require.Len(t, p.conns, 2)
		require.Contains(t, p.conns, key{"a", "remote"})
		require.Contains(t, p.conns, key{"c", "remote"})
	})
}

func TestAConnectionThatWentSilentIsReplaced(t *testing.T) {
	t.Parallel()
	// The session is gone, which only a message can tell; the probe is one that
	// may be sent twice.
	r := newRemote(t, "http", "", nil)
	p := newPool(t, &Options{ProbeAfter: time.Nanosecond}, r.Server)
	callText(t, p, "s", "remote", "pid", `{}`)
	callText(t, p, "s", "remote", "pid", `{}`)
	require.EqualValues(t, 1, r.sessions.Load(), "one that answers stays")
	r.forgetSessions()
	callText(t, p, "s", "remote", "pid", `{}`)
	require.EqualValues(t, 2, r.sessions.Load())
}

func TestReferencesAreResolvedAtTheMomentOfUse(t *testing.T) {
	t.Parallel()
	var secret atomic.Value
	secret.Store("one")
	resolve := func(_ context.Context, s string) (string, error) {
		if strings.Contains(s, "${GONE}") {
			return "", errors.New("variable GONE is not set")
		}
		return strings.ReplaceAll(s, "${SECRET}", secret.Load().(string)), nil
	}
	t.Run("headers for each request, and only to the server's own host", func(t *testing.T) {
		r := newRemote(t, "http", "", nil)
		elsewhere := newRemote(t, "http", "", nil)
		var mu sync.Mutex
		var seen, leaked []string
		inner, far := *r.handler.Load(), *elsewhere.handler.Load()
		var h http.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			mu.Lock()
			seen = append(seen, req.Header.Get("Authorization"))
			mu.Unlock()
			if secret.Load() == "moved" {
				http.Redirect(w, req, elsewhere.URL, http.StatusTemporaryRedirect)
				return
			}
			inner.ServeHTTP(w, req)
		})
		r.handler.Store(&h)
		var spy http.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			mu.Lock()
			leaked = append(leaked, req.Header.Get("Authorization"))
			mu.Unlock()
			far.ServeHTTP(w, req)
		})
		elsewhere.handler.Store(&spy)

		r.Headers = map[string]string{"Authorization": "Bearer ${SECRET}"}
		p := newPool(t, &Options{Resolve: resolve}, r.Server)
		callText(t, p, "s", "remote", "pid", `{}`)
		secret.Store("two")
		callText(t, p, "s", "remote", "pid", `{}`)
		mu.Lock()
		require.Equal(t, "Bearer one", seen[0])
		require.Equal(t, "Bearer two", seen[len(seen)-1])
		mu.Unlock()
		secret.Store("moved")
		callText(t, p, "moved", "remote", "pid", `{}`)
		mu.Lock()
		defer mu.Unlock()
		require.NotEmpty(t, leaked)
		for _, header := range leaked {
			require.Empty(t, header)
		}
		secret.Store("one")
	})
	t.Run("arguments and environment when the server starts", func(t *testing.T) {
		s := stdio("x", "tools")
		s.Args = []string{"-flag=${SECRET}"}
		s.Env["TOKEN"] = "t-${SECRET}"
		p := newPool(t, &Options{Resolve: resolve}, s)
		require.Contains(t, callText(t, p, "s", "x", "environment", `{}`), "TOKEN=t-one")
	})
	for name, s := range map[string]Server{
		"argument 1":           {Name: "x", Transport: "stdio", Command: "true", Args: []string{"${GONE}"}},
		"env TOKEN":            {Name: "x", Transport: "stdio", Command: "true", Env: map[string]string{"TOKEN": "${GONE}"}},
		"header Authorization": {Name: "x", Transport: "http", URL: "http://127.0.0.1:1/?key=hidden", Headers: map[string]string{"Authorization": "${GONE}"}},
	} {
		t.Run("one that cannot be resolved is named: "+name, func(t *testing.T) {
			_, err := newPool(t, &Options{Resolve: resolve}, s).Call(t.Context(), "s", "x", "pid", nil)
			require.EqualError(t, err, `cannot connect to MCP server "x": `+name+`: variable GONE is not set`)
		})
	}
}

func TestChildrenInheritNoKeys(t *testing.T) {
	t.Parallel()
	s := stdio("x", "tools")
	s.Env["HOME"] = "/own"
	p := newPool(t, &Options{Environ: []string{
		"PATH=/bin", "HOME=/root", "LC_ALL=C", "http_proxy=http://proxy", "BAE_ADMIN_KEY_FILE=/x",
		"ANTHROPIC_API_KEY=k", "AWS_SECRET_ACCESS_KEY=s", "AWS_SESSION_TOKEN=t", "MY_TOKEN=u",
	}}, s)
	env := strings.Split(callText(t, p, "s", "x", "environment", `{}`), "\n")
	require.ElementsMatch(t, []string{"PATH=/bin", "LC_ALL=C", "http_proxy=http://proxy", "HOME=/own", modeVariable + "=tools", "GORACE=atexit_sleep_ms=0"}, env)
}

func TestErrorsShowNoAddress(t *testing.T) {
	t.Parallel()
	status := atomic.Int32{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(srv.Close)
	p := newPool(t, nil, Server{Name: "x", Transport: "http", URL: srv.URL + "/?key=hidden"},
		Server{Name: "y", Transport: "sse", URL: srv.URL + "/?key=hidden"}, Server{Name: "z", Transport: "sse", URL: "http://127.0.0.1:1/?key=hidden"})
	status.Store(http.StatusUnauthorized)
	for server, want := range map[string]string{
		"x": `cannot connect to MCP server "x": Unauthorized`,
		"y": `cannot connect to MCP server "y": failed to connect: Unauthorized`,
		"z": `cannot connect to MCP server "z": dial tcp 127.0.0.1:1: connect: connection refused`,
		"w": `MCP server "w" is not in the configuration`,
	} {
		_, err := p.Call(t.Context(), "s", server, "pid", nil)
		require.EqualError(t, err, want)
	}
}

// lockedWriter lets the test read what goroutines log.
type lockedWriter struct {
	mu *sync.Mutex
	w  *bytes.Buffer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
