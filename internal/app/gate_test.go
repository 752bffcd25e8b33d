package app_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
)

// eventually waits for a condition that other goroutines bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 2*time.Millisecond, what)
}

func TestDriversTakeTurnsInOrderOfArrival(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	d := s.open(profile, `{}`)
	held := modeltest.Script(modeltest.Step{Wait: "go", Text: "first"})
	var wg sync.WaitGroup
	wg.Add(1)
	go func() { defer wg.Done(); d.send(held) }()
	eventually(t, "the first turn runs", func() bool { return len(s.model.Requests()) == 1 })
	sub := d.stream("session.subscribe", `{}`)
	for i := range 5 {
		other := d.join(profile, `{}`)
		wg.Add(1)
		go func() { defer wg.Done(); other.send(fmt.Sprintf("waiter %d", i)) }()
		eventually(t, "it queues", func() bool { return s.queued(d.id) == i+1 })
	}
	s.model.Open("go")
	wg.Wait()
	var said []string
	for len(said) < 5 {
		if e := sub.event(); e.Type == "client.message.send" {
			said = append(said, e.Payload["content"].(string))
		}
	}
	require.Equal(t, []string{"waiter 0", "waiter 1", "waiter 2", "waiter 3", "waiter 4"}, said)
}

func TestAQueuedCallIsOpenAndSilent(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	d := s.open(profile, `{}`)
	other := d.join(profile, `{}`)
	first := d.stream("session.sendMessage", userSays(modeltest.Script(modeltest.Step{Wait: "go", Text: "first"})))
	require.Equal(t, "provider.request", first.event().Type)
	queued := other.stream("session.sendMessage", userSays("second")) // its status came: the answer is open
	got := make(chan map[string]any, 1)
	go func() { got <- queued.next() }()
	select {
	case line := <-got:
		t.Fatalf("a queued call was answered %v", line)
	case <-time.After(300 * time.Millisecond):
	}
	s.model.Open("go")
	require.Equal(t, "session.event", (<-got)["method"])
}

func TestAWaiterThatGoesAwayDoesNotBlockTheQueue(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	d := s.open(profile, `{}`)
	gone, third := d.join(profile, `{}`), d.join(profile, `{}`)
	first := d.stream("session.sendMessage", userSays(modeltest.Script(modeltest.Step{Wait: "go", Text: "first"})))
	first.event()
	waiting := gone.stream("session.sendMessage", userSays("never said"))
	eventually(t, "it queues", func() bool { return s.queued(d.id) == 1 })
	waiting.cancel()
	eventually(t, "it leaves", func() bool { return s.queued(d.id) == 0 })
	s.model.Open("go")
	third.send("third")
	for _, e := range d.log() {
		require.NotEqual(t, "never said", e.Payload["content"])
	}
}

func TestATurnWhoseClientLeavesRunsToItsEnd(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{}`)
	call := d.stream("session.sendMessage", userSays(modeltest.Script(modeltest.Step{Wait: "go", Text: "alone"})))
	call.event()
	call.cancel()
	s.model.Open("go")
	eventually(t, "the answer is recorded", func() bool {
		log := d.log()
		return log[len(log)-1].Type == "server.message.send"
	})
}

func TestClosingCutsARunningTurn(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{}`)
	call := d.stream("session.sendMessage", userSays(modeltest.Script(modeltest.Step{Wait: "go", Text: "late"})))
	call.event()
	a := d.call("DELETE", d.url+"/api/v1/sessions/"+d.id, d.key, "")
	require.Equal(t, 200, a.Status)
	require.JSONEq(t, fmt.Sprintf(`{"session_id":%q,"state":"closed"}`, d.id), string(a.Body))
	e := call.next()["error"].(map[string]any)
	require.Equal(t, -32000., e["code"])
	require.Equal(t, "session is closed, not open", e["message"])
	log := d.log() // a closed session's key still reads
	require.Equal(t, "session.close", log[len(log)-1].Type)
	a = d.call("DELETE", d.url+"/api/v1/sessions/"+d.id, d.key, "")
	require.Equal(t, 409, a.Status)
	require.Equal(t, "session is already closed", a.json(t)["detail"])
}

func TestOthersMayActWhileATurnRuns(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	d := s.open(profile, twoTools)
	other := d.join(profile, `{}`)
	call := d.stream("session.sendMessage", userSays(modeltest.Script(modeltest.Step{Wait: "go", Text: "done"})))
	call.event()
	other.result("session.reportLocalSandbox", `{"state":"running","image":"img"}`)
	other.result("session.reportLocalSubagent", `{"state":"completed","subagent_id":"sba_x","harness":"h","model":"m","exit_code":null}`)
	other.result("session.updateClientTools", `{"tools":[]}`)
	s.model.Open("go")
	for {
		if line := call.next(); line["result"] != nil {
			require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "server.message.send"},
				types(eventsIn(t, line["result"].(map[string]any)["events"])), "others' events are not of this call")
			break
		}
	}
	require.Contains(t, types(d.log()), "session.subagent.completed")
}

func TestASubscriberSeesEveryEventOnceAcrossTheSeam(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{}`)
	d.send("before")
	log := d.log()
	var wg sync.WaitGroup
	wg.Add(1)
	go func() {
		defer wg.Done()
		for i := range 20 {
			d.send(fmt.Sprint(i))
		}
		d.call("DELETE", d.url+"/api/v1/sessions/"+d.id, d.key, "")
	}()
	got := make([][]event, 6)
	for i := range got {
		wg.Add(1)
		go func() {
			defer wg.Done()
			sub := d.stream("session.subscribe", fmt.Sprintf(`{"since_event_id":%q}`, log[i].ID))
			for {
				line := sub.next()
				if line == nil {
					return // the close ended it
				}
				got[i] = append(got[i], eventsIn(t, []any{line["params"]})...)
			}
		}()
	}
	wg.Wait()
	whole := d.log()
	for i := range got {
		require.Equal(t, whole[i+1:], got[i], "subscriber %d", i)
	}
}

func TestSubscriptionsEndAndStart(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{}`)
	sub := d.stream("session.subscribe", `{}`)
	d.result("session.unsubscribe", `{}`)
	require.Nil(t, sub.next(), "unsubscribe ends it")
	for _, unknown := range []string{"", "evt_0"} {
		sub := d.stream("session.subscribe", fmt.Sprintf(`{"since_event_id":%q}`, unknown))
		require.Equal(t, "session.open", sub.event().Type, "%q is no event's id: it starts at the beginning", unknown)
		sub.cancel()
	}
	all := d.stream("session.subscribe", `{"since_event_id":"evt_00000000000000000000000000000000"}`)
	require.Equal(t, "session.open", all.event().Type, "an unknown id starts at the beginning")
	d.call("DELETE", d.url+"/api/v1/sessions/"+d.id, d.key, "")
	require.Equal(t, "session.driver.register", all.event().Type)
	require.Equal(t, "session.close", all.event().Type)
	require.Nil(t, all.next())
	after := d.stream("session.subscribe", fmt.Sprintf(`{"since_event_id":%q}`, d.log()[0].ID))
	require.Equal(t, "session.driver.register", after.event().Type)
	require.Equal(t, "session.close", after.event().Type)
	require.Nil(t, after.next(), "on a closed session it replays and ends")
}

func TestARevokedKeyLosesEverythingAtOnce(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	d := s.open(profile, `{}`)
	other := d.join(profile, `{}`)
	call := d.stream("session.sendMessage", userSays(modeltest.Script(modeltest.Step{Wait: "go", Text: "late"})))
	call.event()
	sub := d.stream("session.subscribe", `{}`)
	require.Equal(t, 204, s.call("DELETE", s.admin+"/admin/v1/keys/"+d.keyID, "admin", "").Status)
	require.Contains(t, call.next(), "error")
	require.Nil(t, sub.next())
	require.Equal(t, 401, d.call("GET", d.url+"/api/v1/sessions/"+d.id+"/events", d.key, "").Status)
	other.send("I go on") // another key keeps the session open
	require.Equal(t, 204, s.call("DELETE", s.admin+"/admin/v1/keys/"+other.keyID, "admin", "").Status)
	items := s.call("GET", s.admin+"/admin/v1/sessions/"+d.id+"/events?limit=200", "admin", "").json(t)["items"]
	log := eventsIn(t, items)
	require.Equal(t, "session.close", log[len(log)-1].Type)
	require.Equal(t, "client_key_revoked", log[len(log)-1].Payload["reason"])
}

// A client that asks for a subscription and reads nothing costs no memory and
// holds nobody up.
func TestASubscriberThatNeverReadsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{}`)
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	body := `{"jsonrpc":"2.0","id":1,"method":"session.subscribe"}`
	fmt.Fprintf(conn, "POST /api/v1/sessions/%s/rpc HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n%s", d.id, d.key, len(body), body)
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	require.Equal(t, 200, res.StatusCode)
	for range 6 {
		d.send(strings.Repeat("x", 200<<10)) // more than a socket holds
	}
	require.Len(t, d.log(), 2+4*6)
}

func TestServerToolsRunBeforeTheClientsAndBothResultsMerge(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), twoTools)
	res := d.send(modeltest.Script(
		modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("c1", "a", `{}`), modeltest.ToolUse("m1", "elsewhere", `{"q":"y"}`)}},
		modeltest.Step{Text: "fin"}))
	require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "tool.call", "tool.call",
		"mcp.request", "mcp.response", "tool.result", "server.message.send"}, types(eventsIn(t, res["events"])))
	res = d.send([]any{
		map[string]any{"type": "tool_result", "tool_use_id": "m1", "content": "forged"},
		map[string]any{"type": "tool_result", "tool_use_id": "c1", "content": "1"},
	})
	merged := eventsIn(t, res["events"])[0].Payload["content"].([]any)
	require.Equal(t, "c1", merged[0].(map[string]any)["tool_use_id"])
	require.NotEqual(t, "forged", merged[1].(map[string]any)["content"], "the server's own result wins")
	d.send("later")
	messages := eventsIn(t, d.send("again")["events"])[1].Payload["messages"].([]any)
	require.Len(t, messages, 8-1, "the exchange stays in the history")
}
