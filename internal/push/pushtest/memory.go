// Package pushtest has what tests of subscriptions need: a table in memory that
// several processes share, and a gateway's end of WebSocket connections.
package pushtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/lambae/lambae/internal/table"
)

// Memory is a table in memory. Like DynamoDB it is shared: every [session.Store]
// on it is a process of its own. The zero value is empty and ready.
type Memory struct {
	// Fault, when set, may fail a call by its name and first key, before or after
	// it is carried out.
	Fault func(op string, k table.Key) (before, after error)
	// Inserted, when set, is told of every new item, as a change stream would be.
	Inserted func(k table.Key)

	mu      sync.RWMutex
	items   map[table.Key]table.Item
	version int64
	closed  bool
}

var _ table.Table = (*Memory)(nil)

// begin is what every call starts with; it may fail the call.
func (m *Memory) begin(ctx context.Context, op string, keys ...table.Key) (after, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, k := range keys {
		if err := table.CheckKey(k); err != nil {
			return nil, err
		}
	}
	m.mu.RLock()
	closed := m.closed
	m.mu.RUnlock()
	if closed {
		return nil, errors.New("the table is closed")
	}
	if m.Fault == nil || len(keys) == 0 {
		return nil, nil
	}
	err, after = m.Fault(op, keys[0])
	return after, err
}

// Get implements [table.Table].
func (m *Memory) Get(ctx context.Context, keys ...table.Key) ([]table.Item, error) {
	if _, err := m.begin(ctx, "Get", keys...); err != nil {
		return nil, err
	}
	out := make([]table.Item, len(keys))
	m.mu.RLock()
	defer m.mu.RUnlock()
	for i, k := range keys {
		out[i] = copied(m.items[k])
		out[i].Key = k
	}
	return out, nil
}

func copied(it table.Item) table.Item {
	it.Body = bytes.Clone(it.Body)
	return it
}

// Query implements [table.Table].
func (m *Memory) Query(ctx context.Context, r table.Range) iter.Seq2[table.Item, error] {
	return func(yield func(table.Item, error) bool) {
		_, err := m.begin(ctx, "Query", table.Key{PK: r.PK, SK: cmp.Or(r.From, "-")})
		if err == nil {
			err = table.CheckRange(r)
		}
		if err != nil {
			yield(table.Item{}, err)
			return
		}
		for i, it := range m.find(r) {
			if r.Limit > 0 && i == r.Limit || !yield(it, nil) {
				return
			}
		}
	}
}

func (m *Memory) find(r table.Range) (found []table.Item) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for k, it := range m.items {
		if k.PK == r.PK && k.SK >= r.From && (r.To == "" || k.SK < r.To) {
			found = append(found, copied(it))
		}
	}
	slices.SortFunc(found, func(a, b table.Item) int { return strings.Compare(a.SK, b.SK) })
	if r.Reverse {
		slices.Reverse(found)
	}
	return found
}

// Put implements [table.Table].
func (m *Memory) Put(ctx context.Context, op table.Op) (int64, error) {
	return m.write(ctx, "Put", op)
}

// Write implements [table.Table].
func (m *Memory) Write(ctx context.Context, ops ...table.Op) error {
	_, err := m.write(ctx, "Write", ops...)
	return err
}

func (m *Memory) write(ctx context.Context, name string, ops ...table.Op) (int64, error) {
	keys := make([]table.Key, len(ops))
	for i := range ops {
		keys[i] = ops[i].Key
	}
	after, err := m.begin(ctx, name, keys...)
	if err == nil {
		err = table.CheckOps(ops...)
	}
	if err != nil || len(ops) == 0 {
		return 0, err
	}
	version, inserted, err := m.apply(ops)
	if err != nil {
		return 0, err
	}
	if m.Inserted != nil {
		for _, k := range inserted {
			m.Inserted(k)
		}
	}
	return version, after
}

func (m *Memory) apply(ops []table.Op) (version int64, inserted []table.Key, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return 0, nil, errors.New("the table is closed")
	}
	for _, op := range ops {
		old := m.items[op.Key]
		if op.If.Absent() && old.Exists() || op.If.Version() != 0 && old.Version != op.If.Version() {
			return 0, nil, table.ErrCondition
		}
	}
	if m.items == nil {
		m.items = map[table.Key]table.Item{}
	}
	for _, op := range ops {
		if op.Delete {
			delete(m.items, op.Key)
			continue
		}
		m.version++
		if !m.items[op.Key].Exists() {
			inserted = append(inserted, op.Key)
		}
		m.items[op.Key] = table.Item{Key: op.Key, Body: bytes.Clone(op.Body), Version: m.version, Expires: table.ExpiryTime(table.ExpirySeconds(op.Expires))}
	}
	if ops[0].Delete {
		return 0, inserted, nil
	}
	return m.items[ops[0].Key].Version, inserted, nil
}

// Exclusive implements [table.Table].
func (m *Memory) Exclusive() bool { return false }

// Close implements [table.Table].
func (m *Memory) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	return nil
}
