package tabletest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/table"
)

var model = []test{
	{"any sequence of calls does what a map would do", func(t *testing.T, s store) {
		start, run := time.Now(), 0
		rapid.Check(t, func(rt *rapid.T) {
			if time.Since(start) > modelTime {
				return
			}
			run++
			m := &machine{store: s, run: run, items: map[table.Key]table.Item{}, seen: map[table.Key]map[int64]bool{}}
			rt.Repeat(map[string]func(*rapid.T){"put": m.put, "write": m.write, "get": m.get, "query": m.query})
		})
	}},
}

// modelTime bounds the runs against a store that is slow.
const modelTime = 5 * time.Second

// A machine makes random calls to a table, and the same to a map.
type machine struct {
	store store
	run   int // each run has partitions of its own
	items map[table.Key]table.Item
	seen  map[table.Key]map[int64]bool
}

func (m *machine) partition(rt *rapid.T) string {
	return fmt.Sprintf("%d%s", m.run, rapid.SampledFrom([]string{"", "!", "#x"}).Draw(rt, "partition"))
}

func (m *machine) sortKey(rt *rapid.T, label string) string {
	return rapid.SampledFrom([]string{"A", "L", "L#", "L#1", "L#10", "L#2", "é", "\U0010FFFF"}).Draw(rt, label)
}

func (m *machine) key(rt *rapid.T) table.Key { return key(m.partition(rt), m.sortKey(rt, "sk")) }

// op draws a write. Now and then its condition is one that no longer holds.
func (m *machine) op(rt *rapid.T, k table.Key) table.Op {
	op := table.Op{Key: k, Delete: rapid.IntRange(0, 3).Draw(rt, "delete") == 0}
	if !op.Delete {
		op.Body = rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(rt, "body")
		if rapid.Bool().Draw(rt, "expires") {
			op.Expires = time.Unix(rapid.Int64Range(4e9, 4e9+5).Draw(rt, "expiry"), 0).UTC()
		}
	}
	switch rapid.SampledFrom([]string{"plain", "absent", "version", "old version"}).Draw(rt, "if") {
	case "absent":
		op.If = table.IfAbsent()
	case "version":
		op.If = table.IfVersion(max(m.items[k].Version, 1))
	case "old version":
		if old := slices.Sorted(maps.Keys(m.seen[k])); len(old) > 0 {
			op.If = table.IfVersion(rapid.SampledFrom(old).Draw(rt, "version"))
		}
	}
	return op
}

func (m *machine) holds(op table.Op) bool {
	it := m.items[op.Key]
	switch {
	case op.If.Absent():
		return !it.Exists()
	case op.If.Version() != 0:
		return it.Version == op.If.Version()
	}
	return true
}

func (m *machine) apply(rt *rapid.T, op table.Op, version int64) {
	if op.Delete {
		delete(m.items, op.Key)
		return
	}
	if m.seen[op.Key] == nil {
		m.seen[op.Key] = map[int64]bool{}
	}
	require.False(rt, m.seen[op.Key][version], "%q has version %d a second time", op.Key, version)
	m.seen[op.Key][version] = true
	m.items[op.Key] = table.Item{Key: op.Key, Body: op.Body, Version: version, Expires: op.Expires}
}

func (m *machine) put(rt *rapid.T) {
	op := m.op(rt, m.key(rt))
	version, err := m.store.Put(rt.Context(), op)
	if !m.holds(op) {
		require.ErrorIs(rt, err, table.ErrCondition)
		return
	}
	require.NoError(rt, err)
	m.apply(rt, op, version)
}

func (m *machine) write(rt *rapid.T) {
	keys := rapid.SliceOfNDistinct(rapid.Custom(m.key), 1, 4, rapid.ID[table.Key]).Draw(rt, "keys")
	ops := make([]table.Op, len(keys))
	hold := true
	for i, k := range keys {
		ops[i] = m.op(rt, k)
		hold = hold && m.holds(ops[i])
	}
	err := m.store.Write(rt.Context(), ops...)
	if !hold {
		require.ErrorIs(rt, err, table.ErrCondition)
		return
	}
	require.NoError(rt, err)
	got, err := m.store.Get(rt.Context(), keys...)
	require.NoError(rt, err)
	for i, op := range ops {
		require.Equal(rt, !op.Delete, got[i].Exists())
		m.apply(rt, op, got[i].Version)
	}
}

func (m *machine) get(rt *rapid.T) {
	keys := rapid.SliceOfN(rapid.Custom(m.key), 0, 5).Draw(rt, "keys")
	got, err := m.store.Get(rt.Context(), keys...)
	require.NoError(rt, err)
	require.Len(rt, got, len(keys))
	for i, k := range keys {
		want, ok := m.items[k]
		if !ok {
			want.Key = k
		}
		requireSame(rt, want, got[i])
	}
}

func (m *machine) query(rt *rapid.T) {
	r := table.Range{
		PK:      m.partition(rt),
		Reverse: rapid.Bool().Draw(rt, "reverse"),
		Limit:   rapid.IntRange(0, 4).Draw(rt, "limit"),
	}
	if rapid.Bool().Draw(rt, "has from") {
		r.From = m.sortKey(rt, "from")
	}
	if rapid.Bool().Draw(rt, "has to") {
		r.To = m.sortKey(rt, "to") + rapid.SampledFrom([]string{"", "\xff"}).Draw(rt, "after all")
	}
	var want []table.Item
	for _, k := range slices.SortedFunc(maps.Keys(m.items), func(a, b table.Key) int { return cmpKeys(a, b, r.Reverse) }) {
		if k.PK == r.PK && k.SK >= r.From && (r.To == "" || k.SK < r.To) && (r.Limit == 0 || len(want) < r.Limit) {
			want = append(want, m.items[k])
		}
	}
	got := m.store.query(rt, r)
	require.Len(rt, got, len(want))
	for i := range got {
		requireSame(rt, want[i], got[i])
	}
}

func cmpKeys(a, b table.Key, reverse bool) int {
	if reverse {
		a, b = b, a
	}
	switch {
	case a.SK < b.SK:
		return -1
	case a.SK > b.SK:
		return 1
	}
	return 0
}

// requireSame takes an empty body for the same as none.
func requireSame(t fataler, want, got table.Item) {
	t.Helper()
	require.Equal(t, string(want.Body), string(got.Body))
	want.Body, got.Body = nil, nil
	require.Equal(t, want, got)
}
