package apigateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/push/apigateway"
	"github.com/lambae/lambae/internal/push/pushtest"
	"github.com/lambae/lambae/internal/session"
)

func TestEventsArePushedAsTheStreamTells(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	w.append(2)
	replayed, live, silent := p.subscribe(t, never), p.subscribe(t, ""), p.connect(t, w.session, w.key)
	w.append(1)
	w.append(0)
	w.append(3)
	require.Empty(t, p.stream(t, w.take()...))
	all := ids(t, w.log)
	require.Equal(t, all, w.gateway.Events(replayed))
	require.Equal(t, all[3:], w.gateway.Events(live))
	require.Empty(t, w.gateway.Messages(silent))
	require.JSONEq(t, `{"jsonrpc":"2.0","id":1,"result":{"subscribed":true}}`, w.gateway.Messages(live)[0].Raw)

	require.NoError(t, w.log.Close(t.Context(), w.client.ID))
	require.Empty(t, p.stream(t, w.take()...))
	for _, id := range []string{replayed, live} {
		m := w.gateway.Messages(id)
		require.JSONEq(t, `{"jsonrpc":"2.0","method":"session.ended","params":{"session_id":"`+w.session+`","reason":"session_closed"}}`, m[len(m)-1].Raw)
		require.True(t, w.gateway.Closed(id))
		require.False(t, w.known(t, id))
	}
	require.Equal(t, ids(t, w.log), w.gateway.Events(replayed))
	require.False(t, w.gateway.Closed(silent), "it may still ask for a replay")
	p.say(t, silent, subscribeFrame(never))
	require.Equal(t, ids(t, w.log), w.gateway.Events(silent))
	require.True(t, w.gateway.Closed(silent))
}

func TestAnyHintsGiveExactlyTheSuffix(t *testing.T) {
	t.Parallel()
	w, start := newWorld(t), time.Now()
	rapid.Check(t, func(r *rapid.T) {
		if time.Since(start) > 5*time.Second {
			return // every post is a signed request: a slow machine does fewer runs
		}
		w.session, w.key, w.log = w.open(r2t{w.t, r})
		w.take()
		processes := []*process{w.process(r), w.process(r), w.process(r)}
		which := rapid.SampledFrom(processes)
		var kept []json.RawMessage // records that may come (again)
		type subscriber struct {
			id   string
			from int
			live bool
		}
		var subscribers []subscriber
		r.Repeat(map[string]func(*rapid.T){
			"append": func(r *rapid.T) { appendTo(r, w.log, rapid.IntRange(0, 3).Draw(r, "events"), `{}`) },
			"subscribe": func(r *rapid.T) {
				if len(subscribers) == 3 {
					r.Skip()
				}
				all, s := ids(r, w.log), subscriber{}
				since := ""
				if s.live = rapid.Bool().Draw(r, "live"); s.live {
					s.from = len(all)
				} else if n := rapid.IntRange(0, len(all)).Draw(r, "since"); n == 0 {
					since = never
				} else {
					s.from, since = n, all[n-1]
				}
				s.id = which.Draw(r, "process").subscribe(r, since)
				subscribers = append(subscribers, s)
			},
			"stream": func(r *rapid.T) {
				kept = append(kept, w.take()...)
				if len(kept) == 0 {
					r.Skip()
				}
				batch := rapid.SliceOf(rapid.SampledFrom(kept)).Draw(r, "batch") // lost, repeated, late
				require.Empty(r, which.Draw(r, "process").stream(r, batch...))
			},
			"streams at once": func(r *rapid.T) {
				kept = append(kept, w.take()...)
				var g errgroup.Group
				for _, p := range processes {
					g.Go(func() error {
						_, err := p.consumer.Handle(context.Background(), apigateway.StreamEvent{Records: kept})
						return err
					})
				}
				g.Go(func() error { // appends may come in between
					_, err := w.log.Append(context.Background(), func(*session.State) (session.Draft, error) {
						return session.Draft{Entries: []session.Entry{{Type: session.SandboxRunning, Key: "k", Payload: json.RawMessage(`{}`)}}}, nil
					})
					return err
				})
				require.NoError(r, g.Wait())
			},
			"ping": func(r *rapid.T) {
				if len(subscribers) == 0 {
					r.Skip()
				}
				which.Draw(r, "process").say(r, rapid.SampledFrom(subscribers).Draw(r, "who").id, pingFrame)
			},
		})
		for _, s := range subscribers {
			processes[0].say(r, s.id, pingFrame) // what clients do every 30 s
			require.Equal(r, ids(r, w.log)[s.from:], nilless(pushtest.First(w.gateway.Events(s.id))))
		}
	})
}

// r2t is the test's own life with the reports of a rapid run.
type r2t struct {
	testing.TB
	r *rapid.T
}

func (t r2t) Errorf(format string, args ...any) { t.r.Errorf(format, args...) }
func (t r2t) FailNow()                          { t.r.FailNow() }

func nilless(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}

// A chunk whose stream record came before the subscription was noted is found by
// the subscription itself.
func TestAChunkBetweenPositionAndItemIsNotLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p, other := w.process(t), w.process(t)
	id := p.connect(t, w.session, w.key)
	var once atomic.Bool
	w.gateway.Posting = func(*http.Request, string) int {
		if once.CompareAndSwap(false, true) { // the answer to subscribe is on its way
			w.append(1)
			assertNone(t, other.stream(t, w.take()...))
		}
		return 0
	}
	p.say(t, id, subscribeFrame(""))
	require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(id))
}

func assertNone(t testing.TB, failed []string) {
	if len(failed) > 0 {
		t.Errorf("failed: %v", failed)
	}
}

func TestOneConnectionsTroubleIsNobodyElses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		post func(r *http.Request) int
	}{
		"gone":      {func(*http.Request) int { return http.StatusGone }},
		"failing":   {func(*http.Request) int { return http.StatusInternalServerError }},
		"throttled": {func(*http.Request) int { return http.StatusTooManyRequests }},
		"forbidden": {func(*http.Request) int { return http.StatusForbidden }},
		"hanging": {func(r *http.Request) int {
			<-r.Context().Done()
			return http.StatusGatewayTimeout
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			p := w.process(t)
			good, bad, good2 := p.subscribe(t, ""), p.subscribe(t, ""), p.subscribe(t, "")
			delivered := make(chan struct{}, 8)
			w.gateway.Posting = func(r *http.Request, id string) int {
				if id == bad {
					return c.post(r)
				}
				delivered <- struct{}{}
				return 0
			}
			w.append(2)
			done := make(chan []string)
			go func() { done <- p.stream(t, w.take()...) }()
			for range 4 { // while the bad one may still hang
				<-delivered
			}
			require.Empty(t, <-done, "it fails no batch")
			require.False(t, w.known(t, bad))
			require.Equal(t, name != "gone", w.gateway.Closed(bad), "closed unless it is gone already")
			for _, id := range []string{good, good2} {
				require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(id))
				require.True(t, w.known(t, id))
			}
			w.append(1)
			w.gateway.Posting = nil
			require.Empty(t, p.stream(t, w.take()...))
			require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(good))
			p.say(t, bad, pingFrame)
			require.True(t, w.gateway.Closed(bad), "who comes back on it learns that it is over")
		})
	}
}

func TestAPostThatFailsOnceIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	id := p.subscribe(t, "")
	var posts atomic.Int64
	w.gateway.Posting = func(*http.Request, string) int {
		if posts.Add(1)%2 == 1 {
			return http.StatusTooManyRequests
		}
		return 0
	}
	w.append(3)
	require.Empty(t, p.stream(t, w.take()...))
	require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(id))
}

func TestALongReplayIsCutAndTakenUpAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 60 {
		w.append(1)
	}
	p := w.process(t)
	p.Pusher.Budget = 100 * time.Millisecond
	w.gateway.Posting = func(*http.Request, string) int {
		time.Sleep(2 * time.Millisecond) // what a post takes
		return 0
	}
	all, since := ids(t, w.log), never
	var got []string
	for rounds := 0; len(got) < len(all); rounds++ {
		require.Less(t, rounds, 100)
		id := p.subscribe(t, since)
		lagged := false
		for _, m := range w.gateway.Messages(id) {
			if lagged = m.Error != nil; lagged {
				require.Equal(t, "lagged; reconnect with since_event_id", m.Error.Message)
				break // a post that was given up may still get through: nobody reads it
			}
			if m.Method == "session.event" {
				got, since = append(got, m.Params.ID), m.Params.ID
			}
		}
		require.Equal(t, lagged, w.gateway.Closed(id))
		require.Equal(t, !lagged, w.known(t, id))
		require.True(t, lagged || len(got) == len(all))
	}
	require.Equal(t, all, got)
}

func TestALargeEventIsPushedWithoutItsPayload(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	id := p.subscribe(t, "")
	appendTo(t, w.log, 1, `"`+strings.Repeat("x", 200<<10)+`"`)
	require.Empty(t, p.stream(t, w.take()...))
	m := w.gateway.Messages(id)[1]
	require.True(t, m.Params.Omitted)
	require.Equal(t, ids(t, w.log)[1], m.Params.ID)
	require.Equal(t, "null", string(m.Params.Payload))
}

func TestManyConnectionsOfOneSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	var all []string
	for range 100 {
		all = append(all, p.subscribe(t, ""))
	}
	for range 3 {
		w.append(1)
	}
	require.Empty(t, p.stream(t, w.take()...))
	for _, id := range all {
		require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(id), id)
	}
}
