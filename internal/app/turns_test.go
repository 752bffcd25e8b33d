package app_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
)

const twoTools = `{"tools":[{"name":"a","description":"first","input_schema":{"type":"object"}},{"name":"b"}]}`

func TestASimpleTurnShowsRequestAnswerAndMessage(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{"client_version":"kit/1"}`)
	lines := d.rpc("session.sendMessage", userSays("hello"))
	require.Len(t, lines, 4)
	res := lines[3]["result"].(map[string]any)
	require.Equal(t, map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": "ok: hello"}}}, res["message"])
	events := eventsIn(t, res["events"])
	require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "server.message.send"}, types(events))
	for i, e := range events {
		require.Equal(t, d.id, e.Session)
		require.Equal(t, d.keyID, e.Key)
		require.Regexp(t, `^evt_[0-9a-f]{32}$`, e.ID)
		require.Regexp(t, `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`, e.Created)
		if i > 0 { // the client's own message is not echoed
			require.Equal(t, e.ID, eventsIn(t, []any{lines[i-1]["params"]})[0].ID)
		}
	}
	require.Equal(t, map[string]any{"attempt": 0., "kind": "primary", "provider": "anthropic", "base_url": s.model.URL, "model": "scripted",
		"max_tokens": 4096., "messages": []any{map[string]any{"role": "user", "content": "hello"}}, "tools": []any{}}, events[1].Payload)
	require.Equal(t, true, events[2].Payload["ok"])
	require.Equal(t, "end_turn", events[2].Payload["body"].(map[string]any)["stop_reason"])
	require.Equal(t, append([]string{"session.open", "session.driver.register"}, types(events)...), types(d.log()))
}

func TestHistoryOfTurnsReachesTheModel(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(map[string]any{"system_prompt": "be brief"}), `{}`)
	d.send("one")
	d.send([]any{map[string]any{"type": "text", "text": "two"}, map[string]any{"type": "image", "source": map[string]any{"type": "base64", "data": "aGk="}}})
	var req map[string]any
	require.NoError(t, json.Unmarshal(s.model.Requests()[1], &req))
	require.Equal(t, "be brief", req["system"])
	require.Equal(t, []any{
		map[string]any{"role": "user", "content": "one"},
		map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": "ok: one"}}},
		map[string]any{"role": "user", "content": []any{map[string]any{"type": "text", "text": "two"}, map[string]any{"type": "image", "source": map[string]any{"type": "base64", "data": "aGk="}}}},
	}, req["messages"])
	require.NotContains(t, req, "tools")
	requests := d.log()
	require.Equal(t, "be brief", requests[3].Payload["system"])
}

func TestBlocksPassThroughUntouched(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{}`)
	odd := `{"type":"thinking","thinking":"hm","signature":"s","z":12345678901234567890,"a":1.0}`
	d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{json.RawMessage(odd), json.RawMessage(`{"type":"text","text":"done \u2028 ☃"}`)}}))
	d.send("next")
	require.Contains(t, string(s.model.Requests()[1]), odd)
	a := d.call("GET", d.url+"/api/v1/sessions/"+d.id+"/events", d.key, "")
	require.Contains(t, string(a.Body), odd)
	require.NotContains(t, string(a.Body), "\u2028")
}

func TestClientToolsPauseTheTurn(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), twoTools)
	script := modeltest.Script(
		modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("t1", "a", `{"q":1}`), modeltest.ToolUse("t2", "b", `{}`)}},
		modeltest.Step{Text: "fin"})
	res := d.send(script)
	require.Equal(t, []any{
		map[string]any{"type": "tool_use", "id": "t1", "name": "a", "input": map[string]any{"q": 1.}, "dispatch": "client"},
		map[string]any{"type": "tool_use", "id": "t2", "name": "b", "input": map[string]any{}, "dispatch": "client"},
	}, res["message"].(map[string]any)["content"])
	require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "tool.call", "tool.call", "server.message.send"}, types(eventsIn(t, res["events"])))

	res = d.send([]any{
		map[string]any{"type": "tool_result", "tool_use_id": "t2", "content": []any{map[string]any{"type": "text", "text": "B"}}},
		map[string]any{"type": "tool_result", "tool_use_id": "t1", "content": "A", "is_error": true},
		map[string]any{"type": "text", "text": "and"},
	})
	events := eventsIn(t, res["events"])
	require.Equal(t, []string{"client.message.send", "tool.result", "tool.result", "provider.request", "provider.response", "server.message.send"}, types(events))
	merged := events[0].Payload["content"].([]any)
	require.Equal(t, "t1", merged[0].(map[string]any)["tool_use_id"], "results follow the order of the calls")
	require.Equal(t, "t2", merged[1].(map[string]any)["tool_use_id"])
	require.Equal(t, "text", merged[2].(map[string]any)["type"])
	require.Equal(t, map[string]any{"tool_use_id": "t1", "dispatch": "client", "is_error": true, "content": "A"}, events[1].Payload)
	require.NotContains(t, events[2].Payload, "is_error")
	shown := events[3].Payload["messages"].([]any)[1].(map[string]any)["content"].([]any)[0].(map[string]any)
	require.Equal(t, "client", shown["dispatch"])
	require.NotContains(t, string(s.model.Requests()[1]), "dispatch", "the model never sees who runs a tool")
}

func TestWrongToolResultsEndTheSession(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	result := func(id string) map[string]any {
		return map[string]any{"type": "tool_result", "tool_use_id": id, "content": "x"}
	}
	for name, content := range map[string]any{
		"missing":   []any{result("t1")},
		"duplicate": []any{result("t1"), result("t1"), result("t2")},
		"unknown":   []any{result("t1"), result("t2"), result("t3")},
		"empty":     []any{},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := s.open(profile, twoTools)
			d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("t1", "a", `{}`), modeltest.ToolUse("t2", "b", `{}`)}}))
			code, text := d.fault("session.sendMessage", userSays(content))
			require.Equal(t, -32000, code)
			require.True(t, strings.HasPrefix(text, "tool result merge invalid: "), text)
			log := d.log()
			require.Equal(t, "session.error", log[len(log)-1].Type)
			require.Equal(t, "tool_result_merge_invalid", log[len(log)-1].Payload["reason"])
			_, text = d.fault("session.sendMessage", userSays("again"))
			require.Equal(t, "session is error, not open", text)
		})
	}
}

func TestAPlainMessageAbandonsThePausedTurn(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), twoTools)
	d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("t1", "a", `{}`)}}))
	res := d.send("never mind")
	require.Equal(t, []any{
		map[string]any{"type": "tool_result", "tool_use_id": "t1", "content": "Client tool call was abandoned before returning a result.", "is_error": true},
		map[string]any{"type": "text", "text": "never mind"},
	}, eventsIn(t, res["events"])[0].Payload["content"])
	require.Equal(t, "ok: never mind", res["message"].(map[string]any)["content"].([]any)[0].(map[string]any)["text"])
	code, text := d.fault("session.sendMessage", userSays([]any{map[string]any{"type": "tool_result", "tool_use_id": "t1", "content": "late"}}))
	require.Equal(t, -32602, code)
	require.Equal(t, "Invalid params: no paused turn awaits a tool_result", text)
}

// A driver may put words in the model's mouth instead of answering: the calls are
// abandoned in a user turn of their own.
func TestAMessageOfTheAssistantAbandonsThePausedTurn(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), twoTools)
	d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("t1", "a", `{}`)}}))
	res := d.result("session.sendMessage", `{"message":{"role":"assistant","content":"Let me rather say:"}}`)
	events := eventsIn(t, res["events"])
	require.Equal(t, []string{"client.message.send", "client.message.send", "provider.request"}, types(events)[:3])
	messages := events[2].Payload["messages"].([]any)
	require.Equal(t, []any{
		map[string]any{"role": "user", "content": []any{
			map[string]any{"type": "tool_result", "tool_use_id": "t1", "content": "Client tool call was abandoned before returning a result.", "is_error": true},
		}},
		map[string]any{"role": "assistant", "content": "Let me rather say:"},
	}, messages[2:])
	require.Equal(t, events[0].Payload, messages[2])
	require.Equal(t, events[1].Payload, messages[3])
}

func TestAMessageMustSaySomething(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), twoTools)
	before := d.log()
	for _, content := range []any{"", []any{}} {
		code, text := d.fault("session.sendMessage", userSays(content))
		require.Equal(t, -32602, code)
		require.Equal(t, `Invalid params: "message.content" must not be empty`, text)
	}
	require.Equal(t, before, d.log(), "nothing is recorded")
	d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("t1", "a", `{}`)}}))
	res := d.send("")
	require.Len(t, eventsIn(t, res["events"])[0].Payload["content"], 1, "to a paused turn it is an abandonment with nothing to add")
}

// The members of a block count in their own case, as the model APIs read them.
func TestBlocksAreReadInTheirOwnCase(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), twoTools)
	odd := json.RawMessage(`{"type":"text","text":"no call","Type":"tool_use","ID":"t1","Name":"a"}`)
	res := d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{odd}}))
	require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "server.message.send"}, types(eventsIn(t, res["events"])))
	d.send([]any{map[string]any{"type": "text", "text": "no result", "TYPE": "tool_result"}})
}

func TestAnAbandonedTurnIsTakenOver(t *testing.T) {
	t.Parallel()
	s := start(t, setup{turn: 300 * time.Millisecond})
	profile := s.profile(nil)
	d := s.open(profile, twoTools)
	other := d.join(profile, `{}`)
	d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("t1", "a", `{}`)}}))
	res := other.send("my turn") // waits for the time-out by itself
	require.Equal(t, "client.message.send", eventsIn(t, res["events"])[0].Type)
	messages := eventsIn(t, res["events"])[1].Payload["messages"].([]any)
	require.Equal(t, []any{
		map[string]any{"type": "tool_result", "tool_use_id": "t1", "content": "Client tool call was abandoned before returning a result.", "is_error": true},
		map[string]any{"type": "text", "text": "my turn"},
	}, messages[2].(map[string]any)["content"])
	var taken event
	for _, e := range d.log() {
		if e.Type == "session.error" {
			taken = e
		}
	}
	require.Equal(t, map[string]any{"reason": "driver_turn_abandoned", "owner_client_key_id": d.keyID}, taken.Payload)
	require.Equal(t, d.keyID, taken.Key)
	d.send("still open")
}

func TestFallbacksAreTriedInOrder(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(map[string]any{"primary_provider": "broken", "fallback_providers": []string{"unknown", "spare"}}), `{}`)
	res := d.send("hello")
	events := eventsIn(t, res["events"])
	require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "session.error", "session.error",
		"provider.request", "provider.response", "server.message.send"}, types(events))
	require.Equal(t, false, events[2].Payload["ok"])
	require.Equal(t, 400., events[2].Payload["status"])
	require.Equal(t, "provider_call_failed", events[3].Payload["reason"])
	require.Equal(t, "provider_config", events[4].Payload["reason"])
	require.Equal(t, 2., events[5].Payload["attempt"])
	require.Equal(t, "fallback", events[5].Payload["kind"])
}

func TestWithoutAnyProviderTheSessionEnds(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(map[string]any{"primary_provider": "broken"}), `{}`)
	res := d.send("hello")
	require.Equal(t, map[string]any{"role": "assistant", "content": []any{map[string]any{"type": "text", "text": "The provider is currently unavailable."}}}, res["message"])
	events := eventsIn(t, res["events"])
	require.Equal(t, map[string]any{"reason": "all_providers_failed", "attempts": 1.}, events[len(events)-1].Payload)
	_, text := d.fault("session.sendMessage", userSays("again"))
	require.Equal(t, "session is error, not open", text)
	d.result("session.reportLocalSandbox", `{"state":"stopped","image":"img"}`) // a client still cleans up, and tells
	rows := s.call("GET", s.admin+"/admin/v1/sessions?state=error", "admin", "").json(t)["items"].([]any)
	require.Len(t, rows, 1)
	require.NotNil(t, rows[0].(map[string]any)["closed_at"])
}

func TestTheNinthRoundTripEndsTheSession(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{}`)
	res := d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("x", "nothing_here", `{}`)}}))
	events := eventsIn(t, res["events"])
	require.Equal(t, map[string]any{"reason": "loop_limit", "max_iterations": 8.}, events[len(events)-1].Payload)
	require.Len(t, s.model.Requests(), 8)
	calls := 0
	for _, e := range events {
		if e.Type == "tool.result" {
			calls++
			require.Equal(t, "MCP error: no MCP server is configured for tool 'nothing_here'", e.Payload["content"].([]any)[0].(map[string]any)["text"])
		}
	}
	require.Equal(t, 8, calls)
}

func TestDeltasComeBeforeTheAnswerAndAreNotStored(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{}`)
	script := modeltest.Script(modeltest.Step{Text: "one two three"})
	lines := d.rpc("session.sendMessage", jsonOf(map[string]any{"stream": true, "message": map[string]any{"content": script}}))
	var text string
	for _, l := range lines {
		if l["method"] == "session.delta" {
			p := l["params"].(map[string]any)
			require.Equal(t, d.id, p["session_id"])
			require.Equal(t, "text", p["type"])
			text += p["text"].(string)
		}
	}
	require.Equal(t, "one two three", text)
	res := lines[len(lines)-1]["result"].(map[string]any)
	require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "server.message.send"}, types(eventsIn(t, res["events"])))
	plain := s.open(s.profile(nil), `{}`)
	want := eventsIn(t, plain.send(script)["events"])[2].Payload["body"]
	require.Equal(t, want, eventsIn(t, res["events"])[2].Payload["body"], "a streamed answer is stored as a whole one")
}

func TestToolsCanBeReplacedDuringASession(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), twoTools)
	d.result("session.updateClientTools", `{"tools":[{"name":"b"}]}`)
	tools := eventsIn(t, d.send("hi")["events"])[1].Payload["tools"].([]any)
	require.Len(t, tools, 1)
	require.Equal(t, "b", tools[0].(map[string]any)["name"])
	code, text := d.fault("session.updateClientTools", `{"tools":[{"name":"zz"}]}`)
	require.Equal(t, -32015, code)
	require.Equal(t, `tool_not_allowed: tool "zz" is not in the profile's allowlist`, text)
	code, _ = d.fault("session.updateClientTools", `{"tools":[{"name":"remote_subagent_status"}]}`)
	require.Equal(t, -32015, code)
}
