package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
)

// sandboxImage is the one that `make local-deploy` allows. What runs its tasks
// there has no containers, so any program of this machine is in it.
const sandboxImage = "demo"

// shell runs in the sandbox.
var shell = lambae.Tool{Name: "sh", Description: "runs a command", InputSchema: json.RawMessage(`{"type":"object"}`)}

// agents are programs that are launched in it.
var agents = lambae.SubagentTool{
	Tool: lambae.Tool{Name: "launch", Description: "launches", InputSchema: json.RawMessage(`{"type":"object"}`)}, Image: sandboxImage,
	Subagents: []lambae.Subagent{
		{Harness: "echo", CommandTemplate: "cat; echo from {model}"},
		{Harness: "long", CommandTemplate: "sleep 600"},
	},
}

// boxed opens a session whose sandbox runs.
func boxed(t *testing.T, w *world) (s *lambae.Session, sandbox string) {
	t.Helper()
	p, err := w.admin.CreateProfile(t.Context(), admin.ProfileSpec{
		Name: "e2e-" + rand.Text(), PrimaryProvider: provider, AvailableSandboxes: []string{sandboxImage, "missing"},
	})
	require.NoError(t, err)
	s, err = w.client(t, p.ID).Open(t.Context(), &lambae.OpenRequest{
		ClientVersion: "e2e", SandboxTools: []lambae.Tool{shell}, SubagentTools: []lambae.SubagentTool{agents},
	})
	require.NoError(t, err)
	require.NoError(t, s.RegisterDriver(t.Context()))
	started, err := s.StartRemoteSandbox(patient(t), sandboxImage)
	require.NoError(t, err)
	t.Cleanup(func() { // so that a test that fails leaves no process behind
		_ = s.Close(context.WithoutCancel(t.Context()))
	})
	return s, started.SandboxID
}

// awaited waits for an event of a type and returns its payload.
func awaited(t *testing.T, s *lambae.Session, kind lambae.EventType) (payload map[string]any) {
	t.Helper()
	require.Eventually(t, func() bool {
		for _, e := range events(t, s) {
			if e.Type == kind {
				return json.Unmarshal(e.Payload, &payload) == nil
			}
		}
		return false
	}, patience, 200*time.Millisecond, "there is no %s", kind)
	return payload
}

// Everything that is deployed takes part: the driver in the client function runs
// a task with a link to the agent's object, the agent rings in by the WebSocket
// API, fetches commands and tells outcomes.
func TestASandboxRunsCommandsToolsAndSubagents(t *testing.T) {
	t.Parallel()
	w := deployed(t)
	s, _ := boxed(t, w)
	ctx := patient(t)
	_, err := s.StartRemoteSandbox(ctx, "missing")
	require.Error(t, err)

	for command, want := range map[string]lambae.ExecResult{
		"echo out; echo err >&2; exit 3":                       {Stdout: "out\n", Stderr: "err\n", ExitCode: 3},
		"env | grep -c -e LAMBAE_BOOT -e ECS_ -e AWS_ -e BAE_": {Stdout: "0\n", ExitCode: 1},
	} {
		got, err := s.ExecRemoteSandbox(ctx, command)
		require.NoError(t, err)
		require.Equal(t, want, *got, command)
	}

	var seen strings.Builder
	watched, err := s.WatchRemoteSandbox(ctx, "echo one; sleep 0.3; echo two", func(_, text string) { seen.WriteString(text) })
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", watched.Stdout)
	require.Equal(t, watched.Stdout, seen.String(), "output comes through another instance of the function")

	result, err := s.Run(ctx, lambae.UserMessage(`/tool sh {"command":"echo $((6*7))"}`), nil)
	require.NoError(t, err)
	require.Contains(t, result.Text(), "42")

	_, err = s.Run(ctx, lambae.UserMessage(`/tool launch {"harness":"echo","model":"m'1","prompt":"it's \"$HOME\""}`), nil)
	require.NoError(t, err)
	completed := awaited(t, s, lambae.EventSubagentCompleted)
	result, err = s.Run(ctx, lambae.UserMessage(`/tool remote_subagent_status {"subagent_id":"`+completed["subagent_id"].(string)+`"}`), nil)
	require.NoError(t, err)
	require.Contains(t, result.Text(), `it's \"$HOME\"from m'1\n`)

	_, err = s.StopRemoteSandbox(ctx)
	require.NoError(t, err)
	require.Equal(t, "explicit", awaited(t, s, lambae.EventSandboxStopped)["reason"])
}

// Nothing but the task's end tells of it: no call is made to the session.
func TestATaskThatEndsByItselfIsNoticed(t *testing.T) {
	t.Parallel()
	w := deployed(t)
	if w.cfg.BaseEndpoint == nil && os.Getenv("AWS_ENDPOINT_URL") == "" {
		t.Skip("tasks on AWS cannot be killed from here")
	}
	s, sandbox := boxed(t, w)
	_, err := s.Run(patient(t), lambae.UserMessage(`/tool launch {"harness":"long","model":"m","prompt":"p"}`), nil)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(agentOf(t, sandbox), syscall.SIGKILL))

	require.Contains(t, awaited(t, s, lambae.EventSandboxError)["detail"], "Essential container in task exited")
	require.Equal(t, "lost", awaited(t, s, lambae.EventSandboxStopped)["reason"])
	awaited(t, s, lambae.EventSubagentFailed)
}

// agentOf finds the process of a sandbox's agent by where its program is.
func agentOf(t *testing.T, sandbox string) (pid int) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	require.NoError(t, err)
	for _, file := range files {
		line, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(line), "/"+sandbox+"-") {
			continue
		}
		pid, err = strconv.Atoi(filepath.Base(filepath.Dir(file)))
		require.NoError(t, err)
		return pid
	}
	require.Fail(t, "the sandbox has no process on this machine")
	return 0
}
