package lambae_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

const subscribes = "session.subscribe"

func ids(events []lambae.Event) []string {
	ids := []string{}
	for _, event := range events {
		ids = append(ids, event.ID)
	}
	return ids
}

// report adds one event to the session.
func report(ctx context.Context, session *lambae.Session, n int) error {
	return session.ReportLocalSandbox(ctx, lambae.LocalSandbox{State: lambae.SandboxRunning, Image: fmt.Sprint("image", n)})
}

func TestASubscriptionIsExactlyTheSuffix(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		faults := []*lambaetest.Fault{}
		kinds := []string{"cut", "lagged"}
		for range rapid.IntRange(0, 6).Draw(rt, "faults") {
			kind := rapid.SampledFrom(kinds).Draw(rt, "fault")
			kinds = []string{"cut", "lagged", "proxy"} // once it stood, no refusal of a gateway ends it
			switch kind {
			case "cut": // anywhere in the first few events, within a line or between two
				faults = append(faults, &lambaetest.Fault{CutAfter: rapid.IntRange(0, 1500).Draw(rt, "bytes")})
			case "lagged":
				faults = append(faults, &lambaetest.Fault{LaggedAfter: rapid.IntRange(1, 4).Draw(rt, "lines")})
			case "proxy":
				faults = append(faults, &lambaetest.Fault{Status: rapid.SampledFrom([]int{500, 502, 503}).Draw(rt, "status")})
			}
		}
		before := rapid.IntRange(0, 5).Draw(rt, "before")
		after := rapid.IntRange(0, 5).Draw(rt, "after")
		known := rapid.IntRange(-1, before).Draw(rt, "known") // index of the last known event, -1 for none

		server := lambaetest.New(lambaetest.Options{Fault: firstAnswers(subscribes, faults...)})
		defer server.Close()
		session, err := server.Client().Open(t.Context(), nil)
		require.NoError(rt, err)
		require.NoError(rt, session.RegisterDriver(t.Context()))
		for n := range before {
			require.NoError(rt, report(t.Context(), session, n))
		}
		since := lambae.Beginning
		if known >= 0 {
			since = all(t, session)[known].ID
		}
		done := make(chan error, 1)
		go func() { // more events come while the subscription stands
			for n := range after {
				if err := report(t.Context(), session, n); err != nil {
					done <- err
					return
				}
			}
			done <- session.Close(t.Context())
		}()
		var got []lambae.Event
		for event, err := range session.Subscribe(t.Context(), &lambae.SubscribeOptions{Since: since}) {
			require.NoError(rt, err)
			got = append(got, event)
		}
		require.NoError(rt, <-done)
		require.Equal(rt, ids(all(t, session)[known+1:]), ids(got))
	})
}

func TestASubscriptionTellsOfLosses(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{Fault: firstAnswers(subscribes,
		&lambaetest.Fault{CutAfter: 300}, &lambaetest.Fault{LaggedAfter: 1})})
	session := open(t, server)
	require.NoError(t, session.Close(t.Context()))
	var losses []error
	count := 0
	for _, err := range session.Subscribe(t.Context(), &lambae.SubscribeOptions{
		Since: lambae.Beginning, OnLost: func(err error) { losses = append(losses, err) },
	}) {
		require.NoError(t, err)
		count++
	}
	require.Equal(t, 3, count)
	require.Len(t, losses, 2)
	require.ErrorContains(t, losses[0], "cut off")
	require.ErrorIs(t, losses[1], lambae.ErrLagged)
}

func TestALiveSubscriptionSkipsThePast(t *testing.T) {
	t.Parallel()
	session := open(t, start(t, lambaetest.Options{}))
	stood := make(chan struct{})
	go func() {
		for { // until the subscription stands, events pass it by
			select {
			case <-stood:
				return
			default:
				_ = report(context.WithoutCancel(t.Context()), session, 0)
			}
		}
	}()
	for event, err := range session.Subscribe(t.Context(), nil) {
		require.NoError(t, err)
		require.Equal(t, lambae.EventSandboxRunning, event.Type)
		close(stood)
		break
	}
}

func TestASubscriptionEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*lambae.Session) error{
		"when the session closes":    func(s *lambae.Session) error { return s.Close(t.Context()) },
		"when somebody unsubscribes": func(s *lambae.Session) error { return s.Unsubscribe(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			session := open(t, start(t, lambaetest.Options{}))
			first := true
			for _, err := range session.Subscribe(t.Context(), &lambae.SubscribeOptions{Since: lambae.Beginning}) {
				require.NoError(t, err)
				if first {
					require.NoError(t, end(session))
				}
				first = false
			}
			require.False(t, first)
		})
	}
}

func TestASubscriptionIsRefused(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{})
	session := open(t, server)
	session.Key = "bae_ses_wrong"
	var last error
	for _, err := range session.Subscribe(t.Context(), nil) {
		last = err
	}
	require.Equal(t, 401, refusal(t, last).Status)
	require.ErrorContains(t, last, "subscribe to "+session.ID)
}

func TestAFirstConnectionThatFailsIsAnError(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{Fault: func(call string) *lambaetest.Fault {
		if call == subscribes {
			return &lambaetest.Fault{Status: 503}
		}
		return nil
	}})
	var last error
	for _, err := range open(t, server).Subscribe(t.Context(), nil) {
		last = err
	}
	require.Equal(t, 503, refusal(t, last).Status)
}

func TestASubscriptionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	session := open(t, start(t, lambaetest.Options{}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range session.Subscribe(ctx, &lambae.SubscribeOptions{Since: lambae.Beginning}) {
		last = err
		cancel()
	}
	require.ErrorIs(t, last, context.Canceled)
}

// playing is a session of a server that answers the n-th subscription with the
// n-th body, and then closes; a nil body stays silent.
func playing(t *testing.T, bodies ...*string) (*lambae.Session, *atomic.Int32) {
	count := new(atomic.Int32)
	session, err := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body := bodies[min(int(count.Add(1)), len(bodies))-1]
		w.WriteHeader(http.StatusOK)
		if body == nil {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, *body)
	}).Session("ses_a", "bae_ses_k")
	require.NoError(t, err)
	return session, count
}

func eventLine(id string) string {
	return `{"jsonrpc":"2.0","method":"session.event","params":{"id":"` + id + `","session_id":"ses_a","client_key_id":"key_a",` +
		`"event_type":"session.error","payload":{},"created_at":"2026-07-06T18:26:10.000Z"}}` + "\n"
}

func TestASilentConnectionIsLost(t *testing.T) {
	t.Parallel()
	session, count := playing(t, nil, new(eventLine("evt_1")))
	var losses []error
	var got []lambae.Event
	for event, err := range session.Subscribe(t.Context(), &lambae.SubscribeOptions{
		IdleTimeout: 50 * time.Millisecond, OnLost: func(err error) { losses = append(losses, err) },
	}) {
		require.NoError(t, err)
		got = append(got, event)
	}
	require.Equal(t, []string{"evt_1"}, ids(got))
	require.Len(t, losses, 1)
	require.ErrorContains(t, losses[0], "silent for 50ms")
	require.EqualValues(t, 2, count.Load())
}

func TestRepeatedEventsComeOnce(t *testing.T) {
	t.Parallel()
	session, _ := playing(t, new(eventLine("evt_1")+eventLine("evt_1")+eventLine("evt_2")+eventLine("evt_1")+eventLine("evt_0")))
	var got []lambae.Event
	for event, err := range session.Subscribe(t.Context(), &lambae.SubscribeOptions{Since: "evt_0"}) {
		require.NoError(t, err)
		got = append(got, event)
	}
	require.Equal(t, []string{"evt_1", "evt_2"}, ids(got))
}

func TestMalformedLinesEndASubscriptionAtLast(t *testing.T) {
	t.Parallel()
	broken := eventLine("evt_2")[:60] + "\n"
	t.Run("once is a cut", func(t *testing.T) {
		t.Parallel()
		session, _ := playing(t, new(eventLine("evt_1")+broken), new(eventLine("evt_2")))
		var got []lambae.Event
		for event, err := range session.Subscribe(t.Context(), nil) {
			require.NoError(t, err)
			got = append(got, event)
		}
		require.Equal(t, []string{"evt_1", "evt_2"}, ids(got))
	})
	t.Run("time and again is an error", func(t *testing.T) {
		t.Parallel()
		session, count := playing(t, new(broken))
		var last error
		for _, err := range session.Subscribe(t.Context(), nil) {
			last = err
		}
		require.ErrorContains(t, last, "malformed line")
		require.EqualValues(t, 4, count.Load())
	})
}

func TestAnErrorLineEndsASubscription(t *testing.T) {
	t.Parallel()
	session, _ := playing(t, new(`{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"Method not found: session.subscribe"}}`+"\n"))
	var last error
	for _, err := range session.Subscribe(t.Context(), nil) {
		last = err
	}
	require.Equal(t, lambae.CodeMethodNotFound, rpcError(t, last).Code)
}
