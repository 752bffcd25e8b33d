package session

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const sbx1, sbx2 = "sbx_00000000000000000000000000000001", "sbx_00000000000000000000000000000002"

func bg() context.Context { return context.Background() }

// opened is an open session in a store over w.
func opened(t require.TestingT, h *handle, o *Options) *Log {
	l, _, err := NewStore(h, o).Open(bg(), Opening{ID: NewID(SessionPrefix), Key: "key_a", SecretHash: "h", ProfileID: "pro_a", Created: time.Now()})
	require.NoError(t, err)
	return l
}

// told are the types of all events from chunk 1 on, and their payloads.
func told(t require.TestingT, l *Log) (types []string, payloads []map[string]any) {
	next, _ := l.Changed()
	for n := int64(1); n < next; n++ {
		c, err := l.chunkAt(bg(), n)
		require.NoError(t, err)
		for i := range c.Entries {
			if e := &c.Entries[i]; e.IsEvent() {
				var p map[string]any
				require.NoError(t, json.Unmarshal(e.Payload, &p))
				types, payloads = append(types, e.Type), append(payloads, p)
			}
		}
	}
	return types, payloads
}

func start(t require.TestingT, l *Log, id string) {
	require.NoError(t, l.BeginSandbox(bg(), "key_a", id, "img"))
	_, err := l.SandboxStarted(bg(), id)
	require.NoError(t, err)
}

func launch(t require.TestingT, l *Log, id, sandbox string) {
	_, err := l.Append(bg(), func(*State) (Draft, error) {
		return Draft{Entries: BeginSubagent(Subagent{ID: id, Sandbox: sandbox, Harness: "h", Model: "m", Key: "key_a", Wall: 1})}, nil
	})
	require.NoError(t, err)
}

func TestASandboxStartsRunsAndStops(t *testing.T) {
	t.Parallel()
	l := opened(t, newWorld().connect(1, faults{}), nil)
	require.NoError(t, l.BeginSandbox(bg(), "key_a", sbx1, "img"))
	require.ErrorIs(t, l.BeginSandbox(bg(), "key_a", sbx2, "img"), ErrSandboxRunning)
	_, err := l.StopSandbox(bg(), StopExplicit, nil)
	require.ErrorIs(t, err, ErrNoSandbox, "it does not run yet")
	at, err := l.SandboxStarted(bg(), sbx1)
	require.NoError(t, err)
	require.False(t, at.IsZero())
	b, err := l.StopSandbox(bg(), StopExplicit, nil)
	require.NoError(t, err)
	require.Equal(t, sbx1, b.ID)
	_, err = l.StopSandbox(bg(), StopExplicit, nil)
	require.ErrorIs(t, err, ErrNoSandbox)
	start(t, l, sbx2) // the handle goes first: a new one need not wait for the old one's end
	require.NoError(t, l.SandboxStopped(bg(), sbx1, ""))
	require.NoError(t, l.SandboxStopped(bg(), sbx1, ""))
	types, payloads := told(t, l)
	require.Equal(t, []string{SandboxStart, SandboxRunning, SandboxStop, SandboxStart, SandboxRunning, SandboxStopped}, types)
	require.Equal(t, map[string]any{"image": "img", "dispatch": "remote"}, payloads[0])
	require.Equal(t, map[string]any{"image": "img", "sandbox_id": sbx1, "dispatch": "remote", "unsandboxed": false}, payloads[1])
	require.Equal(t, map[string]any{"image": "img", "sandbox_id": sbx1, "reason": "explicit", "dispatch": "remote", "unsandboxed": false}, payloads[5])
	l.View(func(s *State) { require.Equal(t, sbx2, s.Sandbox.ID) })
}

func TestAFailedStopLeavesNoSandbox(t *testing.T) {
	t.Parallel()
	l := opened(t, newWorld().connect(1, faults{}), nil)
	start(t, l, sbx1)
	_, err := l.StopSandbox(bg(), StopExplicit, nil)
	require.NoError(t, err)
	require.NoError(t, l.SandboxStopped(bg(), sbx1, "the engine is away"))
	_, payloads := told(t, l)
	require.Equal(t, map[string]any{"image": "img", "sandbox_id": sbx1, "phase": "stop", "detail": "the engine is away", "dispatch": "remote", "unsandboxed": false}, payloads[3])
	l.View(func(s *State) { require.False(t, s.Unclean()) })
}

func TestReportsOfLocalSandboxesChangeNothing(t *testing.T) {
	t.Parallel()
	l := opened(t, newWorld().connect(1, faults{}), nil)
	start(t, l, sbx1)
	for _, kind := range []string{SandboxStopped, SandboxError, SandboxStop} {
		_, err := l.Append(bg(), func(*State) (Draft, error) {
			return Draft{Entries: []Entry{{Type: kind, Key: "key_b", Payload: json.RawMessage(`{"dispatch":"local","sandbox_id":"` + sbx1 + `","phase":"stop"}`)}}}, nil
		})
		require.NoError(t, err)
	}
	l.View(func(s *State) { require.True(t, s.Sandbox.Running) })
}

func TestAStartWhoseProcessDiedMakesRoomForTheNext(t *testing.T) {
	t.Parallel()
	for name, exclusive := range map[string]bool{"alone": true, "beside others": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			now := time.Now()
			clock := &Options{Now: func() time.Time { return now }}
			h := w.connect(1, faults{})
			h.exclusive = exclusive
			dead := opened(t, h, clock)
			require.NoError(t, dead.BeginSandbox(bg(), "key_a", sbx1, "img"))
			h2 := w.connect(2, faults{})
			h2.exclusive = exclusive
			l, release, err := NewStore(h2, clock).Log(bg(), dead.ID)
			require.NoError(t, err)
			defer release()
			if !exclusive {
				require.ErrorIs(t, l.BeginSandbox(bg(), "key_a", sbx2, "img"), ErrSandboxRunning, "the other process may be alive")
				now = now.Add(StartLease + 3*time.Second)
			}
			require.NoError(t, l.BeginSandbox(bg(), "key_a", sbx2, "img"))
			types, _ := told(t, l)
			require.Equal(t, []string{SandboxStart, SandboxError, SandboxStart}, types)
			require.NoError(t, dead.catchUp(bg()))
			_, err = dead.SandboxStarted(bg(), sbx1)
			require.ErrorIs(t, err, ErrNoSandbox, "the dead one comes back too late")
		})
	}
}

func TestWhatFollowsTheEndOfASession(t *testing.T) {
	t.Parallel()
	l := opened(t, newWorld().connect(1, faults{}), nil)
	start(t, l, sbx1)
	launch(t, l, "sba_1", sbx1)
	sub, err := l.Subscribe(bg(), "key_a", nil)
	require.NoError(t, err)
	defer sub.Close()
	stop, err := l.EndSandbox(bg())
	require.NoError(t, err)
	require.Empty(t, stop, "the session is open")
	require.NoError(t, l.Close(bg(), "key_a"))
	stop, err = l.EndSandbox(bg())
	require.NoError(t, err)
	require.Equal(t, sbx1, stop[0].ID)
	require.NoError(t, l.SandboxStopped(bg(), sbx1, ""))
	var got []string
	for {
		events, err := sub.Next(bg())
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		for _, e := range events {
			got = append(got, e.Type)
		}
	}
	require.Equal(t, []string{SessionClose, SubagentCancelled, SandboxStop, SandboxStopped}, got)
	stop, err = l.EndSandbox(bg())
	require.NoError(t, err)
	require.Empty(t, stop)
}

func TestASessionClosedWhileItsSandboxStarts(t *testing.T) {
	t.Parallel()
	l := opened(t, newWorld().connect(1, faults{}), nil)
	require.NoError(t, l.BeginSandbox(bg(), "key_a", sbx1, "img"))
	require.NoError(t, l.Close(bg(), "key_a"))
	stop, err := l.EndSandbox(bg())
	require.NoError(t, err)
	require.Len(t, stop, 1)
	_, err = l.SandboxStarted(bg(), sbx1)
	require.ErrorIs(t, err, ErrNoSandbox)
	require.NoError(t, l.SandboxNotStarted(bg(), sbx1, "too late"))
	types, _ := told(t, l)
	require.Equal(t, []string{SandboxStart, SessionClose, SandboxError}, types)
}

func TestALostSandboxTakesItsSubagentsAlong(t *testing.T) {
	t.Parallel()
	l := opened(t, newWorld().connect(1, faults{}), nil)
	start(t, l, sbx1)
	launch(t, l, "sba_1", sbx1)
	launch(t, l, "sba_2", sbx1)
	zero := 0
	was, err := l.EndSubagent(bg(), "sba_2", SubagentEnd{ExitCode: &zero, Output: &SubagentOutput{Stdout: "done"}})
	require.NoError(t, err)
	require.True(t, was)
	for range 2 { // such news come twice
		over, err := l.SandboxLost(bg(), sbx1, "out of memory")
		require.NoError(t, err)
		require.True(t, over)
	}
	types, payloads := told(t, l)
	require.Equal(t, []string{SandboxError, SubagentFailed, SandboxStopped}, types[len(types)-3:])
	require.Equal(t, map[string]any{"dispatch": "remote", "subagent_id": "sba_1", "harness": "h", "model": "m", "detail": "out of memory",
		"reason": "nonzero_exit", "exit_code": nil}, payloads[len(payloads)-2])
	l.View(func(s *State) { require.False(t, s.Unclean()) })
}

func TestASandboxThatIsBeingStoppedIsNotLost(t *testing.T) {
	t.Parallel()
	l := opened(t, newWorld().connect(1, faults{}), nil)
	start(t, l, sbx1)
	_, err := l.StopSandbox(bg(), StopExplicit, nil)
	require.NoError(t, err)
	over, err := l.SandboxLost(bg(), sbx1, "gone")
	require.NoError(t, err)
	require.False(t, over)
	require.NoError(t, l.SandboxStopped(bg(), sbx1, ""))
	_, payloads := told(t, l)
	require.Equal(t, "explicit", payloads[len(payloads)-1]["reason"])
}

func TestTheFirstEndOfASubagentStays(t *testing.T) {
	t.Parallel()
	l := opened(t, newWorld().connect(1, faults{}), nil)
	start(t, l, sbx1)
	launch(t, l, "sba_1", sbx1)
	three := 3
	was, err := l.EndSubagent(bg(), "sba_1", SubagentEnd{Reason: FailedExit, ExitCode: &three, Output: &SubagentOutput{Stdout: "o", Stderr: "e", Truncated: true}})
	require.NoError(t, err)
	require.True(t, was)
	was, err = l.EndSubagent(bg(), "sba_1", SubagentEnd{Cancelled: true, Reason: StopExplicit})
	require.NoError(t, err)
	require.False(t, was)
	var a Subagent
	l.View(func(s *State) { a, _ = s.Subagent("sba_1") })
	require.Equal(t, SubagentStatusFailed, a.Status)
	require.Equal(t, 3, *a.ExitCode)
	out, err := l.Output(bg(), a)
	require.NoError(t, err)
	require.Equal(t, &SubagentOutput{ID: "sba_1", Stdout: "o", Stderr: "e", Truncated: true}, out)
	_, err = l.Append(bg(), func(*State) (Draft, error) {
		return Draft{Entries: []Entry{ForgetSubagents("key_a", []string{"sba_1"})}}, nil
	})
	require.NoError(t, err)
	l.View(func(s *State) { require.Empty(t, s.Subagents) })
}

// Whatever happens to sandboxes and subagents in whatever order, on two
// processes: a session has at most one sandbox, everything that began ends once,
// and replaying the log gives the same state.
func TestSandboxesAndSubagentsOfAnyHistoryAddUp(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		a := opened(t, w.connect(1, faults{lost: 10}), nil)
		b, release, err := NewStore(w.connect(2, faults{lost: 10}), nil).Log(bg(), a.ID)
		require.NoError(t, err)
		defer release()
		ids := []string{sbx1, sbx2}
		n := 0
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			l := rapid.SampledFrom([]*Log{a, b}).Draw(t, "process")
			id := rapid.SampledFrom(ids).Draw(t, "sandbox")
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				id = NewID(SandboxPrefix)
				if l.BeginSandbox(bg(), "key_a", id, "img") == nil {
					ids = append(ids, id)
				}
			case 1:
				_, _ = l.SandboxStarted(bg(), id)
			case 2:
				_ = l.SandboxNotStarted(bg(), id, "no")
			case 3:
				_, _ = l.StopSandbox(bg(), StopExplicit, nil)
			case 4:
				_ = l.SandboxStopped(bg(), id, rapid.SampledFrom([]string{"", "failed"}).Draw(t, "failure"))
			case 5:
				_, _ = l.SandboxLost(bg(), id, "gone")
			case 6:
				n++
				agent := Subagent{ID: NewID(SubagentPrefix), Harness: "h", Model: "m", Key: "key_a"}
				_, err := l.Append(bg(), func(s *State) (Draft, error) {
					if s.Sandbox == nil || !s.Sandbox.Running {
						return Draft{}, nil
					}
					agent.Sandbox = s.Sandbox.ID
					return Draft{Entries: BeginSubagent(agent)}, nil
				})
				require.NoError(t, err)
			case 7:
				l.View(func(s *State) {
					if len(s.Subagents) > 0 {
						id = s.Subagents[0].ID
					}
				})
				_, _ = l.EndSubagent(bg(), id, SubagentEnd{Reason: FailedTimeout})
			}
		}
		require.NoError(t, a.catchUp(bg()))
		if rapid.Bool().Draw(t, "close") {
			require.NoError(t, a.Close(bg(), "key_a"))
			stop, err := a.EndSandbox(bg())
			require.NoError(t, err)
			for _, s := range stop {
				require.NoError(t, a.SandboxStopped(bg(), s.ID, ""))
			}
			a.View(func(s *State) { require.False(t, s.Unclean(), "something was not cleaned up") })
		}
		types, payloads := told(t, a)
		count := func(kinds ...string) (n int) {
			for _, k := range types {
				if slices.Contains(kinds, k) {
					n++
				}
			}
			return n
		}
		running := 0
		a.View(func(s *State) { running = s.RunningSubagents() })
		require.Equal(t, count(SubagentStart), count(SubagentCompleted, SubagentFailed, SubagentCancelled)+running)
		ended := map[any]int{}
		for i, k := range types {
			if k == SandboxStopped || k == SandboxError && payloads[i]["phase"] == PhaseStop {
				ended[payloads[i]["sandbox_id"]]++
			}
		}
		for id, n := range ended {
			require.Equal(t, 1, n, "sandbox %v ended twice", id)
		}
		again, release2, err := NewStore(w.connect(3, faults{}), nil).Log(bg(), a.ID)
		require.NoError(t, err)
		defer release2()
		require.JSONEq(t, string(MarshalJSON(a.state)), string(MarshalJSON(again.state)))
	})
}
