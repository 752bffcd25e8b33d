//go:build linux

package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/modeltest"
)

const subagents = `{"subagent_tools":[{"name":"launch_subagent","image":"img","description":"d","input_schema":{"type":"object"},"subagents":[
	{"harness":"cat","prompt_via":"stdin","command_template":"cat; echo model {model}"},
	{"harness":"arg","prompt_via":"arg","command_template":"printf '%s|' {model} {prompt}"},
	{"harness":"fail","command_template":"echo bad >&2; exit 3"},
	{"harness":"slow","command_template":"sleep 30","timeout_secs":1},
	{"harness":"long","command_template":"sleep 30"},
	{"harness":"big","command_template":"head -c 100000 /dev/zero | tr '\\0' x"}]}]}`

// agents opens a session whose sandbox runs.
func agents(t testing.TB) *driver {
	s, _ := boxed(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img", "img2"}}), subagents)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	return d
}

func launchInput(harness, model, prompt string) string {
	return jsonOf(map[string]any{"harness": harness, "model": model, "prompt": prompt})
}

// launch launches a subagent and returns its id.
func (d *driver) launch(harness, model, prompt string) string {
	d.t.Helper()
	events := d.run("l1", "launch_subagent", launchInput(harness, model, prompt))
	result := payload(d.t, events, "tool.result")
	require.Equal(d.t, false, result["is_error"], result)
	var v map[string]any
	require.NoError(d.t, json.Unmarshal([]byte(said(d.t, result)), &v))
	return v["subagent_id"].(string)
}

// status asks for the subagents as the model does.
func (d *driver) status(input string) (map[string]any, []event) {
	d.t.Helper()
	events := d.run("q", "remote_subagent_status", input)
	var v map[string]any
	require.NoError(d.t, json.Unmarshal([]byte(said(d.t, payload(d.t, events, "tool.result"))), &v))
	return v, events
}

// ended waits for the terminal event of a subagent.
func (d *driver) ended(id string) (found event) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		for _, e := range d.log() {
			switch e.Type {
			case "session.subagent.completed", "session.subagent.failed", "session.subagent.cancelled":
				if e.Payload["subagent_id"] == id {
					found = e
					return true
				}
			}
		}
		return false
	}, 20*time.Second, 10*time.Millisecond, "the subagent does not end")
	return found
}

func tools(e event) (names []string) {
	for _, t := range e.Payload["tools"].([]any) {
		names = append(names, t.(map[string]any)["name"].(string))
	}
	return names
}

const nasty = "it's \"$HOME\" `x` {model} {prompt}\nline2"

func TestSubagentsOfEveryKindEndAsTheyShould(t *testing.T) {
	t.Parallel()
	for harness, want := range map[string]struct {
		event   string
		members map[string]any // of the event, beside those all have
		status  map[string]any // of the report, beside those all have
	}{
		"cat": {"completed", map[string]any{"exit_code": 0.}, map[string]any{"status": "completed", "exit_code": 0., "stdout": nasty + "model m'1\n"}},
		"arg": {"completed", map[string]any{"exit_code": 0.}, map[string]any{"status": "completed", "exit_code": 0., "stdout": "m'1|" + nasty + "|"}},
		"fail": {"failed", map[string]any{"exit_code": 3., "reason": "nonzero_exit"},
			map[string]any{"status": "failed", "exit_code": 3., "reason": "nonzero_exit", "stderr": "bad\n"}},
		"slow": {"failed", map[string]any{"exit_code": nil, "reason": "timeout"},
			map[string]any{"status": "timed_out", "reason": "timeout", "stdout": nil, "stderr": nil}},
		"big": {"completed", map[string]any{"exit_code": 0.}, map[string]any{"status": "completed", "exit_code": 0., "stdout": strings.Repeat("x", 65536), "truncated": true}},
	} {
		t.Run(harness, func(t *testing.T) {
			t.Parallel()
			d := agents(t)
			events := d.run("l1", "launch_subagent", launchInput(harness, "m'1", nasty))
			require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "tool.call", "session.subagent.start",
				"session.subagent.running", "tool.result", "provider.request", "provider.response", "server.message.send"}, types(events))
			require.Equal(t, []string{"launch_subagent"}, tools(events[1]))
			require.Equal(t, []string{"launch_subagent", "remote_subagent_status"}, tools(events[7]), "the status tool is offered while something is tracked")
			id := events[4].Payload["subagent_id"].(string)
			require.Regexp(t, `^sba_[0-9a-f]{32}$`, id)
			common := map[string]any{"dispatch": "remote", "subagent_id": id, "harness": harness, "model": "m'1", "detail": nil}
			require.Equal(t, common, events[4].Payload)
			require.Equal(t, common, events[5].Payload)
			require.Equal(t, fmt.Sprintf(`{"subagent_id":%q,"harness":%q,"model":"m'1","status":"started"}`, id, harness), said(t, events[6].Payload))
			end := d.ended(id)
			require.Equal(t, "session.subagent."+want.event, end.Type)
			for k, v := range common {
				want.members[k] = v
			}
			require.Equal(t, want.members, end.Payload)
			require.Equal(t, d.keyID, end.Key)

			report := map[string]any{"subagent_id": id, "harness": harness, "model": "m'1", "exit_code": nil, "stdout": "", "stderr": "", "truncated": false, "reason": nil, "detail": nil}
			for k, v := range want.status {
				report[k] = v
			}
			got, asked := d.status(`{}`)
			require.Equal(t, map[string]any{"subagents": []any{report}}, got)
			require.Equal(t, "subagent", payload(t, asked, "tool.call")["dispatch"])
			require.Equal(t, []string{"launch_subagent"}, tools(asked[len(asked)-3]), "what was reported is forgotten")
			got, _ = d.status(`{}`)
			require.Equal(t, map[string]any{"subagents": []any{}}, got)
		})
	}
}

func TestLaunchesAreRefusedInOrder(t *testing.T) {
	t.Parallel()
	s, _ := boxed(t, setup{})
	profile := s.profile(map[string]any{"available_sandboxes": []string{"img2"}})
	d := s.open(profile, subagents)
	refused := func(input, want string) {
		t.Helper()
		events := d.run("l", "launch_subagent", input)
		require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "tool.call", "tool.result",
			"provider.request", "provider.response", "server.message.send"}, types(events), "a refusal has no lifecycle events")
		result := payload(t, events, "tool.result")
		require.Equal(t, true, result["is_error"])
		require.Equal(t, "subagent", result["dispatch"])
		require.Equal(t, jsonOf(map[string]any{"error": want}), said(t, result))
	}
	missing := `launch_subagent requires string "harness", "model", and "prompt"`
	for _, input := range []string{`{"model":"m","prompt":"p"}`, `{"harness":"cat","model":"m","prompt":" "}`, `{"harness":"cat","prompt":"p"}`, `{"harness":"cat","model":5,"prompt":"p"}`, `[]`} {
		refused(input, missing)
	}
	refused(launchInput("zz", "m", "p"), `unknown harness "zz"`)
	refused(launchInput("cat", "m", "p"), "no remote sandbox is running for tool 'launch_subagent'; call session.startRemoteSandbox first")
	d.result("session.startRemoteSandbox", `{"image":"img2"}`)
	refused(launchInput("cat", "m", "p"), `remote sandbox image mismatch: subagent declared "img" but the running sandbox uses "img2"`)
}

func TestAnImageTakenOffTheProfileIsRefused(t *testing.T) {
	t.Parallel()
	s, _ := boxed(t, setup{})
	profile := map[string]any{"name": "changing", "primary_provider": "model", "available_sandboxes": []string{"img"}}
	id := s.profile(profile)
	d := s.open(id, subagents)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	profile["available_sandboxes"] = []string{}
	require.Equal(t, 200, s.call("PUT", s.admin+"/admin/v1/profiles/"+id, "admin", jsonOf(profile)).Status)
	result := payload(t, d.run("l", "launch_subagent", launchInput("cat", "m", "p")), "tool.result")
	require.Contains(t, said(t, result), `is not in this session profile's available_sandboxes`)
}

func TestALimitOfSubagentsHoldsWithinOneAnswer(t *testing.T) {
	t.Parallel()
	d := agents(t)
	var calls []json.RawMessage
	for i := range 9 {
		calls = append(calls, modeltest.ToolUse(fmt.Sprint("l", i), "launch_subagent", launchInput("long", "m", "p")))
	}
	events := eventsIn(t, d.send(modeltest.Script(modeltest.Step{Blocks: calls}, modeltest.Step{Text: "fin"}))["events"])
	kinds := strings.Join(types(events), " ")
	require.Equal(t, 8, strings.Count(kinds, "session.subagent.start session.subagent.running tool.result"))
	last := events[len(events)-4].Payload
	require.Equal(t, "l8", last["tool_use_id"])
	require.Equal(t, `{"error":"subagent limit reached (max 8 per session)"}`, said(t, last))
	got, _ := d.status(`{}`)
	require.Len(t, got["subagents"], 8)
	first := got["subagents"].([]any)[0].(map[string]any)
	require.Equal(t, map[string]any{"subagent_id": events[13].Payload["subagent_id"], "harness": "long", "model": "m", "status": "running", "exit_code": nil,
		"stdout": nil, "stderr": nil, "truncated": false, "reason": nil, "detail": nil}, first)
	require.Equal(t, 200, d.call("DELETE", d.url+"/api/v1/sessions/"+d.id, d.key, "").Status)
	log := d.log()
	require.Equal(t, "session.subagent.cancelled session.subagent.cancelled session.sandbox.stop session.sandbox.stopped", strings.Join(types(log[len(log)-4:]), " "))
}

func TestSubagentsAreCancelled(t *testing.T) {
	t.Parallel()
	d := agents(t)
	fault := func(id, want string) {
		t.Helper()
		code, message := d.fault("session.cancelSubagent", jsonOf(map[string]any{"subagent_id": id}))
		require.Equal(t, want, fmt.Sprintf("%d %s", code, message))
	}
	fault("sba_x", `-32014 subagent_not_found: no tracked subagent "sba_x" for this session`)
	fault(" ", `-32602 Invalid params: missing "subagent_id"`)
	id := d.launch("long", "m", "p")
	got, _ := d.status(`{"subagent_id":"ALL0"}`)
	require.Equal(t, map[string]any{"error": "unknown subagent_id"}, got)
	cancel := jsonOf(map[string]any{"subagent_id": id})
	require.Equal(t, map[string]any{"cancelled": true, "subagent_id": id, "was_running": true}, d.result("session.cancelSubagent", cancel))
	require.Equal(t, map[string]any{"cancelled": true, "subagent_id": id, "was_running": false}, d.result("session.cancelSubagent", cancel))
	end := d.ended(id)
	require.Equal(t, map[string]any{"dispatch": "remote", "subagent_id": id, "harness": "long", "model": "m", "detail": nil, "reason": "explicit"}, end.Payload)
	got, _ = d.status(cancel)
	require.Equal(t, []any{map[string]any{"subagent_id": id, "harness": "long", "model": "m", "status": "cancelled", "exit_code": nil,
		"stdout": nil, "stderr": nil, "truncated": false, "reason": "explicit", "detail": nil}}, got["subagents"])
	fault(id, `-32014 subagent_not_found: no tracked subagent "`+id+`" for this session`)
}

func TestALaunchThatFailsIsSaidToHaveFailed(t *testing.T) {
	t.Parallel()
	d := agents(t)
	events := d.run("l1", "launch_subagent", launchInput("arg", "m", strings.Repeat("x", 200<<10))) // more than an argument may have
	require.Equal(t, []string{"session.subagent.start", "session.subagent.running", "session.subagent.failed", "tool.result"}, types(events)[4:8])
	failed := payload(t, events, "session.subagent.failed")
	require.Equal(t, "spawn_failed", failed["reason"])
	require.Nil(t, failed["exit_code"])
	require.Equal(t, true, payload(t, events, "tool.result")["is_error"])
}

// Any prompt and model text arrive byte for byte through a real shell.
func TestAnyPromptArrivesUnchanged(t *testing.T) {
	t.Parallel()
	d := agents(t)
	word := rapid.StringOf(rapid.RuneFrom([]rune(`{}'"$\ab;|&<>é😀` + "\n\t*!`")))
	for i := range 6 { // each is a whole turn, twice
		model, prompt := "m"+word.Example(i), "p"+word.Example(100+i)
		for harness, want := range map[string]string{"cat": prompt + "model " + model + "\n", "arg": model + "|" + prompt + "|"} {
			id := d.launch(harness, model, prompt)
			d.ended(id)
			got, _ := d.status(`{}`)
			require.Equal(t, want, got["subagents"].([]any)[0].(map[string]any)["stdout"])
		}
	}
}
