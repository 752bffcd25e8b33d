package session

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// Log is one session as this process knows it: the fold of its chunks so far,
// the newest chunks, and who waits for more. All work on a session in a process
// goes through one Log, which [Store.Log] hands out.
type Log struct {
	ID    string
	store *Store

	// writing is held by one append at a time; it is a channel so that waiting
	// for it can be given up.
	writing chan struct{}

	mu       sync.Mutex // guards all below, never held over I/O
	loaded   bool
	state    *State
	history  *History // nil until somebody needs it
	recent   []*Chunk // the newest chunks, dense, the last is state.Next-1
	recentSz int
	changed  chan struct{} // closed and replaced when a chunk was folded
	lists    map[string][]byte
	turns    map[int64]func(error)   // of this process by position, and how to stop them
	waiting  map[int64]chan struct{} // waiters of this process by position, see waiting.go
	snapAt   int64                   // the next snapshot is due at this chunk
	snapVer  int64
	sealed   sealed

	fresh    time.Time // when the end of the log was last read
	watchers int
	polling  bool
	// pending is the append under way: its nonce and what to do, under mu, when
	// its chunk is folded, by whoever reads it first.
	pending       string
	pendingCommit func(c *Chunk)

	refs     int // guarded by store.mu, like the three below
	idle     *list.Element
	idleIn   *idleLogs
	idleSize int
}

// Draft is what a command wants appended. The zero Draft appends nothing.
type Draft struct {
	Entries []Entry
	// Turn is the identity of the turn whose call the chunk belongs to, or
	// [NewTurn] for the chunk that begins it.
	Turn int64
	// Lists are tool lists that provider.request entries name by hash.
	Lists map[string][]byte

	// commit runs at the moment the chunk is folded, before anybody sees it.
	commit func(c *Chunk)
}

// NewTurn in [Draft.Turn] stands for the position of the chunk itself.
const NewTurn = -1

// Refusal is what a command returns when the state forbids it. Callers turn it
// into an answer of the protocol.
type Refusal struct {
	// Status is the session's state where that is the reason.
	Status string
	// Text says why, ready to be shown.
	Text string
}

func (r *Refusal) Error() string { return r.Text }

// NotOpen is the refusal of a session that has ended.
func NotOpen(status string) *Refusal {
	return &Refusal{Status: status, Text: "session is " + status + ", not open"}
}

// ErrNoSession is returned when a session does not exist.
var ErrNoSession = errors.New("no such session")

// View calls f with the state as folded so far. f must neither change nor keep it.
func (l *Log) View(f func(s *State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f(l.state)
}

// Append runs decide on the state and appends what it returns as the next
// chunk. When another writer was first, its chunks are folded in and decide
// runs again, so it must be pure. An error of decide is returned as it is. The
// put runs on even when ctx ends meanwhile; Append returns its outcome.
//
// A nil chunk with a nil error means that decide had nothing to append.
func (l *Log) Append(ctx context.Context, decide func(s *State) (Draft, error)) (*Chunk, error) {
	select {
	case l.writing <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-l.writing }()
	w := writer{log: l}
	defer w.release()
	for {
		l.mu.Lock()
		draft, err := decide(l.state)
		if err == nil && len(draft.Entries) > 0 && l.state.Unknown {
			err = ErrUnknownFormat
		}
		var c *Chunk
		if err == nil && len(draft.Entries) > 0 {
			c = l.chunk(draft)
			l.pending, l.pendingCommit = c.Nonce, draft.commit
		}
		l.mu.Unlock()
		if err != nil || c == nil {
			return nil, err
		}
		won, err := w.put(context.WithoutCancel(ctx), c, draft.Lists)
		if err != nil {
			// The put may still land. Then the chunk is nobody's: the caller is gone.
			l.mu.Lock()
			l.pendingCommit = nil
			l.mu.Unlock()
			return nil, err
		}
		if won {
			return c, nil
		}
	}
}

// chunk makes the next chunk of a draft. The caller holds mu.
func (l *Log) chunk(d Draft) *Chunk {
	c := &Chunk{
		N: l.state.Next, Format: FormatVersion, Nonce: newNonce(), Turn: d.Turn, Entries: d.Entries,
		At: max(l.store.now().UnixMilli(), l.state.At),
	}
	if d.Turn == NewTurn {
		c.Turn = c.N
	}
	l.state.Thread.seal(c.Entries)
	return c
}

// fold applies a committed chunk and wakes whoever waits for it.
func (l *Log) fold(c *Chunk) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.N != l.state.Next {
		return // folded already by another reader
	}
	l.state.Apply(c, l.history)
	if c.Nonce == l.pending && l.pendingCommit != nil {
		l.pendingCommit(c)
		l.pendingCommit = nil
	}
	l.keep(c)
	l.stopLost()
	l.wakeWaiters(c)
	close(l.changed)
	l.changed = make(chan struct{})
}

// keep adds a chunk to the newest ones, which subscribers read without I/O.
func (l *Log) keep(c *Chunk) {
	l.recent = append(l.recent, c)
	l.recentSz += c.size()
	for len(l.recent) > 1 && (len(l.recent) > maxRecent || l.recentSz > maxRecentBytes) {
		l.dropOldest()
	}
}

func (l *Log) dropOldest() {
	l.recentSz -= l.recent[0].size()
	l.recent[0] = nil
	l.recent = l.recent[1:]
}

const (
	maxRecent      = 64
	maxRecentBytes = 1 << 20
)

func (c *Chunk) size() (n int) {
	for i := range c.Entries {
		n += len(c.Entries[i].Payload) + 128
	}
	return n
}

// stopLost tells the turns of this process that have lost the gate: closed,
// revoked or taken over. The caller holds mu.
func (l *Log) stopLost() {
	for pos, stop := range l.turns {
		if t := l.state.Turn; t != nil && t.ID == pos && !t.Paused {
			continue
		}
		delete(l.turns, pos)
		if !l.state.Open() {
			stop(NotOpen(l.state.Status))
		} else {
			stop(ErrTurnLost)
		}
	}
}

// Changed returns the position after the newest folded chunk and a channel that
// closes when there is more.
func (l *Log) Changed() (next int64, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state.Next, l.changed
}

// Refresh folds in what other processes appended. On an exclusive table there
// is nothing to look for.
func (l *Log) Refresh(ctx context.Context) error {
	if l.store.table.Exclusive() {
		return nil
	}
	return l.catchUp(ctx)
}

// catchUp reads and folds the chunks after the last folded one.
func (l *Log) catchUp(ctx context.Context) error {
	next, _ := l.Changed()
	for c, err := range l.store.chunks(ctx, l.ID, next, 0) {
		if err != nil {
			return err
		}
		l.fold(c)
	}
	l.mu.Lock()
	l.fresh = time.Now()
	l.mu.Unlock()
	return nil
}

// Chunks returns folded chunks from position from on, at most a page of them,
// from memory when they are there. It returns none when from is the end.
func (l *Log) Chunks(ctx context.Context, from int64) ([]*Chunk, error) {
	l.mu.Lock()
	from = l.kept(from)
	next := l.state.Next
	if from >= next {
		l.mu.Unlock()
		return nil, nil
	}
	if first := next - int64(len(l.recent)); from >= first {
		out := append([]*Chunk(nil), l.recent[from-first:]...)
		l.mu.Unlock()
		return out, nil
	}
	l.mu.Unlock()
	var out []*Chunk
	size := 0
	for c, err := range l.store.chunks(ctx, l.ID, from, maxRecent) {
		if err != nil {
			return nil, err
		}
		if c.N >= next {
			break
		}
		out = append(out, c)
		if size += c.size(); size > maxRecentBytes {
			break
		}
	}
	if len(out) == 0 {
		moved, err := l.moved(ctx)
		if err == nil && !moved {
			err = fmt.Errorf("read %s: chunk %d is missing", l.ID, from)
		}
		if err != nil {
			return nil, err
		}
		return l.Chunks(ctx, from)
	}
	return out, nil
}

// walk yields folded chunks from position from to the end, a page at a time.
func (l *Log) walk(ctx context.Context, from int64) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		for {
			chunks, err := l.Chunks(ctx, from)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(chunks) == 0 {
				return
			}
			for _, c := range chunks {
				if !yield(c, nil) {
					return
				}
			}
			from = chunks[len(chunks)-1].N + 1
		}
	}
}

// chunk reads one chunk, from memory when it is there.
func (l *Log) chunkAt(ctx context.Context, n int64) (*Chunk, error) {
	l.mu.Lock()
	if first := l.state.Next - int64(len(l.recent)); n >= first && n < l.state.Next {
		defer l.mu.Unlock()
		return l.recent[n-first], nil
	}
	l.mu.Unlock()
	items, err := l.store.table.Get(ctx, table.Key{PK: logKey(l.ID), SK: chunkKey(n)})
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", l.ID, err)
	}
	if !items[0].Exists() {
		return nil, nil
	}
	return l.store.openChunk(ctx, l.ID, n, items[0].Body)
}

// Watch keeps the fold fresh until stop is called: hints tell only of this
// process, so on a shared table the log is looked at every PollMin while a turn
// runs, slowing to PollMax when nothing happens. Callers wait on [Log.Changed].
func (l *Log) Watch() (stop func()) {
	if l.store.table.Exclusive() {
		return func() {}
	}
	l.mu.Lock()
	l.watchers++
	start := !l.polling
	l.polling = true
	l.mu.Unlock()
	if start {
		go l.poll()
	}
	return func() {
		l.mu.Lock()
		l.watchers--
		l.mu.Unlock()
	}
}

// poll runs while there are watchers.
func (l *Log) poll() {
	ctx := context.Background()
	wait := l.store.opts.PollMin
	next, _ := l.Changed()
	for {
		_ = sleep(ctx, wait)
		l.mu.Lock()
		stop := l.watchers == 0
		l.polling = !stop
		running := l.state.Turn != nil && !l.state.Turn.Paused
		l.mu.Unlock()
		if stop {
			return
		}
		if err := l.catchUp(ctx); err != nil {
			l.store.opts.Logger.Warn("log not read, trying again", "session", l.ID, "error", err)
		}
		n, _ := l.Changed()
		if wait = min(2*wait, l.store.opts.PollMax); n != next || running {
			wait = l.store.opts.PollMin
		}
		next = n
	}
}
