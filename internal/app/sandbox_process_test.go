//go:build unix

// The sandboxes are those of the process driver: this test binary plays sandboxd.
package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/agent"
	"github.com/lambae/lambae/internal/sandbox/process"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/turn"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "sandboxd" {
		os.Exit(agent.Main(os.Stdin, os.Stderr, os.Environ()))
	}
	os.Exit(m.Run())
}

// processes starts a server whose sandboxes are processes below dir.
func processes(t testing.TB, o setup) (s *server, dir string) {
	dir = t.TempDir()
	o.boxes = func(q *queue.Queue, lost func(context.Context, string, string)) (sandbox.Driver, error) {
		return process.New(q, process.Options{Dir: dir, Command: []string{os.Args[0], "sandboxd"}, Path: os.Getenv("PATH"), Lost: lost,
			URL: func() string { return s.url }}), nil
	}
	s = start(t, o)
	t.Cleanup(func() {
		rows, err := s.app.Store.Sandboxes(context.Background())
		require.NoError(t, err)
		for _, r := range rows {
			require.NoError(t, s.app.Sandboxes.Lost(context.Background(), r.ID, "the test is over"))
		}
	})
	return s, dir
}

func TestProcessSandboxesRunCommands(t *testing.T) {
	t.Parallel()
	s, dir := processes(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	id := d.result("session.startRemoteSandbox", `{"image":"img"}`)["sandbox_id"].(string)
	for command, want := range map[string]map[string]any{
		"echo out; echo err >&2": {"stdout": "out\n", "stderr": "err\n", "exit_code": 0.},
		"echo no >&2; exit 3":    {"stdout": "", "stderr": "no\n", "exit_code": 3.},
		"":                       {"stdout": "", "stderr": "", "exit_code": 0.},
		"pwd":                    {"stdout": filepath.Join(dir, id, "home") + "\n", "stderr": "", "exit_code": 0.},
		"head -c 10485760 /dev/zero | tr '\\0' x; exit 9": {"stdout": strings.Repeat("x", 65536), "stderr": "", "exit_code": 9., "truncated": true},
	} {
		require.Equal(t, want, d.result("session.execRemoteSandbox", jsonOf(map[string]any{"command": command})), command)
	}
	require.Equal(t, "hi\n", said(t, payload(t, d.run("x", "sh", `{"command":"echo hi"}`), "tool.result")))
	d.result("session.stopRemoteSandbox", `{}`)
	require.NoDirExists(t, filepath.Join(dir, id))
}

func TestManyCommandsAtOnceEachGetTheirOwnResult(t *testing.T) {
	t.Parallel()
	s, _ := processes(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			res := d.result("session.execRemoteSandbox", jsonOf(map[string]any{"command": fmt.Sprintf("echo %d; exit %d", i, i)}))
			require.Equal(t, map[string]any{"stdout": fmt.Sprintf("%d\n", i), "stderr": "", "exit_code": float64(i)}, res)
		})
	}
	wg.Wait()
}

func TestProcessSandboxesStreamOutput(t *testing.T) {
	t.Parallel()
	s, _ := processes(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	st := d.stream("session.execRemoteSandbox", `{"stream":true,"command":"echo one; until [ -e go ]; do sleep 0.01; done; echo two >&2"}`)
	require.Equal(t, "one\n", st.next()["params"].(map[string]any)["text"])
	d.result("session.execRemoteSandbox", `{"command":"touch go"}`)
	require.Equal(t, map[string]any{"session_id": d.id, "stream": "stderr", "text": "two\n"}, st.next()["params"])
	require.Equal(t, map[string]any{"stdout": "one\n", "stderr": "two\n", "exit_code": 0.}, st.next()["result"])
}

func TestProcessSubagentsRun(t *testing.T) {
	t.Parallel()
	s, _ := processes(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), subagents)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	ids := map[string]string{}
	for _, h := range []string{"cat", "fail", "slow", "long"} {
		ids[h] = d.launch(h, "m", nasty)
	}
	d.result("session.cancelSubagent", jsonOf(map[string]any{"subagent_id": ids["long"]}))
	for h, kind := range map[string]string{"cat": "completed", "fail": "failed", "slow": "failed", "long": "cancelled"} {
		require.Equal(t, "session.subagent."+kind, d.ended(ids[h]).Type)
	}
	got, _ := d.status(`{}`)
	var outs []any
	for _, a := range got["subagents"].([]any) {
		outs = append(outs, a.(map[string]any)["stdout"])
	}
	require.Equal(t, []any{nasty + "model m\n", "", nil, nil}, outs)
}

func TestAKilledSandboxdIsALostSandbox(t *testing.T) {
	t.Parallel()
	s, dir := processes(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), subagents)
	id := d.result("session.startRemoteSandbox", `{"image":"img"}`)["sandbox_id"].(string)
	agentID := d.launch("long", "m", "p")
	answer := make(chan string, 1)
	go func() {
		lines := d.rpc("session.execRemoteSandbox", `{"command":"kill -9 $PPID; sleep 30"}`)
		answer <- fmt.Sprint(lines[0]["error"])
	}()
	select {
	case text := <-answer:
		require.Contains(t, text, "sandbox exec failed: the sandbox has ended")
	case <-time.After(20 * time.Second):
		require.Fail(t, "the command hangs")
	}
	end := d.ended(agentID)
	require.Equal(t, "session.subagent.failed", end.Type)
	require.Nil(t, end.Payload["exit_code"])
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(dir, id)); return err != nil }, 10*time.Second, 10*time.Millisecond)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
}

// A server that was started again with another driver, or none, cannot stop what it
// finds; but nothing of it is let in any more, and so it ends by itself.
func TestASandboxOfAnotherDriverIsExpelled(t *testing.T) {
	t.Parallel()
	s, _ := processes(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	id := d.result("session.startRemoteSandbox", `{"image":"img"}`)["sandbox_id"].(string)
	q := s.app.Client.Agents.Queue
	require.True(t, q.Wanted(t.Context(), id))

	other := turn.NewSandboxes(turn.SandboxOptions{Store: s.app.Store, Directory: s.app.Directory, Logger: slog.New(slog.DiscardHandler), Expel: q.End})
	require.NoError(t, other.Sweep(t.Context()))
	require.Equal(t, "lost", payload(t, d.log(), "session.sandbox.stopped")["reason"])
	require.False(t, q.Wanted(t.Context(), id))
}
