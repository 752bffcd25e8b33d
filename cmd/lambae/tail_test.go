package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

func eventTypes(t *testing.T, lines string) []lambae.EventType {
	var kinds []lambae.EventType
	for line := range strings.Lines(lines) {
		var event lambae.Event
		require.NoError(t, json.Unmarshal([]byte(line), &event))
		kinds = append(kinds, event.Type)
	}
	return kinds
}

func TestTailFollowsASessionToItsEnd(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	session := d.session(t)
	running := d.start(t, "tail", session.ID)
	running.stdout.await(t, "session.join")
	_, err := session.Run(t.Context(), lambae.UserMessage("hello\nthere"), nil)
	require.NoError(t, err)
	running.stdout.await(t, "server.message.send         You said: hello ⏎ there")
	require.NoError(t, session.Close(t.Context()))
	require.Equal(t, exitOK, <-running.code)
	require.Contains(t, running.stdout.String(), "session.close               client_close\n")
	require.Empty(t, running.stderr.String())
}

func TestTailComesBackWithTheKeyItGot(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	session := d.session(t)
	for range 2 {
		running := d.start(t, "tail", session.ID, "--json")
		running.stdout.await(t, "session.join")
		running.interrupts <- os.Interrupt
		require.Equal(t, exitOK, <-running.code)
	}
	require.NoError(t, session.Close(t.Context()))
	require.Equal(t, []lambae.EventType{
		lambae.EventSessionOpen, lambae.EventDriverRegister, lambae.EventSessionJoin, lambae.EventSessionClose,
	}, eventTypes(t, d.ok(t, "tail", session.ID, "--json")), "it joined once")

	info, err := os.Stat(d.home.sessionKeyFile(session.ID))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
}

func TestTailJoinsAgainWhenItsKeyIsNoGood(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	session := d.session(t)
	require.NoError(t, d.home.rememberSession(session.ID, "bae_ses_of_another_server"))
	running := d.start(t, "tail", session.ID)
	running.stdout.await(t, "session.join")
	require.NotEqual(t, "bae_ses_of_another_server", d.home.sessionKey(session.ID))
}

func TestTailStartsWhereItIsTold(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	session := d.session(t)
	page, err := session.EventsPage(t.Context(), "", 1)
	require.NoError(t, err)
	require.NoError(t, session.Close(t.Context()))
	got := d.ok(t, "tail", session.ID, "--session-key", session.Key, "--since", page.Items[0].ID, "--json")
	require.Equal(t, []lambae.EventType{lambae.EventDriverRegister, lambae.EventSessionClose}, eventTypes(t, got))
	require.Empty(t, d.ok(t, "tail", session.ID, "--session-key", session.Key, "--live"))
}

func TestTailOfAClosedSessionPointsToTheAdmin(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	session := d.session(t)
	require.NoError(t, session.Close(t.Context()))
	got := d.call(t, "", "tail", session.ID)
	require.Equal(t, exitFailure, got.code)
	require.Contains(t, got.stderr, "session is already closed, so it cannot be joined; its events are still there: lambae admin session events "+session.ID)
}

func TestTailTellsOfLostConnections(t *testing.T) {
	t.Parallel()
	faults := make(chan *lambaetest.Fault, 1)
	faults <- &lambaetest.Fault{CutAfter: 500}
	d := newDesk(t, lambaetest.Options{Fault: func(call string) *lambaetest.Fault {
		if call != "session.subscribe" {
			return nil
		}
		select {
		case fault := <-faults:
			return fault
		default:
			return nil
		}
	}})
	session := d.session(t)
	require.NoError(t, session.Close(t.Context()))
	got := d.call(t, "", "tail", session.ID, "--session-key", session.Key, "--json")
	require.Equal(t, exitOK, got.code)
	require.Len(t, eventTypes(t, got.stdout), 3)
	require.Contains(t, got.stderr, "connection lost")
}

func TestEventsInWords(t *testing.T) {
	t.Parallel()
	var screen bytes.Buffer
	for _, test := range []struct{ kind, payload string }{
		{"session.open", `{"client_version":"kit/1","tools":["a","b"],"sandbox_tools":["sh"],"subagent_tools":[]}`},
		{"session.join", `{"client_version":null,"tools":[],"sandbox_tools":[],"subagent_tools":["launch"]}`},
		{"session.driver.register", `{}`},
		{"session.sandbox.available", `{"images":[{"name":"img","status":"available"},{"name":"bad","status":"error","detail":"no"}]}`},
		{"client.message.send", `{"role":"user","content":"two\nlines"}`},
		{"client.message.send", `{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"no","is_error":true},{"type":"image"}]}`},
		{"server.message.send", `{"role":"assistant","content":[{"type":"text","text":"let me"},{"type":"tool_use","id":"t1","name":"a","input":{}}]}`},
		{"provider.request", `{"attempt":0,"kind":"primary","provider":"anthropic","model":"m","messages":[{"role":"user","content":"x"}],"tools":[{},{}]}`},
		{"provider.request", `{"attempt":1,"kind":"fallback","provider":"openai","model":"m","messages":[],"messages_omitted":true,"tools":[]}`},
		{"provider.response", `{"provider":"anthropic","ok":true,"status":200,"body":{"stop_reason":"end_turn","usage":{"input_tokens":10,"output_tokens":5}}}`},
		{"provider.response", `{"provider":"openai","ok":true,"status":200,"body":{"usage":{"prompt_tokens":3,"completion_tokens":4}}}`},
		{"provider.response", `{"provider":"p","ok":false,"status":529,"error":"overloaded","body":"{}"}`},
		{"provider.response", `{"provider":"p","ok":false,"status":null,"error":"connection refused","body":null}`},
		{"tool.call", `{"id":"t1","name":"a","input":{"q":1},"dispatch":"client"}`},
		{"tool.call", `{"id":"t1","name":"ls","input":{},"dispatch":"mcp","server_name":"files"}`},
		{"tool.result", `{"tool_use_id":"t1","dispatch":"mcp","is_error":false,"content":[{"type":"text","text":"fine"}]}`},
		{"tool.result", `{"tool_use_id":"t1","dispatch":"client","is_error":true,"content":{"n":1}}`},
		{"mcp.request", `{"method":"tools/call","server_name":"files","tool":"ls","input":{"path":"/"}}`},
		{"mcp.response", `{"server_name":"files","ok":true,"result":{"content":[]}}`},
		{"mcp.response", `{"server_name":"files","ok":false,"error":"gone"}`},
		{"sandbox.request", `{"tool":"sh","input":{"command":"ls"},"command":"ls"}`},
		{"sandbox.request", `{"tool":"sh","input":{"x":1},"command":null}`},
		{"sandbox.response", `{"sandbox_id":"sbx_1","ok":false,"result":{"stdout":"out\n","stderr":"err\n","exit_code":2}}`},
		{"sandbox.response", `{"sandbox_id":null,"ok":false,"error":"no sandbox"}`},
		{"session.sandbox.running", `{"image":"img","dispatch":"remote","sandbox_id":"sbx_1"}`},
		{"session.sandbox.error", `{"image":"img","dispatch":"remote","phase":"start","detail":"pull failed"}`},
		{"session.sandbox.stopped", `{"dispatch":"local","image":null,"unsandboxed":true,"container_id":null,"detail":null}`},
		{"session.subagent.failed", `{"dispatch":"remote","subagent_id":"sba_1","harness":"h","model":"m","detail":null,"reason":"nonzero_exit","exit_code":3}`},
		{"session.close", `{"reason":"client_close"}`},
		{"session.error", `{"reason":"provider_call_failed","provider":"p","detail":"overloaded"}`},
		{"session.news", `{"what":"this program is older than the server"}`},
		{"tool.call", `["not", "an object"]`},
		{"client.message.send", `{"role":"user","content":"evil \u001b[31mred\u001b[0m \u0007 bell"}`},
		{"client.message.send", `{"role":"user","content":"` + strings.Repeat("long ", 100) + `"}`},
	} {
		var event lambae.Event
		require.NoError(t, json.Unmarshal([]byte(`{"id":"evt_1","session_id":"ses_1","client_key_id":"key_e5f6a7b8c9d0","event_type":"`+
			test.kind+`","payload":`+test.payload+`,"created_at":"2026-07-06T18:26:10.123Z"}`), &event))
		screen.WriteString(eventLine(event, style{}, false) + "\n")
	}
	golden(t, "events.txt", screen.String())
}

func TestTailFollowsTheLastSessionByItself(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	first := d.call(t, "one\n/close\n", "chat")
	id := strings.TrimSuffix(strings.Fields(first.stderr)[1], ",")
	second := d.call(t, "two\n/close\n", "chat")
	require.Equal(t, exitOK, second.code, second.stderr)
	past := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(d.home.sessionKeyFile(id), past, past))
	require.Contains(t, d.ok(t, "tail"), "You said: two")
	require.Contains(t, d.ok(t, "tail", id), "You said: one")
	require.Contains(t, d.ok(t, "tail"), "You said: one", "that is the last one now")
}

func TestAKeyThatIsGivenIsTheOneThatIsUsed(t *testing.T) {
	t.Parallel()
	d := newDesk(t, lambaetest.Options{})
	require.Zero(t, d.call(t, "hi\n", "chat").code)
	id := d.home.lastSession()
	require.NotEmpty(t, d.home.sessionKey(id))
	require.Equal(t, "You said: again\n", d.call(t, "again\n", "chat", id).stdout, "what is remembered will do")
	for _, words := range [][]string{{"chat", id}, {"tail", id}} {
		got := d.call(t, "who am I\n", append(words, "--key", "bae_"+strings.Repeat("0", 48))...)
		require.Equal(t, exitFailure, got.code, words)
		require.Contains(t, got.stderr, "401 unauthorized", words)
	}
}
