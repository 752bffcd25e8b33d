package session

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// Options of a [Store]. The zero value works.
type Options struct {
	// Now is the wall clock; time.Now by default.
	Now func() time.Time
	// Logger takes what an operator should know; slog.Default by default.
	Logger *slog.Logger
	// TurnTimeout is how long a paused turn keeps the gate (BAE_TURN_TIMEOUT);
	// 120 s by default.
	TurnTimeout time.Duration
	// Lease is how long a silent process keeps a turn or its place in the
	// queue; 15 s by default. Renewals come three times as often.
	Lease time.Duration
	// CacheBytes bounds the memory of sessions nobody uses at the moment; 64 MB
	// by default.
	CacheBytes int
	// PollMin and PollMax bound how often a log is looked at for chunks of other
	// processes; 50 ms and 1 s by default.
	PollMin, PollMax time.Duration
}

// Store opens the sessions of a table. It is safe for concurrent use.
type Store struct {
	table table.Table
	opts  Options
	boot  string // this process

	mu    sync.Mutex
	logs  map[string]*Log
	idle  idleLogs
	ended idleLogs // those of sessions that have ended
}

// idleLogs are logs that nobody uses, kept for the next request.
type idleLogs struct {
	list.List // of *Log, the latest used first
	bytes     int
}

// NewStore returns the sessions kept in t.
func NewStore(t table.Table, o *Options) *Store {
	s := &Store{table: t, boot: randomHex(8), logs: map[string]*Log{}}
	if o != nil {
		s.opts = *o
	}
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	def(&s.opts.TurnTimeout, 120*time.Second)
	def(&s.opts.Lease, 15*time.Second)
	def(&s.opts.PollMin, 50*time.Millisecond)
	def(&s.opts.PollMax, time.Second)
	if s.opts.Now == nil {
		s.opts.Now = time.Now
	}
	if s.opts.Logger == nil {
		s.opts.Logger = slog.Default()
	}
	if s.opts.CacheBytes <= 0 {
		s.opts.CacheBytes = 64 << 20
	}
	return s
}

// Table is the table below.
func (s *Store) Table() table.Table { return s.table }

// Boot identifies this process in marks and leases.
func (s *Store) Boot() string { return s.boot }

func (s *Store) now() time.Time { return s.opts.Now() }

func logKey(session string) string { return "S#" + session }

// Log returns the session's log, loaded and fresh, and a function that must be
// called when it is not used any more. [ErrNoSession] when there is none.
func (s *Store) Log(ctx context.Context, id string) (*Log, func(), error) {
	l := s.acquire(id)
	release := func() { s.release(l) }
	err := l.load(ctx)
	if err != nil {
		release()
		return nil, nil, err
	}
	return l, release, nil
}

// Cached returns the session's log as this process last saw it, when it is in
// memory: what other processes appended since is missing until [Log.Refresh].
// The function must be called when the log is not used any more.
func (s *Store) Cached(id string) (*Log, func(), bool) {
	s.mu.Lock()
	_, there := s.logs[id]
	s.mu.Unlock()
	if !there {
		return nil, nil, false
	}
	l := s.acquire(id)
	l.mu.Lock()
	loaded := l.loaded
	l.mu.Unlock()
	if !loaded {
		s.release(l)
		return nil, nil, false
	}
	return l, func() { s.release(l) }, true
}

func (s *Store) acquire(id string) *Log {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.logs[id]
	if l != nil && l.refs == 0 && s.stale(l) {
		s.forget(l)
		l = nil
	}
	if l == nil {
		l = &Log{ID: id, store: s, writing: make(chan struct{}, 1), changed: make(chan struct{}), history: &History{},
			state: newState(id), lists: map[string][]byte{}, turns: map[int64]func(error){}, waiting: map[int64]chan struct{}{}}
		s.logs[id] = l
	}
	s.busy(l)
	l.refs++
	return l
}

// staleAfter is the age at which a fold is not trusted any more: what it knows
// as the end of the log may have been deleted since (see [Log.Retain]), and then
// a put there would succeed behind everybody's back.
const staleAfter = time.Hour

func (s *Store) stale(l *Log) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.loaded && !s.table.Exclusive() && time.Since(l.fresh) > staleAfter
}

// busy takes a log out of those nobody uses. The caller holds mu.
func (s *Store) busy(l *Log) {
	if l.idle != nil {
		l.idleIn.Remove(l.idle)
		l.idleIn.bytes -= l.idleSize
		l.idle, l.idleIn = nil, nil
	}
}

func (s *Store) forget(l *Log) {
	s.busy(l)
	delete(s.logs, l.ID)
}

// maxEnded is how many sessions that have ended stay in memory: those that
// somebody may be paging through.
const maxEnded = 8

// release gives back a log. Unused ones are kept for the next request while
// their memory fits the budget, the one unused for longest goes first. Ended
// sessions have a quarter of the budget for themselves, so that reading old ones
// does not cost those that go on theirs.
func (s *Store) release(l *Log) {
	loaded, open, size := l.footprint()
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.refs--; l.refs > 0 {
		return
	}
	if !loaded {
		delete(s.logs, l.ID)
		return
	}
	in, bytes, count := &s.idle, s.opts.CacheBytes, math.MaxInt
	if !open {
		in, bytes, count = &s.ended, s.opts.CacheBytes/4, maxEnded
	}
	l.idle, l.idleIn, l.idleSize = in.PushFront(l), in, size
	in.bytes += size
	for in.Len() > 1 && (in.bytes > bytes || in.Len() > count) {
		s.forget(in.Back().Value.(*Log))
	}
}

// footprint reports whether a log was loaded, whether its session is open, and
// about how many bytes it holds.
func (l *Log) footprint() (loaded, open bool, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	bytes = 4096 + l.recentSz + l.state.size()
	if l.history != nil {
		bytes += l.history.Size()
	}
	for _, list := range l.lists {
		bytes += len(list)
	}
	return l.loaded, l.state.Open(), bytes
}

// load brings the fold up to the end of the log.
func (l *Log) load(ctx context.Context) error {
	l.mu.Lock()
	loaded := l.loaded
	l.mu.Unlock()
	if loaded {
		return l.Refresh(ctx)
	}
	select {
	case l.writing <- struct{}{}:
		defer func() { <-l.writing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l.mu.Lock()
	loaded = l.loaded
	l.mu.Unlock()
	if loaded {
		return nil
	}
	if err := l.loadSnapshot(ctx); err != nil {
		return err
	}
	if err := l.catchUp(ctx); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state.Next == 0 {
		return ErrNoSession
	}
	l.loaded = true
	return nil
}

// chunks yields the dense run of chunks from position from: a query is no
// snapshot, so a hole ends it (design-log 3).
func (s *Store) chunks(ctx context.Context, session string, from int64, limit int) iter.Seq2[*Chunk, error] {
	return func(yield func(*Chunk, error) bool) {
		r := table.Range{PK: logKey(session), From: chunkKey(from), To: "L$", Limit: limit}
		for it, err := range s.table.Query(ctx, r) {
			if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", session, err))
				return
			}
			if it.SK != chunkKey(from) {
				return
			}
			c, err := s.openChunk(ctx, session, from, it.Body)
			if !yield(c, err) || err != nil {
				return
			}
			from++
		}
	}
}

func (s *Store) openChunk(ctx context.Context, session string, n int64, body []byte) (*Chunk, error) {
	b, err := table.Unpack(body)
	if err != nil {
		return nil, fmt.Errorf("read %s, chunk %d: %w", session, n, err)
	}
	c, err := decodeChunk(n, b)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", session, err)
	}
	if c.blob != nil {
		packed, err := s.getParts(ctx, session, *c.blob)
		if err != nil {
			return nil, err
		}
		if b, err = table.Unpack(packed); err != nil {
			return nil, fmt.Errorf("read %s, chunk %d: %w", session, n, err)
		}
		if err := c.decodeEntries(b); err != nil {
			return nil, fmt.Errorf("read %s: %w", session, err)
		}
	}
	return c, nil
}

// Create writes chunk 0 of a new session. It fails with [table.ErrCondition]
// when the session exists.
func (s *Store) Create(ctx context.Context, id string, entries []Entry) (*Log, func(), error) {
	l := s.acquire(id)
	release := func() { s.release(l) }
	c, err := l.Append(ctx, func(st *State) (Draft, error) {
		if st.Next != 0 {
			return Draft{}, table.ErrCondition
		}
		return Draft{Entries: entries}, nil
	})
	if err == nil && c == nil {
		err = errors.New("create a session: no entries")
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	l.mu.Lock()
	l.loaded, l.fresh = true, time.Now()
	l.mu.Unlock()
	return l, release, nil
}
