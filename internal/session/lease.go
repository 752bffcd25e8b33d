package session

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// clockSkew is how much two machines' clocks may differ where wall times of
// different processes are compared at all.
const clockSkew = 2 * time.Second

func turnLease(session string) table.Key { return table.Key{PK: logKey(session), SK: "LEASE"} }

func waiterLease(session string, pos int64) table.Key {
	return table.Key{PK: logKey(session), SK: "WAIT#" + chunkKey(pos)[2:]}
}

// lease is the body of a LEASE or WAIT item. It renews the mark at Ref and says
// nothing of any other (design-log 1).
type lease struct {
	Ref  int64  `json:"ref"`
	Boot string `json:"boot"`
}

// renewer keeps the lease of a mark alive: the mark itself is the first lease,
// the item is written every third of a lease from then on. On an exclusive
// table there is nobody to tell.
type renewer struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
}

// renew starts renewing. lost is called once when another process has claimed
// the lease; it may be nil.
func (l *Log) renew(key table.Key, ref int64, lost func()) *renewer {
	if l.store.table.Exclusive() {
		return nil
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &renewer{cancel: cancel}
	r.done.Add(1)
	go func() {
		defer r.done.Done()
		err := l.keepLease(ctx, key, lease{Ref: ref, Boot: l.store.boot})
		if errors.Is(err, table.ErrCondition) && lost != nil {
			lost()
		}
	}()
	return r
}

func (r *renewer) stop() {
	if r != nil {
		r.cancel()
		r.done.Wait()
	}
}

func (l *Log) keepLease(ctx context.Context, key table.Key, own lease) error {
	var version int64
	known := false
	third := l.store.opts.Lease / 3
	wait := third
	for {
		if err := sleep(ctx, wait); err != nil {
			return err
		}
		wait = third / 5 // until a renewal has landed
		if !known {
			items, err := l.store.table.Get(ctx, key)
			if err != nil {
				continue // the next try is still within the lease
			}
			version, known = items[0].Version, true
			if taken(items[0], own) {
				return table.ErrCondition
			}
		}
		v, err := l.store.table.Put(ctx, table.Op{Key: key, Body: MarshalJSON(own), If: ifVersion(version), Expires: l.store.now().Add(24 * time.Hour)})
		switch {
		case err == nil:
			version, wait = v, third
		case errors.Is(err, table.ErrCondition):
			// Another process claimed it, or an answer of ours was lost.
			items, err := l.store.table.Get(ctx, key)
			if err == nil && !taken(items[0], own) && items[0].Exists() {
				version = items[0].Version
				continue
			}
			if err == nil {
				return table.ErrCondition
			}
			known = false
		}
	}
}

// taken reports whether the item was claimed from own: it speaks of the same
// mark, or a later one, and another process wrote it.
func taken(it table.Item, own lease) bool {
	var v lease
	if !it.Exists() || json.Unmarshal(it.Body, &v) != nil {
		return false
	}
	return v.Ref >= own.Ref && v.Boot != own.Boot
}

func ifVersion(v int64) table.Condition {
	if v == 0 {
		return table.IfAbsent()
	}
	return table.IfVersion(v)
}

// observer judges who is dead. It goes by its own monotonic clock only: a lease
// has run out when neither it nor the turn has moved for a whole lease while
// this observer looked. Two machines' clocks are never compared.
type observer struct {
	log     *Log
	started time.Time
	seen    map[int64]*sighting // by position of the mark
	lastGet time.Time
	claimed map[int64]int64 // turns whose lease this process has taken, and their last chunk then
}

type sighting struct {
	last    int64 // newest chunk of a turn, or its pause
	version int64 // of the lease item
	since   time.Time
}

func newObserver(l *Log) *observer {
	return &observer{log: l, started: time.Now(), seen: map[int64]*sighting{}, claimed: map[int64]int64{}}
}

// pause is how long the observer may sleep until it should look again.
func (o *observer) pause() time.Duration {
	d := o.log.store.opts.PollMax
	o.log.View(func(s *State) {
		if s.Turn != nil && s.Turn.Paused {
			left := o.log.store.opts.TurnTimeout - o.log.store.now().Sub(time.UnixMilli(s.Turn.Wall))
			d = min(d, max(left, time.Millisecond))
		}
	})
	return d
}

// look notes what stands still, and claims the lease of a turn that has stood
// still for long enough. Of the waiters it looks only at those of other processes
// ahead of own, the observer's place in the queue if it has one: a thousand that
// each watched a thousand would have no time to let one through.
func (o *observer) look(ctx context.Context, own int64) error {
	var turn TurnState
	var marks []int64
	o.log.View(func(s *State) {
		if s.Turn != nil {
			turn = *s.Turn
			o.note(turn.ID, turn.Last)
			if !turn.Paused && turn.Boot != o.log.store.boot {
				marks = append(marks, turn.ID)
			}
		}
		if o.log.store.table.Exclusive() {
			return // a waiter of another process is dead without a look
		}
		for _, w := range s.Queue {
			if w.Pos == own {
				break
			}
			if w.Boot != o.log.store.boot {
				o.note(w.Pos, w.Pos)
				marks = append(marks, w.Pos)
			}
		}
	})
	if o.log.store.table.Exclusive() || len(marks) == 0 {
		return nil
	}
	third := o.log.store.opts.Lease / 3
	if time.Since(o.started) < third || time.Since(o.lastGet) < third/3 {
		return nil
	}
	o.lastGet = time.Now()
	keys := make([]table.Key, len(marks))
	for i, m := range marks {
		if keys[i] = waiterLease(o.log.ID, m); m == turn.ID {
			keys[i] = turnLease(o.log.ID)
		}
	}
	items, err := o.log.store.table.Get(ctx, keys...)
	if err != nil {
		return nil //nolint:nilerr // timers decide only when someone may try: look again later
	}
	for i, m := range marks {
		g := o.seen[m]
		if items[i].Version != g.version {
			g.version, g.since = items[i].Version, time.Now()
		}
		if m == turn.ID && o.still(m) && o.nextInLine(own) {
			o.claim(ctx, turn, items[i])
		}
	}
	return nil
}

// nextInLine reports whether nobody alive is ahead of the waiter at own, or of
// an arrival. Only then may the turn's lease be claimed: each claim looks like a
// sign of life to everybody else, and one from behind would hold up the head.
func (o *observer) nextInLine(own int64) (next bool) {
	o.log.View(func(s *State) {
		for _, w := range s.Queue {
			if w.Pos == own {
				break
			}
			if !o.deadWaiter(w) {
				return
			}
		}
		next = true
	})
	return next
}

// note starts or restarts the watch over a mark.
func (o *observer) note(pos, last int64) {
	g := o.seen[pos]
	if g == nil {
		o.seen[pos] = &sighting{last: last, since: time.Now()}
	} else if g.last != last {
		g.last, g.since = last, time.Now()
	}
}

func (o *observer) still(pos int64) bool {
	g := o.seen[pos]
	return g != nil && time.Since(g.since) >= o.log.store.opts.Lease
}

// claim takes the lease, so that its owner learns of it at its next renewal and
// no second observer breaks the turn.
func (o *observer) claim(ctx context.Context, t TurnState, it table.Item) {
	if last, ok := o.claimed[t.ID]; ok && last == t.Last {
		return
	}
	body := MarshalJSON(lease{Ref: t.ID, Boot: o.log.store.boot})
	v, err := o.log.store.table.Put(ctx, table.Op{Key: it.Key, Body: body, If: ifVersion(it.Version), Expires: o.log.store.now().Add(24 * time.Hour)})
	if err == nil {
		o.claimed[t.ID] = t.Last
		o.seen[t.ID].version = v
	}
}

// expired reports whether the open turn may be broken: paused for too long, or
// its owner dead. Pure but for the clock; called under the log's lock.
func (o *observer) expired(s *State) bool {
	t := s.Turn
	if t == nil {
		return false
	}
	if t.Paused {
		timeout := o.log.store.opts.TurnTimeout
		paused := o.log.store.now().Sub(time.UnixMilli(t.Wall))
		if o.log.store.table.Exclusive() {
			return paused >= timeout
		}
		g := o.seen[t.ID]
		return paused >= timeout+clockSkew || g != nil && g.last == t.Last && time.Since(g.since) >= timeout
	}
	if t.Boot == o.log.store.boot {
		_, alive := o.log.turns[t.ID]
		return !alive
	}
	if o.log.store.table.Exclusive() {
		return true // the process that ran it is gone: only one can have the table open
	}
	last, claimed := o.claimed[t.ID]
	return claimed && last == t.Last
}

// deadWaiter reports whether a waiter may be passed.
func (o *observer) deadWaiter(w Waiter) bool {
	if w.Boot == o.log.store.boot {
		_, alive := o.log.waiting[w.Pos]
		return !alive
	}
	return o.log.store.table.Exclusive() || o.still(w.Pos)
}
