//go:build linux

// The sandboxes are those of the docker driver, with a stand-in for the docker
// command: no engine is needed.
package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/docker"
	"github.com/lambae/lambae/internal/sandbox/docker/dockertest"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/session"
)

// boxed starts a server whose sandboxes are containers.
func boxed(t testing.TB, o setup) (*server, *dockertest.Engine) {
	e := dockertest.New(t)
	o.boxes = func(*queue.Queue, func(context.Context, string, string)) (sandbox.Driver, error) {
		return docker.New(&docker.Options{Command: e.Command, Env: e.Env, Runs: e.Root + "/runs.d"}), nil
	}
	return start(t, o), e
}

const shellTool = `{"tools":[{"name":"a"}],"sandbox_tools":[{"name":"sh","description":"sh","input_schema":{"type":"object"}}]}`

// run makes the model call a tool with an input, and returns the events of it.
func (d *driver) run(id, tool, input string) []event {
	d.t.Helper()
	res := d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse(id, tool, input)}}, modeltest.Step{Text: "fin"}))
	return eventsIn(d.t, res["events"])
}

// payload is that of the only event of a type.
func payload(t testing.TB, events []event, kind string) map[string]any {
	t.Helper()
	var found []map[string]any
	for _, e := range events {
		if e.Type == kind {
			found = append(found, e.Payload)
		}
	}
	require.Len(t, found, 1, "%s in %v", kind, types(events))
	return found[0]
}

// said is the text of the one block of a tool.result.
func said(t testing.TB, result map[string]any) string {
	t.Helper()
	content := result["content"].([]any)
	require.Len(t, content, 1)
	return content[0].(map[string]any)["text"].(string)
}

func TestSandboxMethodsAnswerAsTheProtocolSays(t *testing.T) {
	t.Parallel()
	s, _ := boxed(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img", "missing-1"}}), shellTool)
	faults := func(cases ...[3]string) {
		t.Helper()
		for _, c := range cases {
			code, message := d.fault("session."+c[0], c[1])
			require.Equal(t, c[2], fmt.Sprintf("%d %s", code, message), c)
		}
	}
	stopped := "-32013 sandbox_not_running: no remote sandbox is running for this session"
	faults(
		[3]string{"startRemoteSandbox", `{}`, `-32602 Invalid params: missing "image"`},
		[3]string{"startRemoteSandbox", `{"image":" "}`, `-32602 Invalid params: missing "image"`},
		[3]string{"startRemoteSandbox", `{"image":4}`, `-32602 Invalid params: missing "image"`},
		[3]string{"startRemoteSandbox", `{"image":"other"}`, `-32011 sandbox_image_not_allowed: image "other" is not in this session profile's available_sandboxes`},
		[3]string{"stopRemoteSandbox", `{}`, stopped},
		[3]string{"execRemoteSandbox", `{"command":"true"}`, stopped},
		[3]string{"startRemoteSandbox", `{"image":"missing-1"}`, `-32012 sandbox_start_failed: sandbox image "missing-1" error: pull access denied for missing-1`},
	)
	started := d.result("session.startRemoteSandbox", `{"image":"img"}`)
	require.Regexp(t, `^sbx_[0-9a-f]{32}$`, started["sandbox_id"])
	require.Equal(t, "img", started["image"])
	faults(
		[3]string{"startRemoteSandbox", `{"image":"img"}`, "-32000 a remote sandbox is already running for this session; call session.stopRemoteSandbox first"},
		[3]string{"execRemoteSandbox", `{}`, `-32602 Invalid params: missing "command"`},
		[3]string{"execRemoteSandbox", `{"command":5}`, `-32602 Invalid params: missing "command"`},
	)
	for command, want := range map[string]map[string]any{
		"echo out; echo err >&2": {"stdout": "out\n", "stderr": "err\n", "exit_code": 0.},
		"echo no >&2; exit 3":    {"stdout": "", "stderr": "no\n", "exit_code": 3.},
		"":                       {"stdout": "", "stderr": "", "exit_code": 0.},
		"printf 'a\xe2\x80\xa8'": {"stdout": "a\u2028", "stderr": "", "exit_code": 0.},
	} {
		require.Equal(t, want, d.result("session.execRemoteSandbox", jsonOf(map[string]any{"command": command})), command)
	}
	require.Equal(t, map[string]any{"stopped": true, "image": "img", "sandbox_id": started["sandbox_id"]}, d.result("session.stopRemoteSandbox", `{}`))
	faults([3]string{"stopRemoteSandbox", `{}`, stopped})
	log := d.log()
	require.Equal(t, []string{"session.open", "session.driver.register", "session.sandbox.available", "session.sandbox.start", "session.sandbox.error",
		"session.sandbox.start", "session.sandbox.running", "session.sandbox.stop", "session.sandbox.stopped"}, types(log))
	images := log[2].Payload["images"].([]any)
	require.Equal(t, map[string]any{"name": "img", "status": "available"}, images[0])
	require.Equal(t, "missing-1", images[1].(map[string]any)["name"])
	require.Contains(t, []string{"pending", "error"}, images[1].(map[string]any)["status"], "it is being pulled, or that has failed by now")
	require.Equal(t, map[string]any{"image": "missing-1", "phase": "start", "detail": `sandbox image "missing-1" error: pull access denied for missing-1`,
		"dispatch": "remote", "unsandboxed": false}, log[4].Payload)
	require.Equal(t, started["started_at"], log[6].Created)
	require.Equal(t, map[string]any{"image": "img", "sandbox_id": started["sandbox_id"], "reason": "explicit", "dispatch": "remote", "unsandboxed": false}, log[8].Payload)
}

func TestSandboxToolsRunWithoutTheClient(t *testing.T) {
	t.Parallel()
	s, _ := boxed(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	none := "no remote sandbox is running for tool 'sh'; call session.startRemoteSandbox first"
	before := d.run("x0", "sh", `{"command":"echo hi"}`)
	require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "tool.call", "sandbox.request", "sandbox.response", "tool.result",
		"provider.request", "provider.response", "server.message.send"}, types(before))
	require.Equal(t, map[string]any{"tool": "sh", "input": map[string]any{"command": "echo hi"}, "command": "echo hi"}, payload(t, before, "sandbox.request"))
	require.Equal(t, map[string]any{"sandbox_id": nil, "ok": false, "error": none}, payload(t, before, "sandbox.response"))
	require.Equal(t, map[string]any{"tool_use_id": "x0", "dispatch": "sandbox", "is_error": true,
		"content": []any{map[string]any{"type": "text", "text": "sandbox error: " + none}}}, payload(t, before, "tool.result"))

	id := d.result("session.startRemoteSandbox", `{"image":"img"}`)["sandbox_id"]
	for command, want := range map[string]struct {
		text string
		code float64
	}{
		"echo hi":                       {"hi\n", 0},
		"exit 4":                        {"[exit_code: 4]", 4},
		"echo o; echo e >&2; exit 5":    {"o\n[stderr]\ne\n[exit_code: 5]", 5},
		"true":                          {"", 0},
		"echo e >&2":                    {"[stderr]\ne\n", 0},
		`printf 'a\nb'`:                 {"a\nb", 0},
		"printf a; printf b >&2":        {"a\n[stderr]\nb", 0},
		"echo ' ' >&2; printf c":        {"c", 0},
		"printf '[exit_code: 9]'; true": {"[exit_code: 9]", 0},
	} {
		events := d.run("x1", "sh", jsonOf(map[string]any{"command": command}))
		result := payload(t, events, "tool.result")
		require.Equal(t, want.text, said(t, result), command)
		require.Equal(t, want.code != 0, result["is_error"], command)
		response := payload(t, events, "sandbox.response")
		require.Equal(t, id, response["sandbox_id"])
		require.Equal(t, want.code == 0, response["ok"])
		require.Equal(t, want.code, response["result"].(map[string]any)["exit_code"])
	}
	for _, input := range []string{`{"foo":1}`, `{"command":5}`, `{"command":null}`} {
		events := d.run("x2", "sh", input)
		missing := `sandbox tool 'sh' input is missing the required string "command"`
		require.Nil(t, payload(t, events, "sandbox.request")["command"])
		require.Equal(t, map[string]any{"sandbox_id": nil, "ok": false, "error": missing}, payload(t, events, "sandbox.response"))
		require.Equal(t, "sandbox error: "+missing, said(t, payload(t, events, "tool.result")))
	}
}

func TestASandboxToolBesideAClientToolRunsFirst(t *testing.T) {
	t.Parallel()
	s, _ := boxed(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	res := d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("x", "sh", `{"command":"echo m"}`), modeltest.ToolUse("c", "a", `{}`)}}, modeltest.Step{Text: "fin"}))
	require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "tool.call", "tool.call", "sandbox.request", "sandbox.response",
		"tool.result", "server.message.send"}, types(eventsIn(t, res["events"])))
	// A paused turn does not keep others from the sandbox.
	require.Equal(t, "x\n", d.result("session.execRemoteSandbox", `{"command":"echo x"}`)["stdout"])
	res = d.send([]any{map[string]any{"type": "tool_result", "tool_use_id": "c", "content": "done"}})
	require.Equal(t, []any{
		map[string]any{"type": "tool_result", "tool_use_id": "x", "content": []any{map[string]any{"type": "text", "text": "m\n"}}, "is_error": false},
		map[string]any{"type": "tool_result", "tool_use_id": "c", "content": "done"},
	}, eventsIn(t, res["events"])[0].Payload["content"])
}

func TestOutputOfACommandIsWatchedWhileItRuns(t *testing.T) {
	t.Parallel()
	s, _ := boxed(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	st := d.stream("session.execRemoteSandbox", `{"stream":true,"command":"echo one; read x < /dev/null; sleep 0.3; echo two"}`)
	require.Equal(t, map[string]any{"jsonrpc": "2.0", "method": "session.sandbox.output",
		"params": map[string]any{"session_id": d.id, "stream": "stdout", "text": "one\n"}}, st.next())
	require.Equal(t, "two\n", st.next()["params"].(map[string]any)["text"])
	require.Equal(t, map[string]any{"stdout": "one\ntwo\n", "stderr": "", "exit_code": 0.}, st.next()["result"])
	require.Nil(t, st.next())
	require.NotContains(t, fmt.Sprint(d.log()), "one", "output is not stored")
	code, message := d.fault("session.execRemoteSandbox", `{"stream":true}`)
	require.Equal(t, `-32602 Invalid params: missing "command"`, fmt.Sprintf("%d %s", code, message))
}

// subscribed reads the rest of a subscription.
func (s *stream) rest() (kinds []string) {
	for {
		line := s.next()
		if line == nil {
			return kinds
		}
		kinds = append(kinds, eventsIn(s.t, []any{line["params"]})[0].Type)
	}
}

func TestTheEndOfASessionEndsItsSandbox(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]struct {
		do    func(t *testing.T, s *server, d *driver)
		last  string // how the session ended
		close string // reason of session.close
	}{
		"closed": {func(t *testing.T, s *server, d *driver) {
			a := s.call("DELETE", s.url+"/api/v1/sessions/"+d.id, d.key, "")
			require.Equal(t, 200, a.Status)
		}, "session.close", "client_close"},
		"revoked": {func(t *testing.T, s *server, d *driver) {
			a := s.call("DELETE", s.admin+"/admin/v1/keys/"+d.keyID, "admin", "")
			require.Equal(t, 204, a.Status)
		}, "session.close", "client_key_revoked"},
		"failed": {func(t *testing.T, _ *server, d *driver) {
			d.send(modeltest.Script(modeltest.Step{Fail: 500}))
		}, "session.error", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, e := boxed(t, setup{})
			d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}, "primary_provider": "model"}), subagents)
			d.result("session.startRemoteSandbox", `{"image":"img"}`)
			d.run("l", "launch_subagent", `{"harness":"long","model":"m","prompt":"p"}`)
			sub := d.stream("session.subscribe", `{"since_event_id":"unknown"}`)
			end.do(t, s, d)
			require.Empty(t, e.Containers())
			items := eventsIn(t, s.call("GET", s.admin+"/admin/v1/sessions/"+d.id+"/events?limit=200", "admin", "").json(t)["items"])
			tail := items[len(items)-4:]
			require.Equal(t, []string{end.last, "session.subagent.cancelled", "session.sandbox.stop", "session.sandbox.stopped"}, types(tail))
			require.Equal(t, "session_close", tail[1].Payload["reason"])
			require.Equal(t, "session_close", tail[3].Payload["reason"])
			if end.close != "" {
				require.Equal(t, end.close, tail[0].Payload["reason"])
			}
			if name == "revoked" {
				return // its subscribers have lost their right as well
			}
			seen := sub.rest()
			require.Equal(t, types(tail), seen[len(seen)-4:], "subscribers see what follows the end")
		})
	}
}

func TestADriverThatFailsLeavesAnEvent(t *testing.T) {
	t.Parallel()
	s, e := boxed(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img", "crash"}}), subagents)
	code, message := d.fault("session.startRemoteSandbox", `{"image":"crash"}`)
	require.Equal(t, "-32012 sandbox_start_failed: failed to create task for container: crash", fmt.Sprintf("%d %s", code, message))
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	d.run("l", "launch_subagent", `{"harness":"long","model":"m","prompt":"p"}`)
	e.Kill(t, e.Containers()[0])
	code, message = d.fault("session.execRemoteSandbox", `{"command":"true"}`)
	require.Equal(t, -32000, code)
	require.Contains(t, message, "sandbox exec failed: the sandbox has ended")
	tail := d.log()
	tail = tail[len(tail)-3:]
	require.Equal(t, []string{"session.sandbox.error", "session.subagent.failed", "session.sandbox.stopped"}, types(tail))
	require.Equal(t, "exec", tail[0].Payload["phase"])
	require.Equal(t, "lost", tail[2].Payload["reason"])
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
}

func TestAServerWithoutADriverSaysHowToGetOne(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	code, message := d.fault("session.startRemoteSandbox", `{"image":"img"}`)
	require.Equal(t, -32012, code)
	require.Contains(t, message, "sandbox_start_failed: this server has no sandbox driver; run a Docker or Podman engine, or set BAE_SANDBOX_DRIVER=process")
	require.Equal(t, "error", d.log()[2].Payload["images"].([]any)[0].(map[string]any)["status"])
}

func TestIdleSandboxesStop(t *testing.T) {
	t.Parallel()
	s, e := boxed(t, setup{})
	profile := s.profile(map[string]any{"available_sandboxes": []string{"img"}, "sandbox_idle_minutes": 1})
	idle, busy := s.open(profile, subagents), s.open(profile, subagents)
	for _, d := range []*driver{idle, busy} {
		d.result("session.startRemoteSandbox", `{"image":"img"}`)
	}
	busy.run("l", "launch_subagent", `{"harness":"long","model":"m","prompt":"p"}`)
	require.NoError(t, s.app.Sandboxes.Sweep(t.Context()))
	require.Len(t, e.Containers(), 2, "neither has idled for a minute")
	rows, err := s.app.Store.Sandboxes(t.Context())
	require.NoError(t, err)
	for _, r := range rows {
		r.Used = time.Now().Add(-2 * time.Minute)
		require.NoError(t, s.app.Store.NoteSandbox(t.Context(), r))
	}
	require.NoError(t, s.app.Sandboxes.Sweep(t.Context()))
	require.Len(t, e.Containers(), 1)
	tail := idle.log()
	require.Equal(t, "session.sandbox.stopped", tail[len(tail)-1].Type)
	require.Equal(t, "idle", tail[len(tail)-1].Payload["reason"])
	require.Equal(t, "out\n", busy.result("session.execRemoteSandbox", `{"command":"echo out"}`)["stdout"])
}

// A sandbox that no session has, as a crash may leave it, is ended and forgotten.
func TestSandboxesNobodyOwnsAreEnded(t *testing.T) {
	t.Parallel()
	s, e := boxed(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	rows, err := s.app.Store.Sandboxes(t.Context())
	require.NoError(t, err)
	orphan := rows[0]
	orphan.Session, orphan.Created = session.NewID(session.SessionPrefix), time.Now().Add(-time.Hour)
	require.NoError(t, s.app.Store.NoteSandbox(t.Context(), orphan))
	require.NoError(t, s.app.Sandboxes.Sweep(t.Context()))
	require.Empty(t, e.Containers())
	rows, err = s.app.Store.Sandboxes(t.Context())
	require.NoError(t, err)
	require.Empty(t, rows)
}
