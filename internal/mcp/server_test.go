package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// The stdio servers of these tests are this test binary, started again with a
// mode in its environment.
const modeVariable = "TEST_MCP_SERVER"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeVariable); mode != "" {
		serveStdio(mode)
		return
	}
	goleak.VerifyTestMain(m)
}

func serveStdio(mode string) {
	switch mode {
	case "tools":
		newServer("", nil).Run(context.Background(), &sdk.StdioTransport{})
	case "mute": // reads, never answers
		io.Copy(io.Discard, os.Stdin)
	case "stubborn": // answers, but neither the end of input nor SIGTERM ends it
		signal.Ignore(syscall.SIGTERM)
		newServer("", nil).Run(context.Background(), &sdk.StdioTransport{})
		select {}
	case "parent": // of a stubborn one
		p := NewPool([]Server{stdio("x", "stubborn")}, nil)
		r, err := p.Call(context.Background(), "s", "x", "pid", nil)
		if err != nil {
			log.Fatal(err)
		}
		var blocks []struct{ Text string }
		json.Unmarshal(r.Content, &blocks)
		fmt.Println(blocks[0].Text)
		select {}
	case "broken":
		fmt.Fprintln(os.Stderr, "cannot find my database")
		os.Exit(3)
	default:
		serveByHand(mode)
	}
}

// serveByHand speaks the protocol without the SDK, to say what the SDK would not.
func serveByHand(mode string) {
	in := bufio.NewReader(os.Stdin)
	for first := true; ; first = false {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var req struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		json.Unmarshal(line, &req)
		answer := func(result string) { fmt.Printf(`{"jsonrpc":"2.0","id":%s,"result":%s}`+"\n", req.ID, result) }
		switch {
		case first && req.Method != "initialize":
			os.Exit(4) // as some servers do
		case req.Method == "initialize":
			answer(`{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"hand","version":"1"}}`)
			if mode == "deaf" { // stops reading
				fmt.Fprintln(os.Stderr, "deaf now")
				time.Sleep(time.Hour)
			}
		case req.Method == "tools/list":
			answer(`{"tools":[{"name":"odd","description":"d","inputSchema":{"z":1,"type":"object","a":12345678901234567890}},{"name":"bare"}]}`)
		case req.Method == "tools/call":
			answer(oddResult)
		}
	}
}

// oddResult has what a decoder that knows the types of today would lose.
const oddResult = `{"zebra":1, "content":[{"type":"hologram","n":12345678901234567890},{"text":"<&>","type":"text"}],"structuredContent":{"b":1.10,"a":98765432109876543210},"_meta":{"k":null}}`

// newServer is a server with the tools these tests call. Crashing is os.Exit, so
// only for servers in a process of their own.
func newServer(prefix string, opts *sdk.ServerOptions) *sdk.Server {
	s := sdk.NewServer(&sdk.Implementation{Name: "test", Version: "1"}, opts)
	object := json.RawMessage(`{"type":"object"}`)
	add := func(name string, run func(ctx context.Context, args json.RawMessage) (*sdk.CallToolResult, error)) {
		s.AddTool(&sdk.Tool{Name: prefix + name, Description: "does " + name, InputSchema: object},
			func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
				return run(ctx, r.Params.Arguments)
			})
	}
	text := func(s string) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: s}}}
	}
	add("arguments", func(_ context.Context, args json.RawMessage) (*sdk.CallToolResult, error) {
		return text(string(args)), nil
	})
	add("big", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		return text(strings.Repeat("0123456789abcdef", 400<<10/16)), nil
	})
	add("crash", func(_ context.Context, args json.RawMessage) (*sdk.CallToolResult, error) {
		var a struct{ Path string }
		json.Unmarshal(args, &a)
		f, err := os.OpenFile(a.Path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			fmt.Fprintln(f, "ran")
			f.Close()
		}
		os.Exit(5)
		return nil, nil
	})
	add("environment", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		return text(strings.Join(os.Environ(), "\n")), nil
	})
	add("fail", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		r := text("no such page")
		r.IsError = true
		return r, nil
	})
	add("image", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.ImageContent{Data: []byte("pixels"), MIMEType: "image/png"}}}, nil
	})
	s.AddTool(&sdk.Tool{Name: prefix + "ask", InputSchema: object}, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		_, err := r.Session.Elicit(ctx, &sdk.ElicitParams{Message: "sure?"})
		return text(fmt.Sprint(err)), nil
	})
	add("pid", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		return text(fmt.Sprint(os.Getpid())), nil
	})
	add("slow", func(ctx context.Context, _ json.RawMessage) (*sdk.CallToolResult, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	add("spawn", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return text(fmt.Sprint(cmd.Process.Pid)), nil
	})
	add("structured", func(context.Context, json.RawMessage) (*sdk.CallToolResult, error) {
		return &sdk.CallToolResult{StructuredContent: json.RawMessage(`{"n":12345678901234567890}`)}, nil
	})
	return s
}

// allTools are newServer's tools in the order it lists them.
var allTools = []string{"arguments", "ask", "big", "crash", "environment", "fail", "image", "pid", "slow", "spawn", "structured"}

// stdio is a server in a process of its own.
func stdio(name, mode string) Server {
	return Server{Name: name, Transport: "stdio", Command: os.Args[0], Env: map[string]string{modeVariable: mode, "GORACE": "atexit_sleep_ms=0"}}
}

// remote is an HTTP server of the test.
type remote struct {
	Server
	http     *httptest.Server
	handler  atomic.Pointer[http.Handler]
	sessions atomic.Int32 // opened so far
	server   *sdk.Server
}

// newRemote serves over "http" or "sse" until the test ends.
func newRemote(t *testing.T, transport, prefix string, opts *sdk.ServerOptions) *remote {
	t.Helper()
	r := &remote{Server: Server{Name: "remote", Transport: transport}}
	if opts == nil {
		opts = &sdk.ServerOptions{}
	}
	opts.InitializedHandler = func(context.Context, *sdk.InitializedRequest) { r.sessions.Add(1) }
	r.server = newServer(prefix, opts)
	r.forgetSessions()
	r.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		(*r.handler.Load()).ServeHTTP(w, req)
	}))
	r.URL = r.http.URL + "/mcp"
	t.Cleanup(func() {
		r.http.CloseClientConnections()
		r.http.Close()
		for session := range r.server.Sessions() { // those it was made to forget
			session.Close()
		}
	})
	return r
}

// forgetSessions is what a restart of the server does to its sessions.
func (r *remote) forgetSessions() {
	serve := func(*http.Request) *sdk.Server { return r.server }
	var h http.Handler = sdk.NewStreamableHTTPHandler(serve, nil)
	if r.Transport == "sse" {
		h = sdk.NewSSEHandler(serve, nil)
	}
	r.handler.Store(&h)
}

func newPool(t *testing.T, opts *Options, servers ...Server) *Pool {
	t.Helper()
	p := NewPool(servers, opts)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// callText calls a tool that answers with one text block and returns the text.
func callText(t *testing.T, p *Pool, session, server, tool, input string) string {
	t.Helper()
	r, err := p.Call(t.Context(), session, server, tool, json.RawMessage(input))
	require.NoError(t, err)
	require.False(t, r.IsError)
	var blocks []struct{ Type, Text string }
	require.NoError(t, json.Unmarshal(r.Content, &blocks))
	require.Len(t, blocks, 1)
	require.Equal(t, "text", blocks[0].Type)
	return blocks[0].Text
}

// connections counts what the pool holds.
func (p *Pool) connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns)
}

func names(tools []Tool) []string {
	var names []string
	for _, t := range tools {
		names = append(names, t.Name)
	}
	return names
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, 10*time.Second, 5*time.Millisecond, what)
}

// alive reports whether a process runs; a zombie does not.
func alive(pid string) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", pid).Output()
	if stat, procErr := os.ReadFile("/proc/" + pid + "/stat"); procErr == nil {
		// After the name in brackets, which may hold anything.
		state, err = bytes.TrimSpace(stat[bytes.LastIndexByte(stat, ')')+1:]), nil
	}
	return err == nil && len(state) > 0 && state[0] != 'Z' && state[0] != 'X'
}
