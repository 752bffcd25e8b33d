package session

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// aloneStore is the only process on its table. Its waiters look again only when
// they are told to.
func aloneStore() *Store {
	h := newWorld().connect(1, faults{})
	h.exclusive = true
	return NewStore(h, &Options{Logger: quiet, PollMax: time.Hour})
}

// queued is a session whose gate one turn holds, with n callers waiting behind
// it. decisions counts how often any of them had to decide.
func queued(t *testing.T, n int) (l *Log, holder *Turn, decisions *atomic.Int64, wait func()) {
	s := aloneStore()
	openTest(t, s, "ses_q", "key_a")
	l, release, err := s.Log(t.Context(), "ses_q")
	require.NoError(t, err)
	t.Cleanup(release)
	first, err := l.Enter(t.Context(), say("key_a", "first"))
	require.NoError(t, err)
	decisions = &atomic.Int64{}
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			a := say("key_a", fmt.Sprint(i))
			a.Check = func(*State) error { decisions.Add(1); return nil }
			e, err := l.Enter(t.Context(), a)
			if err == nil {
				err = end(e.Turn, fmt.Sprint(i))
				e.Turn.Release()
			}
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		})
		synctest.Wait() // it waits
	}
	return l, first.Turn, decisions, all.Wait
}

// However many wait, each costs the same few decisions: on arrival, and when its
// turn has come.
func TestWorkOfAQueueGrowsWithItsLength(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		l, holder, decisions, wait := queued(t, n)
		require.NoError(t, end(holder, "first"))
		holder.Release()
		wait()
		require.Less(t, decisions.Load(), int64(12*n))
		l.View(func(s *State) {
			require.Empty(t, s.Queue)
			require.Nil(t, s.Turn)
			require.Empty(t, l.waiting)
			require.Empty(t, l.turns)
		})
	})
}

// What ends a session, or takes a key, is no matter of turns: everybody who waits
// hears of it at once.
func TestAllWaitersHearOfTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := aloneStore()
		openTest(t, s, "ses_q", "key_a")
		l, release, err := s.Log(t.Context(), "ses_q")
		require.NoError(t, err)
		defer release()
		e, err := l.Enter(t.Context(), say("key_a", "first"))
		require.NoError(t, err)
		defer e.Turn.Release()
		failed := make(chan error, 3)
		for range cap(failed) {
			go func() {
				_, err := l.Enter(t.Context(), say("key_a", "waits"))
				failed <- err
			}()
		}
		synctest.Wait()
		began := time.Now()
		_, err = l.Append(t.Context(), func(*State) (Draft, error) { return Draft{Entries: []Entry{{Type: SessionClose, Key: "key_a"}}}, nil })
		require.NoError(t, err)
		for range cap(failed) {
			require.EqualError(t, <-failed, "session is closed, not open")
		}
		require.Zero(t, time.Since(began))
	})
}

func TestAFullQueueTakesNobodyElse(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, holder, _, wait := queued(t, 0)
		defer wait()
		defer holder.Release()
		for range maxQueue {
			_, err := l.Append(t.Context(), func(*State) (Draft, error) {
				return Draft{Entries: []Entry{{Type: MarkQueue, Key: "key_a", Boot: l.store.boot}}}, nil
			})
			require.NoError(t, err)
		}
		l.View(func(s *State) {
			for _, w := range s.Queue {
				l.wakeup(w.Pos)
			}
		})
		_, err := l.Enter(t.Context(), say("key_a", "one too many"))
		require.EqualError(t, err, "4096 messages wait for this session already; send again when some of them were answered")
	})
}

// BenchmarkQueuedSends shows the time of one of a thousand queued sends.
func BenchmarkQueuedSends(b *testing.B) {
	s := aloneStore()
	openTest(b, s, "ses_q", "key_a")
	l, release, err := s.Log(b.Context(), "ses_q")
	require.NoError(b, err)
	defer release()
	for b.Loop() {
		var all sync.WaitGroup
		for range 1000 {
			all.Go(func() {
				e, err := l.Enter(context.Background(), say("key_a", "x"))
				if err != nil {
					b.Error(err)
					return
				}
				if err := end(e.Turn, "y"); err != nil {
					b.Error(err)
				}
				e.Turn.Release()
			})
		}
		all.Wait()
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "µs/send")
}
