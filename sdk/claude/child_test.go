package claude

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
	"go.uber.org/goleak"
)

// childEnv selects the part that the test binary plays when a test starts it
// as claude.
const childEnv = "CLAUDE_TEST_CHILD"

func TestMain(m *testing.M) {
	if part := os.Getenv(childEnv); part != "" {
		playChild(part)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is the test binary in the role of claude.
type child struct {
	in   *bufio.Reader
	args []string
}

func (c *child) write(v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n'))
}

func (c *child) raw(line string) { os.Stdout.WriteString(line + "\n") }

// read returns the next line from the parent, or false at the end of input.
func (c *child) read() (gjson.Result, bool) {
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		return gjson.Result{}, false
	}
	if path := os.Getenv("CHILD_LOG"); path != "" {
		f, _ := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		f.Write(line)
		f.Close()
	}
	return gjson.ParseBytes(line), true
}

// until reads on to the first line of a type.
func (c *child) until(kind string) gjson.Result {
	for {
		line, ok := c.read()
		if !ok {
			os.Exit(0)
		}
		if line.Get("type").Str == kind {
			return line
		}
	}
}

func (c *child) respond(req gjson.Result, body any) {
	c.write(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "success", "request_id": req.Get("request_id").Str, "response": body,
	}})
}

func (c *child) refuse(req gjson.Result, why string) {
	c.write(map[string]any{"type": "control_response", "response": map[string]any{
		"subtype": "error", "request_id": req.Get("request_id").Str, "error": why,
	}})
}

// ask sends a control request and returns the parent's response to it.
func (c *child) ask(id string, request any) gjson.Result {
	c.write(map[string]any{"type": "control_request", "request_id": id, "request": request})
	for {
		line := c.until("control_response")
		if line.Get("response.request_id").Str == id {
			return line.Get("response")
		}
	}
}

func (c *child) handshake() gjson.Result {
	req := c.until("control_request")
	c.respond(req, map[string]any{
		"models": []any{map[string]any{"value": "mock"}}, "mcp_servers_applied": true, "hook_on_failure_supported": true,
	})
	return req
}

func (c *child) result(text string, more ...any) {
	m := map[string]any{"type": "result", "subtype": "success", "result": text, "session_id": "s", "uuid": "r", "is_error": false}
	for i := 0; i+1 < len(more); i += 2 {
		m[more[i].(string)] = more[i+1]
	}
	c.write(m)
}

func (c *child) drain() { _, _ = io.Copy(io.Discard, c.in) }

// playChild is what claude does in the tests, by name.
func playChild(part string) {
	c := &child{in: bufio.NewReaderSize(os.Stdin, 1<<20), args: os.Args[1:]}
	switch part {
	case "brief": // ends as soon as it has answered
		c.handshake()
	case "silent": // ends in place of an answer
		c.until("control_request")
	case "echo": // answers every message with its text until the input ends
		c.handshake()
		for {
			m, ok := c.read()
			if !ok {
				return
			}
			switch {
			case m.Get("type").Str == "user":
				text := m.Get("message.content.0.text").Str
				c.write(map[string]any{"type": "assistant", "session_id": "s", "uuid": "a", "message": map[string]any{
					"role": "assistant", "content": []any{map[string]any{"type": "text", "text": "echo: " + text}},
				}})
				if m.Get("shouldQuery").Exists() {
					continue
				}
				c.result("done: "+text, "user_message_uuids", []string{m.Get("uuid").Str})
			case m.Get("type").Str == "control_request":
				c.respond(m, map[string]any{"echo": m.Get("request").Value(), "mode": m.Get("request.mode").Value()})
			}
		}
	case "report": // tells what it was started with
		req := c.handshake()
		c.until("user")
		report, _ := json.Marshal(map[string]any{
			"args": c.args, "env": os.Environ(), "initialize": json.RawMessage(req.Get("request").Raw),
		})
		c.result(string(report))
		c.drain()
	case "noise": // prints things that are no messages, and unknown ones that are
		c.handshake()
		c.until("user")
		c.raw("not json")
		c.raw("")
		c.raw(`["json", "but no object"]`)
		c.raw(`{"type":"brand_new","payload":{"deep":[1,2,3]},"session_id":"s"}`)
		c.write(map[string]any{"type": "keep_alive"})
		c.raw(`{"type":"assistant","novel":true,"message":{"content":"plain"}}`)
		c.result("done")
		c.drain()
	case "ask": // asks the parent everything it can be asked
		c.handshake()
		c.until("user")
		playAsk(c)
		c.drain()
	case "withdraw": // asks, then takes the question back
		c.handshake()
		c.until("user")
		c.write(map[string]any{"type": "control_request", "request_id": "q", "request": map[string]any{
			"subtype": "can_use_tool", "tool_name": "Bash", "input": map[string]any{}, "tool_use_id": "t"}})
		c.write(map[string]any{"type": "control_cancel_request", "request_id": "q"})
		c.result("withdrawn")
		c.drain()
	case "long": // writes one line of the size in its environment
		c.handshake()
		c.until("user")
		n, _ := strconv.Atoi(os.Getenv("CHILD_SIZE"))
		os.Stdout.WriteString(`{"type":"assistant","message":{"content":"`)
		os.Stdout.Write(bytes.Repeat([]byte("x"), n))
		os.Stdout.WriteString("\"}}\n")
		c.result("done")
		c.drain()
	case "exit": // fails after a message
		c.handshake()
		c.until("user")
		c.raw(`{"type":"assistant","message":{"content":"last words"}}`)
		os.Stderr.WriteString(strings.Repeat("x", 100<<10) + "\nit broke\n")
		os.Exit(7)
	case "dead":
		os.Stderr.WriteString("cannot start\n")
		os.Exit(3)
	case "refuse":
		c.refuse(c.until("control_request"), "bad options")
		c.drain()
	case "mute": // never answers the handshake
		c.drain()
	case "refuses-control":
		c.handshake()
		for {
			c.refuse(c.until("control_request"), "no such model")
		}
	case "stubborn": // ignores the end of its input, and SIGTERM
		ignoreSignals()
		c.handshake()
		c.until("user")
		sleeper := exec.Command("sleep", "600")
		sleeper.Stdout = os.Stdout // holds the pipe, as background commands do
		if err := sleeper.Start(); err != nil {
			panic(err)
		}
		c.result(fmt.Sprint(os.Getpid(), " ", sleeper.Process.Pid))
		time.Sleep(10 * time.Minute)
	case "litter": // ends well, but leaves a child that holds its output
		c.handshake()
		c.until("user")
		sleeper := exec.Command("sleep", "600")
		sleeper.Stdout, sleeper.Stderr = os.Stdout, os.Stderr
		if err := sleeper.Start(); err != nil {
			panic(err)
		}
		c.result(strconv.Itoa(sleeper.Process.Pid))
		c.drain()
	case "mirror":
		playMirror(c)
	default:
		panic("no such part: " + part)
	}
}

// childOptions make the test binary play a part.
func childOptions(t testing.TB, part string, env ...string) *Options {
	self, err := os.Executable()
	require.NoError(t, err)
	home := t.TempDir()
	return &Options{
		Executable: self, Dir: t.TempDir(),
		Env: append([]string{childEnv + "=" + part, "HOME=" + home, "PATH=" + os.Getenv("PATH")}, env...),
	}
}

// requireGone waits until a process has ended.
func requireGone(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool {
		if stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat")); err == nil &&
			strings.Contains(string(stat), ") Z ") {
			return true // a zombie that init has yet to collect
		}
		return syscall.Kill(pid, 0) == syscall.ESRCH
	}, 15*time.Second, 10*time.Millisecond, "process %d is still there", pid)
}

func collect(t *testing.T, st *Stream) []Message {
	t.Helper()
	var all []Message
	for m, err := range st.Messages() {
		require.NoError(t, err)
		all = append(all, m)
	}
	<-st.Done()
	return all
}

func requireFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, strings.ReplaceAll(string(got), "}\n}", "}}"))
}

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
}
