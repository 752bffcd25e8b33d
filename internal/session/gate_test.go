package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/table"
)

var quiet = slog.New(slog.DiscardHandler)

func openTest(t testing.TB, s *Store, id string, keys ...string) {
	t.Helper()
	l, release, err := s.Open(t.Context(), Opening{ID: id, Key: keys[0], SecretHash: "h-" + keys[0], ProfileID: "pro_x", Created: s.now()})
	require.NoError(t, err)
	defer release()
	for _, k := range keys[1:] {
		require.NoError(t, l.Join(t.Context(), Joining{Key: k, SecretHash: "h-" + k}))
	}
}

// say is an arrival that says text and needs nothing checked.
func say(key, text string) Arrival {
	return Arrival{
		Key: key,
		Check: func(s *State) error {
			if !s.Open() {
				return NotOpen(s.Status)
			}
			return nil
		},
		Compose: func(*State, *Exchange) (Draft, error) {
			return Draft{Entries: []Entry{{Type: ClientMessageSend, Key: key, Payload: NewMessage("user", Quote(text))}, {Type: ProviderRequest, Key: key, Payload: json.RawMessage(`{}`)}}}, nil
		},
	}
}

func end(t *Turn, text string) error {
	_, err := t.Append(func(*State) (Draft, error) {
		return Draft{Entries: []Entry{{Type: ServerMessageSend, Key: t.Key, Payload: NewMessage("assistant", text1(text))}, {Type: MarkEnd, Key: t.Key, Outcome: "done"}}}, nil
	})
	return err
}

func text1(s string) json.RawMessage { return joinBlocks([]json.RawMessage{TextBlock(s)}) }

// The gate under every fault at once: several processes on one table, lost and
// late puts, refused ones, and processes that die in the middle of a turn or of
// the queue. Whatever the interleaving, the log keeps its invariants and those
// who live get their turn.
func TestGateKeepsItsPromisesUnderFaults(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		f := faults{lost: rapid.IntRange(0, 20).Draw(rt, "lost"), delayed: rapid.IntRange(0, 10).Draw(rt, "delayed"), refused: rapid.IntRange(0, 10).Draw(rt, "refused")}
		processes := rapid.IntRange(1, 3).Draw(rt, "processes")
		var plans []plan
		for i := range rapid.IntRange(1, 6).Draw(rt, "drivers") {
			plans = append(plans, plan{
				key:     fmt.Sprintf("key_%d", i),
				process: rapid.IntRange(0, processes-1).Draw(rt, "process"),
				start:   time.Duration(rapid.IntRange(0, 20000).Draw(rt, "start")) * time.Millisecond,
				hold:    time.Duration(rapid.IntRange(0, 20000).Draw(rt, "hold")) * time.Millisecond,
				turns:   rapid.IntRange(1, 2).Draw(rt, "turns"),
			})
		}
		deaths := map[int]time.Duration{}
		for p := 1; p < processes; p++ {
			if rapid.Bool().Draw(rt, "dies") {
				deaths[p] = time.Duration(rapid.IntRange(0, 60000).Draw(rt, "death")) * time.Millisecond
			}
		}
		var problems []string
		synctest.Test(t, func(t *testing.T) { problems = playGate(t, seed, f, processes, plans, deaths) })
		if len(problems) > 0 {
			rt.Fatalf("%v", problems)
		}
	})
}

type plan struct {
	key     string
	process int
	start   time.Duration
	hold    time.Duration
	turns   int
}

func playGate(t *testing.T, seed uint64, f faults, processes int, plans []plan, deaths map[int]time.Duration) (problems []string) {
	w := newWorld()
	stores := make([]*Store, processes)
	handles := make([]*handle, processes)
	for i := range stores {
		handles[i] = w.connect(seed+uint64(i), f)
		stores[i] = NewStore(handles[i], &Options{Logger: quiet})
	}
	keys := []string{}
	for _, p := range plans {
		keys = append(keys, p.key)
	}
	openTest(t, NewStore(w.connect(0, faults{}), nil), "ses_g", keys...)
	var mu sync.Mutex
	report := func(format string, args ...any) {
		mu.Lock()
		problems = append(problems, fmt.Sprintf(format, args...))
		mu.Unlock()
	}
	acked, mortal := map[string]bool{}, map[string]bool{}
	for _, p := range plans {
		mortal[p.key] = deaths[p.process] != 0
	}
	for p, after := range deaths {
		time.AfterFunc(after, handles[p].kill)
	}
	var wg sync.WaitGroup
	for _, p := range plans {
		wg.Add(1)
		go func() {
			defer wg.Done()
			time.Sleep(p.start)
			for i := range p.turns {
				dies := deaths[p.process] != 0
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				name := fmt.Sprintf("%s turn %d", p.key, i)
				err := oneTurn(ctx, stores[p.process], p, name)
				cancel()
				switch {
				case err == nil:
					mu.Lock()
					acked[name] = true
					mu.Unlock()
				case dies:
				case errors.Is(err, errNetwork):
					// Its put may have landed all the same; nobody runs what it began.
					mu.Lock()
					mortal[p.key] = true
					mu.Unlock()
				case errors.Is(err, ErrTurnLost):
					report("%s: lost a turn while it was alive", name)
				default:
					report("%s: %v", name, err)
				}
			}
		}()
	}
	wg.Wait()
	time.Sleep(time.Minute) // late puts land
	return append(problems, checkLog(t, w, "ses_g", acked, mortal)...)
}

func oneTurn(ctx context.Context, s *Store, p plan, name string) error {
	l, release, err := s.Log(ctx, "ses_g")
	if err != nil {
		return err
	}
	defer release()
	e, err := l.Enter(ctx, say(p.key, name))
	if err != nil {
		return err
	}
	defer e.Turn.Release()
	select {
	case <-time.After(p.hold):
	case <-e.Turn.Context().Done():
		return context.Cause(e.Turn.Context())
	}
	return end(e.Turn, name)
}

// checkLog folds the log from the start and returns every broken invariant.
func checkLog(t *testing.T, w *world, id string, acked, mortal map[string]bool) (problems []string) {
	s := NewStore(w.connect(0, faults{}), &Options{Logger: quiet})
	st, h := newState(id), &History{}
	bad := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	ended := map[string]int{}
	for c, err := range s.chunks(t.Context(), id, 0, 0) {
		if err != nil {
			return append(problems, err.Error())
		}
		if c.N != st.Next {
			bad("chunk %d follows %d", c.N, st.Next-1)
		}
		if c.At < st.At {
			bad("chunk %d goes back in time", c.N)
		}
		queue := append([]Waiter(nil), st.Queue...)
		open := st.Turn
		for _, e := range c.Entries {
			switch e.Type {
			case MarkBroken:
				if open == nil || open.ID != e.Ref {
					bad("chunk %d breaks turn %d, which is not open", c.N, e.Ref)
				} else if !mortal[open.Key] {
					bad("chunk %d breaks the turn of %s, which was alive", c.N, e.Key)
				}
				open = nil
			case MarkSkip:
				if !mortal[e.Key] {
					bad("chunk %d skips a waiter of %s, which was alive", c.N, e.Key)
				}
				queue = withoutWaiter(queue, e.Ref)
			case MarkBegin:
				if open != nil {
					bad("chunk %d begins while turn %d is open", c.N, open.ID)
				}
				if len(queue) > 0 && queue[0].Pos != e.Ref {
					bad("chunk %d begins out of turn: waiter %d before %d", c.N, e.Ref, queue[0].Pos)
				}
			case ServerMessageSend:
				if open == nil || open.ID != c.Turn {
					bad("chunk %d answers in turn %d, which is not open", c.N, c.Turn)
				}
				ended[string(e.Payload)]++
			}
		}
		st.Apply(c, h)
	}
	for name := range acked {
		if n := ended[string(NewMessage("assistant", text1(name)))]; n != 1 {
			bad("%s was acknowledged and is in the log %d times", name, n)
		}
	}
	for i := 1; i < h.Len(); i++ {
		if h.roles[i] == h.roles[i-1] {
			bad("messages %d and %d have one role", i-1, i)
		}
	}
	if int64(st.Thread.Ops) != h.ops {
		bad("history has %d operations, the fold counts %d", h.ops, st.Thread.Ops)
	}
	var n int64
	for it, err := range (w.connect(0, faults{})).Query(t.Context(), table.Range{PK: logKey(id), From: "L#", To: "L$"}) {
		require.NoError(t, err)
		_ = it
		n++
	}
	if n != st.Next {
		bad("the log has %d chunks, %d of them in a row", n, st.Next)
	}
	return problems
}

func withoutWaiter(q []Waiter, pos int64) (out []Waiter) {
	for _, w := range q {
		if w.Pos != pos {
			out = append(out, w)
		}
	}
	return out
}
