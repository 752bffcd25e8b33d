package session

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// world is a shared table in memory with several processes on it, each seeing
// it through a handle that can lose answers, delay puts and die.
type world struct {
	mu    sync.Mutex
	items map[table.Key]table.Item
}

func newWorld() *world { return &world{items: map[table.Key]table.Item{}} }

// handle is one process's connection to the world.
type handle struct {
	world *world
	faults
	exclusive bool

	mu   sync.Mutex
	rand *rand.Rand
	dead bool
}

// faults are the chances of a put, in percent.
type faults struct{ lost, delayed, refused int }

var errNetwork = errors.New("connection reset")

func (w *world) connect(seed uint64, f faults) *handle {
	return &handle{world: w, faults: f, rand: rand.New(rand.NewPCG(seed, 1))}
}

// kill makes every later call of the process fail.
func (h *handle) kill() { h.mu.Lock(); h.dead = true; h.mu.Unlock() }

func (h *handle) roll(percent int) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.rand.IntN(100) < percent
}

func (h *handle) alive() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return errNetwork
	}
	return nil
}

func (h *handle) Get(_ context.Context, keys ...table.Key) ([]table.Item, error) {
	if err := h.alive(); err != nil {
		return nil, err
	}
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	out := make([]table.Item, len(keys))
	for i, k := range keys {
		out[i] = h.world.items[k]
		out[i].Key = k
	}
	return out, nil
}

func (h *handle) Query(_ context.Context, r table.Range) iter.Seq2[table.Item, error] {
	return func(yield func(table.Item, error) bool) {
		if err := h.alive(); err != nil {
			yield(table.Item{}, err)
			return
		}
		h.world.mu.Lock()
		var found []table.Item
		for k, it := range h.world.items {
			if k.PK == r.PK && k.SK >= r.From && (r.To == "" || k.SK < r.To) {
				found = append(found, it)
			}
		}
		h.world.mu.Unlock()
		sort.Slice(found, func(i, j int) bool { return found[i].SK < found[j].SK != r.Reverse })
		for i, it := range found {
			if r.Limit > 0 && i == r.Limit || !yield(it, nil) {
				return
			}
		}
	}
}

func (h *handle) Put(ctx context.Context, op table.Op) (int64, error) {
	if err := h.alive(); err != nil {
		return 0, err
	}
	if h.roll(h.refused) {
		return 0, errNetwork
	}
	if h.roll(h.delayed) {
		// The put is on its way while its writer thinks that it failed.
		op.Body = bytes.Clone(op.Body)
		time.AfterFunc(time.Duration(1+rand.IntN(3000))*time.Millisecond, func() { _ = h.world.write(op) })
		return 0, errNetwork
	}
	if err := h.world.write(op); err != nil {
		return 0, err
	}
	if h.roll(h.lost) {
		return 0, errNetwork
	}
	items, err := h.Get(ctx, op.Key)
	if err != nil {
		return 0, err
	}
	return items[0].Version, nil
}

func (h *handle) Write(_ context.Context, ops ...table.Op) error {
	if err := h.alive(); err != nil {
		return err
	}
	return h.world.write(ops...)
}

func (w *world) write(ops ...table.Op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, op := range ops {
		old := w.items[op.Key]
		if op.If.Absent() && old.Exists() || op.If.Version() != 0 && old.Version != op.If.Version() {
			return table.ErrCondition
		}
		if len(op.Body) > table.MaxItem {
			return table.ErrTooLarge
		}
	}
	for _, op := range ops {
		if op.Delete {
			delete(w.items, op.Key)
			continue
		}
		w.items[op.Key] = table.Item{Key: op.Key, Body: slices.Clone(op.Body), Version: w.items[op.Key].Version + 1, Expires: op.Expires}
	}
	return nil
}

func (h *handle) Exclusive() bool { return h.exclusive }
func (h *handle) Close() error    { return nil }
