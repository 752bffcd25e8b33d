package wsstream_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/wsstream"
)

const (
	sessionID  = "ses_00000000000000000000000000000001"
	sessionKey = "bae_ses_secret"
)

// fakeServer is a session of numbered events whose connections go wrong as told.
type fakeServer struct {
	*httptest.Server
	t      testing.TB
	events int

	mu     sync.Mutex
	script []string // what happens to the next connections
	dials  int
	pinged int
}

func newFakeServer(t testing.TB, events int, script ...string) *fakeServer {
	s := &fakeServer{t: t, events: events, script: script}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ws/{id}", s.serve)
	mux.HandleFunc("GET /api/v1/sessions/{id}/events", func(w http.ResponseWriter, _ *http.Request) {
		items := make([]json.RawMessage, events)
		for i := range items {
			items[i] = event(i+1, `{"n":1}`)
		}
		b, _ := json.Marshal(map[string]any{"items": items, "next_cursor": nil})
		_, _ = w.Write(b)
	})
	mux.HandleFunc("POST /api/v1/sessions/{id}/rpc", func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Params struct {
				Since string `json:"since_event_id"`
			} `json:"params"`
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		for n := number(req.Params.Since) + 1; n <= events; n++ {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","method":"session.event","params":%s}`+"\n", event(n, `{"n":1}`))
		}
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func eventID(n int) string { return fmt.Sprintf("evt_%032x", n) }

func number(id string) (n int) {
	_, _ = fmt.Sscanf(id, "evt_%x", &n)
	return n
}

func event(n int, payload string) json.RawMessage {
	return fmt.Appendf(nil, `{"id":%q,"session_id":%q,"client_key_id":"key","event_type":"tool.call","payload":%s,"created_at":"2026-07-06T18:26:10.000Z"}`, eventID(n), sessionID, payload)
}

func (s *fakeServer) next() (what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dials++
	if len(s.script) > 0 {
		what, s.script = s.script[0], s.script[1:]
	}
	return what
}

func (s *fakeServer) serve(w http.ResponseWriter, r *http.Request) {
	what := s.next()
	var status, count int
	if n, _ := fmt.Sscanf(what, "status %d", &status); n == 1 {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"type":"made_up","title":"t","status":%d,"detail":"d"}`, status)
		return
	}
	if r.Header.Get("Authorization") != "Bearer "+sessionKey || r.PathValue("id") != sessionID {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	ctx := r.Context()
	say := func(format string, args ...any) {
		_ = conn.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...))
	}
	var req struct {
		Method string `json:"method"`
		Params struct {
			Since string `json:"since_event_id"`
		} `json:"params"`
	}
	_, b, err := conn.Read(ctx)
	if err != nil || json.Unmarshal(b, &req) != nil || req.Method != "session.subscribe" {
		return
	}
	from := number(req.Params.Since)
	if what == "refused" {
		say(`{"jsonrpc":"2.0","id":"subscribe","error":{"code":-32603,"message":"no"}}`)
		return
	}
	say(`{"jsonrpc":"2.0","id":"subscribe","result":{"subscribed":true}}`)
	if what == "silent" {
		for {
			if _, _, err := conn.Read(ctx); err != nil {
				return
			}
			s.mu.Lock()
			s.pinged++
			s.mu.Unlock()
		}
	}
	if what == "quiet" { // answers pings, and goes on after the third
		for range 3 {
			if _, _, err := conn.Read(ctx); err != nil {
				return
			}
			say(`{"jsonrpc":"2.0","id":"ping","result":{"pong":true}}`)
		}
	}
	last := s.events
	if n, _ := fmt.Sscanf(what, "cut after %d", &count); n == 1 {
		last = min(last, from+count)
	}
	if n, _ := fmt.Sscanf(what, "lagged after %d", &count); n == 1 {
		last = min(last, from+count)
	}
	for n := from + 1; n <= last; n++ {
		if what == "unsure" { // says everything twice, in runs
			say(`{"jsonrpc":"2.0","method":"session.event","params":%s}`, event(max(n-2, from+1), `{"n":1}`))
			say(`{"jsonrpc":"2.0","method":"session.event","params":%s}`, event(max(n-1, from+1), `{"n":1}`))
		}
		if what == "omitting" && n%2 == 0 {
			say(`{"jsonrpc":"2.0","method":"session.event","params":%s}`, strings.Replace(string(event(n, `null`)), `"payload":null`, `"payload":null,"payload_omitted":true`, 1))
			continue
		}
		say(`{"jsonrpc":"2.0","method":"session.event","params":%s}`, event(n, `{"n":1}`))
	}
	switch {
	case strings.HasPrefix(what, "cut"):
		return
	case strings.HasPrefix(what, "lagged"):
		say(`{"jsonrpc":"2.0","error":{"code":-32000,"message":"lagged; reconnect with since_event_id"}}`)
		return
	case what == "garbage":
		say(`{`)
		return
	}
	reason := "session_closed"
	if what == "revoked" {
		reason = "key_revoked"
	}
	say(`{"jsonrpc":"2.0","method":"session.news","params":{}}`) // of a later release
	say(`{"jsonrpc":"2.0","method":"session.ended","params":{"session_id":%q,"reason":%q}}`, sessionID, reason)
	_ = conn.Close(websocket.StatusNormalClosure, "")
}

func (s *fakeServer) subscribe(ctx context.Context, o lambae.SubscribeOptions) (got []lambae.Event, err error) {
	client, err := lambae.New(s.URL, "", nil)
	if err != nil {
		return nil, err
	}
	session, err := client.Session(sessionID, sessionKey)
	if err != nil {
		return nil, err
	}
	opts := &wsstream.Options{SubscribeOptions: o, Backoff: func(int) time.Duration { return time.Millisecond }}
	for e, err := range wsstream.Subscribe(ctx, session, strings.Replace(s.URL, "http", "ws", 1)+"/ws/{session_id}", opts) {
		if err != nil {
			return got, err
		}
		got = append(got, e)
	}
	return got, nil
}

func requireNumbers(t require.TestingT, from, to int, got []lambae.Event) {
	require.Len(t, got, to-from)
	for i, e := range got {
		require.Equal(t, string(event(from+1+i, `{"n":1}`)), string(e.Raw()))
	}
}

func TestASubscriptionIsExactlyTheSuffix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		faults := rapid.OneOf(
			rapid.Map(rapid.IntRange(0, 6), func(n int) string { return fmt.Sprintf("cut after %d", n) }),
			rapid.Map(rapid.IntRange(0, 6), func(n int) string { return fmt.Sprintf("lagged after %d", n) }),
			rapid.SampledFrom([]string{"status 503", "status 500", "status 429"}))
		script := append([]string{"cut after 0"}, rapid.SliceOfN(faults, 0, 6).Draw(r, "faults")...)
		script = append(script, rapid.SampledFrom([]string{"", "unsure", "omitting"}).Draw(r, "last"))
		events := rapid.IntRange(0, 12).Draw(r, "events")
		from := rapid.IntRange(0, events).Draw(r, "from")
		s := newFakeServer(t, events, script...)
		defer s.Close()
		got, err := s.subscribe(context.Background(), lambae.SubscribeOptions{Since: eventID(from)})
		require.NoError(r, err)
		requireNumbers(r, from, events, got)
	})
}

func TestASilentConnectionIsTakenUpAgain(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, 3, "silent", "quiet")
	var lost []error
	got, err := s.subscribe(t.Context(), lambae.SubscribeOptions{IdleTimeout: 100 * time.Millisecond, OnLost: func(err error) { lost = append(lost, err) }})
	require.NoError(t, err)
	requireNumbers(t, 0, 3, got)
	require.Len(t, lost, 1)
	require.ErrorContains(t, lost[0], "silent")
	require.Equal(t, 1, s.pinged, "it asks before it gives up")
}

func TestRefusalsEndASubscription(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script []string
		events int
		dials  int
		check  func(*testing.T, error)
	}{
		"an invalid key": {[]string{"status 401"}, 0, 1, func(t *testing.T, err error) {
			problem, ok := errors.AsType[*lambae.APIError](err)
			require.True(t, ok)
			require.Equal(t, &lambae.APIError{Type: "made_up", Title: "t", Status: 401, Detail: "d"}, problem)
		}},
		"a key that was revoked meanwhile": {[]string{"cut after 1", "revoked"}, 3, 2, func(t *testing.T, err error) {
			problem, ok := errors.AsType[*lambae.APIError](err)
			require.True(t, ok)
			require.Equal(t, lambae.TypeUnauthorized, problem.Type)
		}},
		"a refused subscription": {[]string{"refused"}, 0, 1, func(t *testing.T, err error) {
			refusal, ok := errors.AsType[*lambae.RPCError](err)
			require.True(t, ok)
			require.Equal(t, "no", refusal.Message)
		}},
		"a server that talks nonsense": {[]string{"garbage", "garbage", "garbage", "garbage", "garbage"}, 3, 4, func(t *testing.T, err error) {
			require.ErrorContains(t, err, "malformed message")
		}},
		"a server that never was there": {[]string{"status 502", "status 502", "status 502", "status 502", "status 502"}, 0, 4, func(t *testing.T, err error) {
			problem, ok := errors.AsType[*lambae.APIError](err)
			require.True(t, ok)
			require.Equal(t, 502, problem.Status)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFakeServer(t, 3, c.script...)
			got, err := s.subscribe(t.Context(), lambae.SubscribeOptions{Since: lambae.Beginning})
			require.ErrorContains(t, err, "subscribe to "+sessionID)
			c.check(t, err)
			requireNumbers(t, 0, c.events, got)
			require.Equal(t, c.dials, s.dials)
		})
	}
}

func TestTheFirstEventOfALiveSubscriptionMayBeOmittedToo(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, 2, "omitting")
	got, err := s.subscribe(t.Context(), lambae.SubscribeOptions{Since: eventID(1)})
	require.NoError(t, err)
	requireNumbers(t, 1, 2, got)
	s = newFakeServer(t, 2, "omitting")
	got, err = s.subscribe(t.Context(), lambae.SubscribeOptions{})
	require.NoError(t, err)
	requireNumbers(t, 0, 2, got)
}

func TestTheConsumerMayStopAndTheContextEnd(t *testing.T) {
	t.Parallel()
	s := newFakeServer(t, 3, "", "silent")
	client, err := lambae.New(s.URL, "", nil)
	require.NoError(t, err)
	session, err := client.Session(sessionID, sessionKey)
	require.NoError(t, err)
	url := strings.Replace(s.URL, "http", "ws", 1) + "/ws/{session_id}"
	for e, err := range wsstream.Subscribe(t.Context(), session, url, nil) {
		require.NoError(t, err)
		require.Equal(t, eventID(1), e.ID)
		break
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, err = range wsstream.Subscribe(ctx, session, url, nil) {
	}
	require.ErrorIs(t, err, context.DeadlineExceeded)
}
