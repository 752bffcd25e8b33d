package tabletest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
)

var atomicWrites = []test{
	{"all operations of a write apply", func(t *testing.T, s store) {
		v := s.put(t, key("p", "old"), "old", table.IfAbsent())
		gone := s.put(t, key("p", "gone"), "gone", table.IfAbsent())
		s.put(t, key("p", "plain"), "before", table.IfAbsent())
		require.NoError(t, s.Write(t.Context(),
			table.Op{Key: key("p", "new"), Body: []byte("N"), If: table.IfAbsent(), Expires: time.Now().Add(time.Hour)},
			table.Op{Key: key("p", "old"), Body: []byte("O"), If: table.IfVersion(v)},
			table.Op{Key: key("q", "gone"), Delete: true},
			table.Op{Key: key("p", "gone"), Delete: true, If: table.IfVersion(gone)},
			table.Op{Key: key("p", "plain"), Body: []byte("after")},
			table.Op{Key: key("p", "guard"), Delete: true, If: table.IfAbsent()},
		))
		require.Equal(t, []string{"new", "old", "plain"}, s.sks(t, table.Range{PK: "p"}))
		require.Equal(t, "O", string(s.get(t, key("p", "old")).Body))
		require.NotEqual(t, v, s.get(t, key("p", "old")).Version)
		require.NotZero(t, s.get(t, key("p", "new")).Expires)
		require.Equal(t, "after", string(s.get(t, key("p", "plain")).Body))
	}},
	{"one failed condition leaves everything as it was", func(t *testing.T, s store) {
		v := s.put(t, key("p", "a"), "A", table.IfAbsent())
		for _, failing := range []table.Op{
			{Key: key("p", "a"), Body: []byte("x"), If: table.IfAbsent()},
			{Key: key("p", "a"), Body: []byte("x"), If: table.IfVersion(v + 1)},
			{Key: key("p", "a"), Delete: true, If: table.IfVersion(v + 1)},
			{Key: key("p", "a"), Delete: true, If: table.IfAbsent()},
			{Key: key("p", "none"), Body: []byte("x"), If: table.IfVersion(v)},
		} {
			before := table.Op{Key: key("p", "before"), Body: []byte("x"), If: table.IfAbsent()}
			after := table.Op{Key: key("p", "after"), Body: []byte("x")}
			require.ErrorIs(t, s.Write(t.Context(), before, failing, after), table.ErrCondition, "%+v", failing)
			require.ErrorIs(t, s.Write(t.Context(), failing), table.ErrCondition, "%+v", failing)
			require.Equal(t, []string{"a"}, s.sks(t, table.Range{PK: "p"}))
			s.has(t, key("p", "a"), "A", v)
		}
	}},
	{"a hundred operations are one write", func(t *testing.T, s store) {
		var ops []table.Op
		for i := range table.MaxWrite {
			ops = append(ops, table.Op{Key: key("p", fmt.Sprintf("%03d", i)), Body: []byte("x"), If: table.IfAbsent()})
		}
		require.NoError(t, s.Write(t.Context(), ops...))
		require.Len(t, s.query(t, table.Range{PK: "p"}), table.MaxWrite)
		require.ErrorIs(t, s.Write(t.Context(), ops...), table.ErrCondition)
	}},
	{"no operation is no write", func(t *testing.T, s store) {
		require.NoError(t, s.Write(t.Context()))
	}},
	{"writes that race for one guard happen once", func(t *testing.T, s store) {
		const racers = 8
		var wg sync.WaitGroup
		won := make([]bool, racers)
		for i := range racers {
			wg.Go(func() {
				err := s.Write(t.Context(),
					table.Op{Key: key("p", "guard"), If: table.IfAbsent()},
					table.Op{Key: key("p", fmt.Sprintf("by-%d", i)), Body: []byte("x")})
				won[i] = err == nil
				if err != nil {
					assert.ErrorIs(t, err, table.ErrCondition)
				}
			})
		}
		wg.Wait()
		want := []string{}
		for i, ok := range won {
			if ok {
				want = append(want, fmt.Sprintf("by-%d", i))
			}
		}
		require.Len(t, want, 1)
		require.Equal(t, append(want, "guard"), s.sks(t, table.Range{PK: "p"}))
	}},
}

var limits = []test{
	{"a body of 350 KB is stored, one byte more is not", func(t *testing.T, s store) {
		s.put(t, key("p", "most"), strings.Repeat("x", table.MaxItem), table.IfAbsent())
		require.Len(t, s.get(t, key("p", "most")).Body, table.MaxItem)
		tooLarge := table.Op{Key: key("p", "over"), Body: make([]byte, table.MaxItem+1)}
		_, err := s.Put(t.Context(), tooLarge)
		require.ErrorIs(t, err, table.ErrTooLarge)
		require.ErrorIs(t, s.Write(t.Context(), table.Op{Key: key("p", "fine")}, tooLarge), table.ErrTooLarge)
		require.Equal(t, []string{"most"}, s.sks(t, table.Range{PK: "p"}))
	}},
	{"keys of the greatest length are stored", func(t *testing.T, s store) {
		k := key(strings.Repeat("p", table.MaxPK), strings.Repeat("s", table.MaxSK))
		v := s.put(t, k, "long", table.IfAbsent())
		s.has(t, k, "long", v)
	}},
	{"keys that one driver could not hold are refused by all", func(t *testing.T, s store) {
		for _, k := range []table.Key{
			key("", "a"), key("p", ""), key("p\x00", "a"), key("p", "a\x00"), key("p\xff", "a"), key("p", "a\xc3"),
			key(strings.Repeat("p", table.MaxPK+1), "a"), key("p", strings.Repeat("s", table.MaxSK+1)),
		} {
			_, err := s.Put(t.Context(), table.Op{Key: k})
			require.Error(t, err, "%q", k)
			require.Error(t, s.Write(t.Context(), table.Op{Key: key("p", "fine")}, table.Op{Key: k}), "%q", k)
			_, err = s.Get(t.Context(), key("p", "fine"), k)
			require.Error(t, err, "%q", k)
		}
		require.Empty(t, s.query(t, table.Range{PK: "p"}))
	}},
	{"ranges that one driver could not read are refused by all", func(t *testing.T, s store) {
		for _, r := range []table.Range{{}, {PK: "p", Limit: -1}, {PK: "p", From: "\xff"}, {PK: "p", To: "a\xffb"}, {PK: "p\x00"}} {
			n := 0
			for _, err := range s.Query(t.Context(), r) {
				require.Error(t, err, "%+q", r)
				n++
			}
			require.Equal(t, 1, n, "%+q", r)
		}
	}},
	{"a write of too much is refused", func(t *testing.T, s store) {
		var many, large []table.Op
		for i := range table.MaxWrite + 1 {
			many = append(many, table.Op{Key: key("p", fmt.Sprint(i))})
		}
		for i := range 13 {
			large = append(large, table.Op{Key: key("p", fmt.Sprint(i)), Body: make([]byte, table.MaxItem)})
		}
		require.ErrorContains(t, s.Write(t.Context(), many...), "at most 100")
		require.ErrorContains(t, s.Write(t.Context(), large...), "at most 4194304")
		require.ErrorContains(t, s.Write(t.Context(), many[0], many[0]), "two operations")
		require.ErrorContains(t, s.Write(t.Context(), table.Op{Key: key("p", "a"), Expires: time.Unix(-1, 0)}), "before 1970")
		require.Empty(t, s.query(t, table.Range{PK: "p"}))
	}},
}
