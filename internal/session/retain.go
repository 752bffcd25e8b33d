package session

import (
	"context"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// Retain deletes the session's events from before a time, which must be a day
// ago or more (profile, event_ttl_days; design-log 4). What the session needs to
// go on stays: chunk 0, the message history, the tool lists. A session in the
// middle of a turn is left alone until the next time.
//
// The snapshot first says from where the log is kept and then what is below
// goes, so that a reader never takes a hole for the end.
func (l *Log) Retain(ctx context.Context, before time.Time) error {
	if err := l.catchUp(ctx); err != nil {
		return err
	}
	keep, err := l.keepFrom(ctx, before)
	if err != nil || keep == 0 {
		return err
	}
	l.mu.Lock()
	busy := l.state.Turn != nil || l.state.Thread.Open != nil
	first := l.sealed.first()
	l.mu.Unlock()
	if busy {
		return nil
	}
	if keep > first {
		if err := l.writeSnapshot(ctx, keep); err != nil {
			return fmt.Errorf("retain %s: %w", l.ID, err)
		}
	}
	return l.deleteBelow(ctx, max(keep, first))
}

// keepFrom is the first chunk at or after the time, 0 when nothing is older.
func (l *Log) keepFrom(ctx context.Context, before time.Time) (keep int64, err error) {
	limit := before.UnixMilli()
	for c, err := range l.walk(ctx, 1) {
		if err != nil {
			return 0, err
		}
		if c.At >= limit {
			return keep, nil
		}
		keep = c.N + 1
	}
	return keep, nil
}

// deleteBelow deletes all chunks but the first that are below a position, and
// their parts. What a crash left of an earlier time goes with it.
func (l *Log) deleteBelow(ctx context.Context, keep int64) error {
	const batch = 25
	var ops []table.Op
	flush := func() error {
		if len(ops) == 0 {
			return nil
		}
		err := l.store.table.Write(ctx, ops...)
		ops = ops[:0]
		return err
	}
	r := table.Range{PK: logKey(l.ID), From: chunkKey(1), To: chunkKey(keep)}
	for it, err := range l.store.table.Query(ctx, r) {
		if err != nil {
			return fmt.Errorf("retain %s: %w", l.ID, err)
		}
		b, err := table.Unpack(it.Body)
		if err != nil {
			return fmt.Errorf("retain %s, %s: %w", l.ID, it.SK, err)
		}
		c, err := decodeChunk(0, b)
		if err != nil {
			return fmt.Errorf("retain %s: %w", l.ID, err)
		}
		if c.blob != nil {
			for i := range c.blob.Parts {
				ops = append(ops, table.Op{Key: partKey(l.ID, c.blob.ID, i), Delete: true})
			}
		}
		if ops = append(ops, table.Op{Key: it.Key, Delete: true}); len(ops) >= batch {
			if err := flush(); err != nil {
				return fmt.Errorf("retain %s: %w", l.ID, err)
			}
		}
	}
	if err := flush(); err != nil {
		return fmt.Errorf("retain %s: %w", l.ID, err)
	}
	return nil
}

// first is the lowest chunk after chunk 0 that is kept; 0 when all are.
func (s *sealed) first() int64 {
	if s.snap == nil {
		return 0
	}
	return s.snap.First
}

// forgetDeleted drops from memory the newest chunks that are kept no more. The
// caller holds mu.
func (l *Log) forgetDeleted() {
	first := l.sealed.first()
	for len(l.recent) > 0 && l.recent[0].N < first {
		l.dropOldest()
	}
}

// kept moves a position that was deleted up to the first that is kept. The
// caller holds mu.
func (l *Log) kept(from int64) int64 {
	if from == 0 {
		return 0
	}
	return max(from, l.sealed.first())
}

// moved learns from the snapshot whether another process has deleted chunks.
func (l *Log) moved(ctx context.Context) (bool, error) {
	snap, version, err := l.store.readSnapshot(ctx, l.ID)
	if err != nil || snap == nil {
		return false, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if snap.First <= l.sealed.first() {
		return false, nil
	}
	// Only where the log begins is taken over: the state and history here are as
	// good as the snapshot's.
	thread := snap.State.Thread
	next := snap.State.Next
	snap.State = nil
	l.sealed, l.snapVer = sealed{snap: snap, thread: thread, next: next}, version
	l.forgetDeleted()
	return true, nil
}
