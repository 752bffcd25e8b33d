package app_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
)

func TestARepeatedOpenIsOneSession(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	_, key := s.key(s.profile(nil))
	open := func(body, idem string) answer {
		return s.call("POST", s.url+"/api/v1/sessions", key, body, "Idempotency-Key", idem)
	}
	answers := make([]answer, 8)
	var wg sync.WaitGroup
	for i := range answers {
		wg.Add(1)
		go func() { defer wg.Done(); answers[i] = open(`{}`, "k1") }()
	}
	wg.Wait()
	for _, a := range answers {
		require.Equal(t, 201, a.Status, string(a.Body))
		require.JSONEq(t, string(answers[0].Body), string(a.Body), "the same key comes back")
	}
	require.Len(t, s.call("GET", s.admin+"/admin/v1/sessions", "admin", "").json(t)["items"], 1)
	a := open(`{"client_version":"2"}`, "k1")
	require.Equal(t, 409, a.Status)
	require.Equal(t, "idempotency_mismatch", a.json(t)["type"])
	require.NotEqual(t, answers[0].json(t)["session_id"], open(`{}`, "k2").json(t)["session_id"])
	_, other := s.key(s.profile(nil))
	require.NotEqual(t, answers[0].json(t)["session_id"],
		s.call("POST", s.url+"/api/v1/sessions", other, `{}`, "Idempotency-Key", "k1").json(t)["session_id"], "keys of others are others")
}

func TestARepeatedOpenStandsWhateverCameAfter(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	_, key := s.key(profile)
	open := func() answer {
		return s.call("POST", s.url+"/api/v1/sessions", key, `{"tools":[{"name":"a"}]}`, "Idempotency-Key", "o")
	}
	first := open()
	require.Equal(t, 201, first.Status, string(first.Body))
	p := s.call("GET", s.admin+"/admin/v1/profiles/"+profile, "admin", "").json(t)
	p["allowed_tools"] = []string{}
	require.Equal(t, 200, s.call("PUT", s.admin+"/admin/v1/profiles/"+profile, "admin", jsonOf(p)).Status)
	again := open()
	require.Equal(t, 201, again.Status, string(again.Body))
	require.JSONEq(t, string(first.Body), string(again.Body), "the profile is shown as it was")
	p["primary_provider"] = "nowhere"
	require.Equal(t, 200, s.call("PUT", s.admin+"/admin/v1/profiles/"+profile, "admin", jsonOf(p)).Status)
	require.JSONEq(t, string(first.Body), string(open().Body))
	require.Len(t, s.call("GET", s.admin+"/admin/v1/sessions", "admin", "").json(t)["items"], 1, "nothing is left of a retry")
}

func TestARepeatedJoinStandsWhateverCameAfter(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	d := s.open(profile, `{}`)
	_, key := s.key(profile)
	join := func(body, idem string) answer {
		return s.call("POST", d.url+"/api/v1/sessions/"+d.id+"/join", key, body, "Idempotency-Key", idem)
	}
	const body = `{"tools":[{"name":"a"}]}`
	first := join(body, "j")
	require.Equal(t, 201, first.Status, string(first.Body))
	p := s.call("GET", s.admin+"/admin/v1/profiles/"+profile, "admin", "").json(t)
	p["allowed_tools"] = []string{}
	require.Equal(t, 200, s.call("PUT", s.admin+"/admin/v1/profiles/"+profile, "admin", jsonOf(p)).Status)
	require.Equal(t, 200, s.call("DELETE", d.url+"/api/v1/sessions/"+d.id, d.key, "").Status)

	again := join(body, "j")
	require.Equal(t, 201, again.Status, string(again.Body))
	require.JSONEq(t, string(first.Body), string(again.Body), "the profile is shown as it was")
	require.Equal(t, "idempotency_mismatch", join(`{}`, "j").json(t)["type"])
	require.Equal(t, "session_closed", join(body, "other").json(t)["type"])
}

func TestARepeatedJoinIsOneEvent(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	d := s.open(profile, `{}`)
	_, key := s.key(profile)
	join := func(body string) answer {
		return s.call("POST", d.url+"/api/v1/sessions/"+d.id+"/join", key, body, "Idempotency-Key", "j")
	}
	first := join(`{}`)
	require.JSONEq(t, string(first.Body), string(join(`{}`).Body))
	require.Equal(t, 409, join(`{"client_version":"x"}`).Status)
	joins := 0
	for _, kind := range types(d.log()) {
		if kind == "session.join" {
			joins++
		}
	}
	require.Equal(t, 1, joins)
}

func TestARepeatedMessageIsSaidOnce(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), twoTools)
	first := d.send("hello", "Idempotency-Key", "m1")
	require.Equal(t, first, d.send("hello", "Idempotency-Key", "m1"))
	require.Len(t, s.model.Requests(), 1)
	a := d.call("POST", d.rpcURL(), d.key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session.sendMessage","params":%s}`, userSays("other")), "Idempotency-Key", "m1")
	require.Equal(t, 409, a.Status)
	require.Equal(t, "idempotency_mismatch", a.json(t)["type"])
	// A client that counts its calls repeats a message under another id.
	again := d.call("POST", d.rpcURL(), d.key, fmt.Sprintf(`{"params": %s, "jsonrpc":"2.0","id":"again","method":"session.sendMessage"}`, userSays("hello")), "Idempotency-Key", "m1")
	require.Equal(t, 200, again.Status, string(again.Body))
	lines := strings.Split(strings.TrimSpace(string(again.Body)), "\n")
	require.Contains(t, lines[len(lines)-1], `"id":"again"`)
	require.NotEqual(t, first, d.send("hello", "Idempotency-Key", "m2"))
}

// The repeat comes while the first call runs, or waits: it gets the same answer
// and nothing happens twice.
func TestARepeatFollowsTheCallThatRuns(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	profile := s.profile(nil)
	d := s.open(profile, `{}`)
	other := d.join(profile, `{}`)
	block := d.stream("session.sendMessage", userSays(modeltest.Script(modeltest.Step{Wait: "block", Text: "x"})))
	block.event()
	slow := modeltest.Script(modeltest.Step{Wait: "go", Text: "slow"})
	results := make([]map[string]any, 3)
	var wg sync.WaitGroup
	for i := range results {
		wg.Add(1)
		go func() { defer wg.Done(); results[i] = other.send(slow, "Idempotency-Key", "m") }()
	}
	eventually(t, "it queues", func() bool { return s.queued(d.id) >= 1 })
	s.model.Open("block")
	eventually(t, "it runs", func() bool { return len(s.model.Requests()) == 2 })
	s.model.Open("go")
	wg.Wait()
	require.Equal(t, results[0], results[1])
	require.Equal(t, results[0], results[2])
	require.Len(t, s.model.Requests(), 2)
	require.Equal(t, results[0], other.send(slow, "Idempotency-Key", "m"))
}

func TestARepeatOfTheCallThatEndedTheSessionGetsItsResult(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(map[string]any{"primary_provider": "broken"}), `{}`)
	first := d.send("hello", "Idempotency-Key", "m")
	_, text := d.fault("session.sendMessage", userSays("hello"))
	require.Equal(t, "session is error, not open", text)
	require.Equal(t, first, d.send("hello", "Idempotency-Key", "m"), "the outcome stands, whatever became of the session")
}
