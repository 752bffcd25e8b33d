package queue_test

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/sandbox/wire"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/embedded"
)

// shared is a table that other processes have as well.
type shared struct{ table.Table }

func (shared) Exclusive() bool { return false }

// tables are an exclusive table, and one that two processes share.
func tables(t *testing.T, f func(t *testing.T, one, other *queue.Queue)) {
	for name, share := range map[string]bool{"alone": false, "beside another": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tbl, err := embedded.Open(filepath.Join(t.TempDir(), "db"), nil)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, tbl.Close()) })
			o := &queue.Options{Poll: 5 * time.Millisecond, Grace: 300 * time.Millisecond}
			if !share {
				q := queue.New(tbl, o)
				f(t, q, q)
				return
			}
			f(t, queue.New(shared{tbl}, o), queue.New(shared{tbl}, o))
		})
	}
}

// enrolled is a sandbox whose sandboxd the test plays.
func enrolled(t *testing.T, q *queue.Queue) string {
	t.Helper()
	id := session.NewID(session.SandboxPrefix)
	code, err := q.Prepare(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, q.Enroll(t.Context(), id, code, session.HashSecret(queue.NewToken())))
	require.NoError(t, q.Enrolled(t.Context(), id))
	return id
}

// answer plays a sandboxd that echoes commands, until ctx ends. It counts how
// often each order came, and fails when one did not.
func answer(ctx context.Context, t *testing.T, q *queue.Queue, id string) (seen func() map[int64]wire.Order) {
	var mu sync.Mutex
	all := map[int64]wire.Order{}
	ring, stop := q.Listen(id)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer stop()
		for last := int64(0); ctx.Err() == nil; {
			orders, err := q.Orders(ctx, id, last)
			if err != nil {
				return
			}
			for _, o := range orders.Orders {
				mu.Lock()
				all[o.N] = o
				mu.Unlock()
				last = o.N
				if o.Kill == 0 {
					_, _, _ = q.Settle(context.WithoutCancel(ctx), id, wire.Outcome{N: o.N, Result: &sandbox.Result{Stdout: o.Command}})
				}
			}
			select {
			case <-ring:
			case <-time.After(5 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { <-done })
	return func() map[int64]wire.Order {
		mu.Lock()
		defer mu.Unlock()
		out := map[int64]wire.Order{}
		for n, o := range all {
			out[n] = o
		}
		return out
	}
}

// Commands of all kinds are given by two processes at once, and one sandboxd reads
// them in order: it misses none, and each caller gets its own outcome.
func TestNoCommandIsMissedOrMixedUp(t *testing.T) {
	t.Parallel()
	tables(t, func(t *testing.T, one, other *queue.Queue) {
		id := enrolled(t, one)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := answer(ctx, t, other, id)
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				q := []*queue.Queue{one, other}[i%2]
				c := sandbox.Command{Command: fmt.Sprint("command ", i), Timeout: time.Minute}
				if i%3 > 0 {
					r, err := q.Exec(t.Context(), id, c)
					require.NoError(t, err)
					require.Equal(t, c.Command, r.Stdout)
					return
				}
				c.ID, c.Started = fmt.Sprint("sba_", i), time.Now()
				require.NoError(t, q.Launch(t.Context(), id, c))
				require.NoError(t, q.Launch(t.Context(), id, c), "launched again")
				r, err := q.Follow(t.Context(), id, c)
				require.NoError(t, err)
				require.Equal(t, c.Command, r.Stdout)
			})
		}
		wg.Wait()
		byText := map[string]int{}
		for _, o := range seen() {
			byText[o.Command]++
		}
		require.Len(t, byText, 60)
		for text, n := range byText {
			require.Equal(t, 1, n, text)
		}
	})
}

func TestACommandWithoutAnOutcomeTimesOut(t *testing.T) {
	t.Parallel()
	tables(t, func(t *testing.T, one, other *queue.Queue) {
		id := enrolled(t, one)
		r, err := one.Exec(t.Context(), id, sandbox.Command{Command: "true", Timeout: 10 * time.Millisecond})
		require.NoError(t, err)
		require.True(t, r.TimedOut)
		require.Eventually(t, func() bool {
			orders, err := other.Orders(t.Context(), id, 0)
			require.NoError(t, err)
			return len(orders.Orders) == 2 && orders.Orders[1].Kill == orders.Orders[0].N
		}, 5*time.Second, 5*time.Millisecond, "what may still run is killed")
		_, first, err := other.Settle(t.Context(), id, wire.Outcome{N: 1, Result: &sandbox.Result{Stdout: "late"}})
		require.NoError(t, err)
		require.True(t, first.Result.TimedOut, "a late outcome changes nothing")
	})
}

func TestACallerThatGoesAwayHasItsCommandKilled(t *testing.T) {
	t.Parallel()
	tables(t, func(t *testing.T, one, other *queue.Queue) {
		id := enrolled(t, one)
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("the turn was broken")
		time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
		_, err := one.Exec(ctx, id, sandbox.Command{Command: "true", Timeout: time.Minute})
		require.ErrorIs(t, err, why)
		require.Eventually(t, func() bool {
			orders, err := other.Orders(t.Context(), id, 0)
			require.NoError(t, err)
			return len(orders.Orders) == 2 && orders.Orders[1].Kill == 1
		}, 5*time.Second, 5*time.Millisecond)
	})
}

func TestTheEndOfASandboxEndsAllItsCommands(t *testing.T) {
	t.Parallel()
	tables(t, func(t *testing.T, one, other *queue.Queue) {
		id := enrolled(t, one)
		launched := sandbox.Command{ID: "sba_1", Command: "x", Timeout: time.Minute, Started: time.Now()}
		require.NoError(t, one.Launch(t.Context(), id, launched))
		failed := make(chan error, 2)
		go func() {
			_, err := one.Exec(t.Context(), id, sandbox.Command{Command: "y", Timeout: time.Minute})
			failed <- err
		}()
		go func() { _, err := other.Follow(t.Context(), id, launched); failed <- err }()
		require.NoError(t, other.End(t.Context(), id))
		require.NoError(t, other.End(t.Context(), id))
		for range 2 {
			select {
			case err := <-failed:
				require.ErrorIs(t, err, sandbox.ErrGone)
			case <-time.After(10 * time.Second):
				require.Fail(t, "a command hangs")
			}
		}
		_, err := one.Exec(t.Context(), id, sandbox.Command{Command: "z", Timeout: time.Minute})
		require.ErrorIs(t, err, sandbox.ErrGone)
		require.ErrorIs(t, one.Launch(t.Context(), id, launched), sandbox.ErrGone)
	})
}

func TestWhatWasNeverLaunchedIsNotFollowed(t *testing.T) {
	t.Parallel()
	tables(t, func(t *testing.T, one, _ *queue.Queue) {
		id := enrolled(t, one)
		_, err := one.Follow(t.Context(), id, sandbox.Command{ID: "sba_never", Timeout: time.Minute})
		require.ErrorIs(t, err, sandbox.ErrNoCommand)
		require.NoError(t, one.Kill(t.Context(), id, "sba_never"))
	})
}

// A process that died may have handed out commands that were never written. Their
// numbers are not used for others, which sandboxd would take for done.
func TestNumbersAreNotUsedAgainAfterARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	tbl, err := embedded.Open(path, nil)
	require.NoError(t, err)
	q := queue.New(tbl, nil)
	id := enrolled(t, q)
	ctx, cancel := context.WithCancel(t.Context())
	answer(ctx, t, q, id)
	_, err = q.Exec(t.Context(), id, sandbox.Command{Command: "a", Timeout: time.Minute})
	require.NoError(t, err)
	cancel()
	require.Eventually(t, func() bool { o, err := q.Orders(t.Context(), id, 0); return err == nil && len(o.Orders) == 1 }, 5*time.Second, time.Millisecond)
	require.NoError(t, tbl.Close())
	tbl, err = embedded.Open(path, nil)
	require.NoError(t, err)
	defer tbl.Close()
	q = queue.New(tbl, nil)
	require.NoError(t, q.Launch(t.Context(), id, sandbox.Command{ID: "sba_1", Command: "b", Timeout: time.Minute}))
	orders, err := q.Orders(t.Context(), id, 1)
	require.NoError(t, err)
	require.Len(t, orders.Orders, 1)
	require.Greater(t, orders.Orders[0].N, int64(1000))
}

func TestACommandThatIsTooLargeIsRefused(t *testing.T) {
	t.Parallel()
	tables(t, func(t *testing.T, one, _ *queue.Queue) {
		id := enrolled(t, one)
		noise := make([]byte, 400<<10)
		_, err := rand.Read(noise)
		require.NoError(t, err)
		big := hex.EncodeToString(noise)
		var refused *sandbox.RunError
		err = one.Launch(t.Context(), id, sandbox.Command{ID: "sba_1", Command: "cat", Stdin: big, Timeout: time.Minute})
		require.ErrorAs(t, err, &refused)
		_, err = one.Exec(t.Context(), id, sandbox.Command{Command: big, Timeout: time.Minute})
		require.ErrorAs(t, err, &refused)
	})
}

func TestADoorbellAtAGatewayIsRungByWhoeverGives(t *testing.T) {
	t.Parallel()
	tbl, err := embedded.Open(filepath.Join(t.TempDir(), "db"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tbl.Close()) })
	rung := make(chan string, 10)
	giver := queue.New(shared{tbl}, &queue.Options{Ring: func(_ context.Context, bell string) { rung <- bell }})
	gateway := queue.New(shared{tbl}, nil)
	id := enrolled(t, giver)

	launch := func(command string) {
		require.NoError(t, giver.Launch(t.Context(), id, sandbox.Command{ID: command, Command: "true", Timeout: time.Second}))
	}
	launch("before")
	require.Empty(t, rung, "nobody listens yet")
	require.NoError(t, gateway.Hang(t.Context(), id, "first"))
	require.NoError(t, gateway.Hang(t.Context(), id, "second"))
	launch("after")
	require.Equal(t, "second", <-rung)
	require.NoError(t, giver.End(t.Context(), id))
	require.Equal(t, "second", <-rung, "that it ends is news too")

	require.ErrorIs(t, gateway.Hang(t.Context(), id, "late"), queue.ErrUnwanted)
	require.ErrorIs(t, gateway.Hang(t.Context(), session.NewID(session.SandboxPrefix), "x"), queue.ErrUnauthorized)
}

// The one that waits for a command need not be the one that its output reaches.
func TestOutputReachesWhoeverWatches(t *testing.T) {
	t.Parallel()
	tables(t, func(t *testing.T, one, other *queue.Queue) {
		id := enrolled(t, one)
		type piece struct{ stream, text string }
		pieces := make(chan piece, 10)
		ended := make(chan error, 1)
		go func() {
			_, err := one.Exec(t.Context(), id, sandbox.Command{Command: "x", Timeout: time.Minute,
				Output: func(stream, text string) { pieces <- piece{stream, text} }})
			ended <- err
		}()
		var orders wire.Orders
		require.Eventually(t, func() bool {
			var err error
			orders, err = other.Orders(t.Context(), id, 0)
			return err == nil && len(orders.Orders) == 1
		}, 10*time.Second, time.Millisecond)
		require.True(t, orders.Orders[0].Watched)
		say := func(seq int64, stream, text string) {
			require.NoError(t, other.Output(t.Context(), id, wire.Output{N: 1, Seq: seq, Stream: stream, Text: text}))
		}
		say(1, "stdout", "one")
		require.Equal(t, piece{"stdout", "one"}, <-pieces, "while the command runs")
		say(2, "stderr", "two")
		say(3, "stdout", strings.Repeat("x", sandbox.MaxOutput+1))
		_, _, err := other.Settle(t.Context(), id, wire.Outcome{N: 1, Result: &sandbox.Result{}})
		require.NoError(t, err)
		require.NoError(t, <-ended)
		require.Equal(t, piece{"stderr", "two"}, <-pieces)
		require.Len(t, (<-pieces).text, sandbox.MaxOutput)
		require.Empty(t, pieces)
	})
}
