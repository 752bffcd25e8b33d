package tabletest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
)

var conditions = []test{
	{"a plain put writes over what is there", func(t *testing.T, s store) {
		k := key("p", "a")
		v1 := s.put(t, k, "one", table.Condition{})
		s.has(t, k, "one", v1)
		v2 := s.put(t, k, "two", table.Condition{})
		require.NotEqual(t, v1, v2)
		s.has(t, k, "two", v2)
	}},
	{"absent holds once", func(t *testing.T, s store) {
		k := key("p", "a")
		v := s.put(t, k, "one", table.IfAbsent())
		s.refuses(t, k, "two", table.IfAbsent())
		s.refuses(t, k, "one", table.IfAbsent())
		s.has(t, k, "one", v)
	}},
	{"absent holds again after a delete", func(t *testing.T, s store) {
		k := key("p", "a")
		s.put(t, k, "one", table.IfAbsent())
		s.delete(t, k, table.Condition{})
		s.hasNot(t, k)
		v := s.put(t, k, "two", table.IfAbsent())
		s.has(t, k, "two", v)
	}},
	{"a version holds until the next write of any kind", func(t *testing.T, s store) {
		k := key("p", "a")
		v1 := s.put(t, k, "one", table.IfAbsent())
		v2 := s.put(t, k, "two", table.IfVersion(v1))
		s.refuses(t, k, "lost", table.IfVersion(v1))
		v3 := s.put(t, k, "three", table.IfVersion(v2))
		v4 := s.put(t, k, "four", table.Condition{})
		s.refuses(t, k, "lost", table.IfVersion(v3))
		s.has(t, k, "four", v4)
	}},
	{"a version never holds for an item that is not there", func(t *testing.T, s store) {
		s.refuses(t, key("p", "a"), "lost", table.IfVersion(1))
		s.hasNot(t, key("p", "a"))
	}},
	{"an item deleted and written again does not get an old version back", func(t *testing.T, s store) {
		k := key("p", "a")
		seen := map[int64]bool{}
		for range 5 {
			v := s.put(t, k, "same", table.IfAbsent())
			require.False(t, seen[v], "version %d came back", v)
			seen[v] = true
			s.delete(t, k, table.IfVersion(v))
		}
		v := s.put(t, k, "same", table.IfAbsent())
		for old := range seen {
			s.refuses(t, k, "lost", table.IfVersion(old))
		}
		s.has(t, k, "same", v)
	}},
	{"a put of the same body is a write too", func(t *testing.T, s store) {
		k := key("p", "a")
		v1 := s.put(t, k, "same", table.IfAbsent())
		v2 := s.put(t, k, "same", table.IfVersion(v1))
		require.NotEqual(t, v1, v2)
		s.refuses(t, k, "same", table.IfVersion(v1))
	}},
	{"a delete obeys its condition", func(t *testing.T, s store) {
		k := key("p", "a")
		v := s.put(t, k, "one", table.IfAbsent())
		_, err := s.Put(t.Context(), table.Op{Key: k, Delete: true, If: table.IfVersion(v + 1)})
		require.ErrorIs(t, err, table.ErrCondition)
		_, err = s.Put(t.Context(), table.Op{Key: k, Delete: true, If: table.IfAbsent()})
		require.ErrorIs(t, err, table.ErrCondition)
		s.has(t, k, "one", v)
		s.delete(t, k, table.IfVersion(v))
		s.hasNot(t, k)
		_, err = s.Put(t.Context(), table.Op{Key: k, Delete: true, If: table.IfVersion(v)})
		require.ErrorIs(t, err, table.ErrCondition)
	}},
	{"a plain delete of nothing is fine", func(t *testing.T, s store) {
		s.delete(t, key("p", "a"), table.Condition{})
		s.delete(t, key("p", "a"), table.IfAbsent())
		s.hasNot(t, key("p", "a"))
	}},
}
