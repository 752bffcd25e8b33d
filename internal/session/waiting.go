package session

import (
	"cmp"
	"slices"
)

// The waiters of this process. Each has a channel of its own: a thousand that all
// woke at every chunk would do a million times the work of the one that may begin.

// wakeup returns a channel that closes when the waiter at pos should look at the
// log again. A waiter that has one is alive. The caller holds mu.
func (l *Log) wakeup(pos int64) <-chan struct{} {
	ch := l.waiting[pos]
	if ch == nil {
		ch = make(chan struct{})
		l.waiting[pos] = ch
	}
	return ch
}

// wake tells the waiter at pos, if it is one of this process. The caller holds mu.
func (l *Log) wake(pos int64) (here bool) {
	ch, here := l.waiting[pos]
	if here {
		close(ch)
		l.waiting[pos] = make(chan struct{})
	}
	return here
}

// unwait forgets the waiter at pos. Another call that took its place over hears
// of it and goes on. The caller holds mu.
func (l *Log) unwait(pos int64) {
	if l.wake(pos) {
		delete(l.waiting, pos)
	}
}

// wakeWaiters tells those for whom a folded chunk changed something: who left the
// queue by it, everybody when a client or the session is gone, and the first in
// line. All others look now and then, see [observer.pause]. The caller holds mu.
func (l *Log) wakeWaiters(c *Chunk) {
	if len(l.waiting) == 0 {
		return
	}
	all := !l.state.Open()
	for i := range c.Entries {
		switch e := &c.Entries[i]; e.Type {
		case MarkSkip, MarkBegin, MarkResume:
			l.wake(e.Ref)
		case MarkRevoked:
			all = true
		}
	}
	if all {
		for pos := range l.waiting {
			l.wake(pos)
		}
		return
	}
	for i := range l.state.Queue {
		if l.wake(l.state.Queue[i].Pos) {
			return
		}
	}
}

// waiterAt finds a waiter. The queue is in the order of positions.
func waiterAt(s *State, pos int64) *Waiter {
	i, found := slices.BinarySearchFunc(s.Queue, pos, func(w Waiter, pos int64) int { return cmp.Compare(w.Pos, pos) })
	if !found {
		return nil
	}
	return &s.Queue[i]
}
