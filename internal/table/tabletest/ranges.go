package tabletest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
)

var ranges = []test{
	{"bounds, prefixes, directions and limits select alike", boundsSelect},
	{"partitions whose names begin alike stay apart", func(t *testing.T, s store) {
		for _, pk := range []string{"p", "p#", "p!", "pp", "p\x01", "o\U0010FFFF", "q"} {
			s.put(t, key(pk, "a"), pk, table.IfAbsent())
			s.put(t, key(pk, "z"), pk, table.IfAbsent())
		}
		for _, r := range []table.Range{{PK: "p"}, {PK: "p", Reverse: true}, table.Prefix("p", "")} {
			got := s.query(t, r)
			require.Len(t, got, 2)
			require.Equal(t, "p", string(got[0].Body))
		}
		require.Empty(t, s.query(t, table.Range{PK: "absent"}))
		require.Empty(t, s.query(t, table.Range{PK: "absent", Reverse: true}))
	}},
	{"sort keys sort by their bytes", func(t *testing.T, s store) {
		sks := []string{"!", "0", "A", "a", "a\x01", "ab", "b", "é", "\uD7FF", "\uE000", "\uFFFD", "\U00010000", "\U0010FFFF"}
		for _, i := range []int{5, 0, 12, 3, 8, 1, 10, 7, 2, 11, 9, 4, 6} {
			s.put(t, key("p", sks[i]), "", table.IfAbsent())
		}
		require.Equal(t, sks, s.sks(t, table.Range{PK: "p"}))
	}},
	{"a range of more than a megabyte comes whole, in both directions", func(t *testing.T, s store) {
		var want []string
		for i := range 16 {
			sk := fmt.Sprintf("L#%012d", i)
			s.put(t, key("p", sk), strings.Repeat("x", 100<<10), table.IfAbsent())
			want = append(want, sk)
		}
		require.Equal(t, want, s.sks(t, table.Range{PK: "p"}))
		require.Equal(t, want[3:14], s.sks(t, table.Range{PK: "p", From: want[3], To: want[14]}))
		require.Equal(t, want[:13], s.sks(t, table.Range{PK: "p", Limit: 13}))
		slices.Reverse(want)
		require.Equal(t, want, s.sks(t, table.Range{PK: "p", Reverse: true}))
		require.Equal(t, want[:13], s.sks(t, table.Range{PK: "p", Reverse: true, Limit: 13}))
	}},
	{"a range of many small items comes whole", func(t *testing.T, s store) {
		want := numbered(700)
		s.fill(t, "p", want...)
		require.Equal(t, want, s.sks(t, table.Range{PK: "p"}))
		require.Equal(t, want[100:600], s.sks(t, table.Range{PK: "p", From: "k0100", Limit: 500}))
	}},
	{"a query may be left early, and run again", func(t *testing.T, s store) {
		want := numbered(50)
		s.fill(t, "p", want...)
		q := s.Query(t.Context(), table.Range{PK: "p"})
		for range 2 {
			var got []string
			for it, err := range q {
				require.NoError(t, err)
				if got = append(got, it.SK); len(got) == 20 {
					break
				}
			}
			require.Equal(t, want[:20], got)
		}
	}},
	{"the caller may write and read while a query runs", func(t *testing.T, s store) {
		want := numbered(100)
		s.fill(t, "p", want...)
		for it, err := range s.Query(t.Context(), table.Range{PK: "p"}) {
			require.NoError(t, err)
			s.delete(t, it.Key, table.Condition{})
			s.put(t, key("other", it.SK), "moved", table.IfAbsent())
		}
		require.Empty(t, s.query(t, table.Range{PK: "p"}))
		require.Equal(t, want, s.sks(t, table.Range{PK: "other"}))
	}},
	{"a write that was acknowledged before a query shows in it", func(t *testing.T, s store) {
		for _, sk := range numbered(50) {
			s.put(t, key("p", sk), "", table.IfAbsent())
			require.Equal(t, []string{sk}, s.sks(t, table.Range{PK: "p", Reverse: true, Limit: 1}))
		}
	}},
}

// boundsSelect asks for every combination of bounds, direction and limit over
// keys that lie on, between and beside them, and selects the same by hand.
func boundsSelect(t *testing.T, s store) {
	sks := []string{"A", "L", "L#", "L#1", "L#10", "L#2", "L#\U0010FFFF", "L#\U0010FFFFx", "L$", "M", "é", "ê"}
	s.fill(t, "p", sks...)
	slices.Sort(sks)
	bounds := []string{"", "L#", "L#1", "L#15", "L#\U0010FFFF", "é", "z\U0010FFFF"}
	tos := append(slices.Clone(bounds), "L#\xff", "L#\U0010FFFF\xff", "\U0010FFFF\xff", "\xff", "é\xff")
	for _, from := range bounds {
		for _, to := range tos {
			inside := []string{}
			for _, sk := range sks {
				if sk >= from && (to == "" || sk < to) {
					inside = append(inside, sk)
				}
			}
			for _, reverse := range []bool{false, true} {
				if reverse {
					slices.Reverse(inside)
				}
				for _, limit := range []int{0, 1, 5} {
					r := table.Range{PK: "p", From: from, To: to, Reverse: reverse, Limit: limit}
					want := inside
					if limit > 0 {
						want = inside[:min(limit, len(inside))]
					}
					require.Equal(t, want, s.sks(t, r), "%+q", r)
				}
			}
		}
	}
	for _, prefix := range append(bounds, "L#\U0010FFFFx", "none", "\U0010FFFF") {
		want := []string{}
		for _, sk := range sks {
			if strings.HasPrefix(sk, prefix) {
				want = append(want, sk)
			}
		}
		require.Equal(t, want, s.sks(t, table.Prefix("p", prefix)), "prefix %q", prefix)
	}
}
