package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// ErrTurnLost says that the turn is not this caller's any more: its lease ran
// out and another took the gate, or its client key was revoked.
var ErrTurnLost = errors.New("the turn was taken over by another driver")

// ErrIdemMismatch says that an Idempotency-Key was used for another body before.
var ErrIdemMismatch = errors.New("this Idempotency-Key was used with another body; use a new key for a new message")

// Arrival is one session.sendMessage at the gate.
type Arrival struct {
	Key  string // client key id
	Idem *Idem  // nil without an Idempotency-Key
	// Check refuses the call. It runs at every decision: on arrival, and again
	// when the turn starts.
	Check func(s *State) error
	// Compose returns what follows turn.begin, or turn.resume, in the first chunk
	// of the turn. paused is the exchange a resume answers, nil at a begin.
	Compose func(s *State, paused *Exchange) (Draft, error)
}

// Entered is how an arrival came through the gate: with a turn of its own, or,
// for a repeated Idempotency-Key, attached to the call that was first.
type Entered struct {
	Turn  *Turn  // nil when attached
	First *Chunk // of the turn
	Spent *Spent // of the first call, ended, when attached
}

// Enter takes the FIFO gate, waiting as long as ctx lets it (protocol, "FIFO
// gate"). While it waits it takes over from owners that are dead or have left a
// paused turn alone for too long, and passes waiters that are dead. When ctx
// ends first the place in the queue is given up.
func (l *Log) Enter(ctx context.Context, a Arrival) (*Entered, error) {
	e := &entry{log: l, arrival: a, observer: newObserver(l)}
	defer e.close()
	for {
		news := e.news()
		if err := e.observer.look(ctx, e.waiter); err != nil {
			return nil, err
		}
		if !e.idle() {
			c, err := l.Append(ctx, e.decide)
			switch {
			case err != nil:
				e.abandon()
				e.withdraw(ctx)
				return nil, err
			case e.attached != nil && e.attached.End != 0:
				return &Entered{Spent: e.attached}, nil
			case c != nil && e.turn != nil:
				return &Entered{Turn: e.turn, First: c}, nil
			case c != nil:
				continue
			}
		}
		if e.stopWatch == nil {
			e.stopWatch = l.Watch()
		}
		if err := e.wait(ctx, news); err != nil {
			e.withdraw(ctx)
			return nil, err
		}
	}
}

// entry is one caller on its way through the gate.
type entry struct {
	log      *Log
	arrival  Arrival
	observer *observer

	waiter    int64 // its place in the queue, 0 before it has one
	renewers  []*renewer
	stopWatch func()
	attached  *Spent
	turn      *Turn
}

// move is what an entry does next. The zero move is to wait.
type move struct {
	mark   string  // turn.begin, turn.resume or turn.queue, "" for none
	before []Entry // what comes first: it ends a dead turn, passes dead waiters
}

// idle reports whether the entry can only wait. It is asked before each append,
// because appends of a session go one by one: a queue whose waiters all took
// their turn at it would hold up the one that may begin.
func (e *entry) idle() (idle bool) {
	e.log.View(func(s *State) {
		m, err := e.next(s)
		ended := e.attached != nil && e.attached.End != 0
		idle = err == nil && m.mark == "" && len(m.before) == 0 && !ended
	})
	return idle
}

// decide appends the next move, pure but for what it notes of its own decision.
func (e *entry) decide(s *State) (Draft, error) {
	e.turn = nil
	m, err := e.next(s)
	switch {
	case err != nil:
		return Draft{}, err
	case m.mark == MarkQueue:
		return e.queue(), nil
	case m.mark != "":
		return e.begin(s, m)
	}
	return Draft{Entries: m.before}, nil
}

// next is the gate's rule.
func (e *entry) next(s *State) (move, error) {
	e.attached = nil
	if err := e.attach(s); err != nil || e.attached != nil {
		return e.follow(s), err
	}
	if err := e.arrival.Check(s); err != nil {
		return move{}, err
	}
	t := s.Turn
	if t != nil && t.Paused && t.Key == e.arrival.Key && e.waiter == 0 {
		return move{mark: MarkResume}, nil
	}
	if e.waiter != 0 && waiterAt(s, e.waiter) == nil {
		e.leave() // skipped while it was stalled: queue again, at the end
	}
	skips, first := e.ahead(s)
	switch {
	case first && t == nil:
		return move{mark: MarkBegin, before: skips}, nil
	case first && e.observer.expired(s):
		return move{mark: MarkBegin, before: append(skips, breakTurn(s, "abandoned")...)}, nil
	case e.waiter == 0 && len(s.Queue) >= maxQueue:
		return move{}, &Refusal{Text: fmt.Sprintf("%d messages wait for this session already; send again when some of them were answered", maxQueue)}
	case e.waiter == 0:
		return move{mark: MarkQueue}, nil
	}
	return move{}, nil
}

// maxQueue bounds the callers that wait for one session: each holds a response
// open, and every snapshot has to hold them all.
const maxQueue = 4096

// ahead returns skip marks for the dead waiters ahead, and whether nobody alive
// is ahead.
func (e *entry) ahead(s *State) (skips []Entry, first bool) {
	for _, w := range s.Queue {
		if w.Pos == e.waiter {
			return skips, true
		}
		if !e.observer.deadWaiter(w) {
			return nil, false
		}
		skips = append(skips, Entry{Type: MarkSkip, Key: w.Key, Ref: w.Pos})
	}
	return skips, true
}

// queue takes the last place in the queue.
func (e *entry) queue() Draft {
	mark := Entry{Type: MarkQueue, Key: e.arrival.Key, Boot: e.log.store.boot, Wall: e.log.store.now().UnixMilli(), Idem: e.arrival.Idem}
	return Draft{Entries: []Entry{mark}, commit: func(c *Chunk) {
		e.waiter = c.N
		e.log.wakeup(c.N)
		e.renewers = append(e.renewers, e.log.renew(waiterLease(e.log.ID, c.N), c.N, nil))
	}}
}

func (e *entry) begin(s *State, m move) (Draft, error) {
	var paused *Exchange
	if m.mark == MarkResume {
		paused = s.Thread.Open
		if paused == nil {
			paused = &Exchange{}
		}
	}
	d, err := e.arrival.Compose(s, paused)
	if err != nil {
		return Draft{}, err
	}
	entries := append(m.before, Entry{Type: m.mark, Key: e.arrival.Key, Boot: e.log.store.boot,
		Wall: e.log.store.now().UnixMilli(), Ref: e.waiter, Idem: e.arrival.Idem})
	d.Entries = append(entries, d.Entries...)
	d.Turn = NewTurn
	e.turn = &Turn{log: e.log, Key: e.arrival.Key}
	d.commit = e.turn.start
	return d, nil
}

// breakTurn closes the open turn the way an abandoned one is closed.
func breakTurn(s *State, reason string) []Entry {
	t := s.Turn
	payload := MarshalJSON(struct {
		Reason string `json:"reason"`
		Owner  string `json:"owner_client_key_id"`
	}{ReasonTurnAbandoned, t.Key})
	return []Entry{
		{Type: MarkBroken, Key: t.Key, Ref: t.ID, Outcome: reason},
		{Type: SessionError, Key: t.Key, Payload: payload},
	}
}

// attach looks for an earlier call with the same Idempotency-Key. One that
// still waits is taken over; one that has begun is followed to its end.
func (e *entry) attach(s *State) error {
	if e.arrival.Idem == nil {
		return nil
	}
	sp := s.Idem[e.arrival.Idem.Key]
	if sp == nil {
		return nil
	}
	if sp.Body != e.arrival.Idem.Body {
		return ErrIdemMismatch
	}
	if sp.Turn == 0 {
		w := waiterAt(s, sp.Waiter)
		if w != nil && (w.Boot == e.log.store.boot || !e.observer.deadWaiter(*w)) {
			e.waiter = sp.Waiter
		}
		return nil
	}
	c := *sp
	e.attached = &c
	return nil
}

// follow breaks the turn that is followed when its owner is dead.
func (e *entry) follow(s *State) move {
	if e.attached == nil || e.attached.End != 0 || s.Turn == nil || s.Turn.ID != e.attached.Turn || !e.observer.expired(s) {
		return move{}
	}
	return move{before: breakTurn(s, "lost")}
}

// news returns a channel that closes when the entry should look again: a waiter
// when its place changed, see [Log.wakeWaiters], any other at every chunk.
func (e *entry) news() <-chan struct{} {
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	if e.waiter != 0 && e.attached == nil {
		return e.log.wakeup(e.waiter)
	}
	return e.log.changed
}

func (e *entry) wait(ctx context.Context, news <-chan struct{}) error {
	t := time.NewTimer(e.observer.pause())
	defer t.Stop()
	select {
	case <-news:
	case <-t.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// abandon gives back a turn that began although its append failed: the put had
// landed and another reader folded it. Kept, it would be renewed for ever.
func (e *entry) abandon() {
	if t := e.turn; t != nil && t.begun() {
		_ = t.Break("interrupted") // else the lease runs out
		t.Release()
	}
}

// withdraw leaves the queue. It must not wait for the caller's context, which
// is often the reason.
func (e *entry) withdraw(ctx context.Context) {
	if e.waiter == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	_, _ = e.log.Append(ctx, func(s *State) (Draft, error) {
		if waiterAt(s, e.waiter) == nil {
			return Draft{}, nil
		}
		return Draft{Entries: []Entry{{Type: MarkSkip, Key: e.arrival.Key, Ref: e.waiter}}}, nil
	})
}

func (e *entry) close() {
	for _, r := range e.renewers {
		r.stop()
	}
	// Whatever became of the withdrawal: from here on this waiter counts as dead.
	e.log.mu.Lock()
	e.leave()
	e.log.mu.Unlock()
	if e.stopWatch != nil {
		e.stopWatch()
	}
}

// leave gives up a place that is no use any more. The caller holds the log's mu.
func (e *entry) leave() {
	e.log.unwait(e.waiter)
	e.waiter = 0
}

// Turn is the gate held by this process.
type Turn struct {
	log     *Log
	ID      int64
	Key     string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	renewer *renewer
}

// start runs under the log's lock when the first chunk is folded.
func (t *Turn) start(c *Chunk) {
	t.ID = c.N
	t.ctx, t.cancel = context.WithCancelCause(context.Background())
	if s := t.log.state; s.Turn == nil || s.Turn.ID != c.N {
		return // it ended with its first chunk
	}
	t.log.turns[c.N] = t.cancel
	t.renewer = t.log.renew(turnLease(t.log.ID), c.N, func() { t.cancel(ErrTurnLost) })
}

// begun reports whether the turn's first chunk was folded here.
func (t *Turn) begun() bool {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	return t.ctx != nil
}

// Context ends when the turn is lost; its cause says why, ready to be shown.
func (t *Turn) Context() context.Context { return t.ctx }

// Append appends to the turn's call. decide sees the state only while the turn
// is still this caller's; else Append returns why it is not.
func (t *Turn) Append(decide func(s *State) (Draft, error)) (*Chunk, error) {
	return t.log.Append(context.Background(), func(s *State) (Draft, error) {
		if s.Turn == nil || s.Turn.ID != t.ID || s.Turn.Paused {
			if !s.Open() {
				return Draft{}, NotOpen(s.Status)
			}
			return Draft{}, ErrTurnLost
		}
		d, err := decide(s)
		d.Turn = t.ID
		return d, err
	})
}

// Break closes the turn as broken, when its owner knows that it cannot finish.
func (t *Turn) Break(reason string) error {
	_, err := t.Append(func(s *State) (Draft, error) {
		return Draft{Entries: breakTurn(s, reason)}, nil
	})
	return err
}

// Release stops the renewals. It is called when the turn has ended or paused.
func (t *Turn) Release() {
	t.renewer.stop()
	t.log.mu.Lock()
	delete(t.log.turns, t.ID)
	t.log.mu.Unlock()
	t.cancel(nil)
}

// CallEvents returns the index in c.Entries from which entries belong to the
// call of its turn: in the turn's first chunk, what precedes the begin mark
// closes the turn before.
func (c *Chunk) CallEvents() int {
	for i := range c.Entries {
		if t := c.Entries[i].Type; t == MarkBegin || t == MarkResume {
			return i + 1
		}
	}
	return 0
}

// PausedCalls returns the calls a paused exchange waits for: those the client runs.
func (x *Exchange) PausedCalls() []Call {
	var out []Call
	for _, c := range x.Calls {
		if _, done := x.Results[c.ID]; !done {
			out = append(out, c)
		}
	}
	return out
}

// Abandon merges new content into the answer of an exchange whose client
// results will not come (protocol, "Resuming a paused turn").
func (x *Exchange) Abandon(content json.RawMessage) json.RawMessage {
	return joinBlocks(append(x.blocks(), Blocks(content)...))
}
