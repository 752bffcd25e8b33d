package tabletest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
)

var items = []test{
	{"several keys come back in the order asked for, absent ones too", func(t *testing.T, s store) {
		va := s.put(t, key("p", "a"), "A", table.IfAbsent())
		vb := s.put(t, key("q", "b"), "B", table.IfAbsent())
		got, err := s.Get(t.Context(), key("q", "b"), key("p", "none"), key("p", "a"), key("none", "a"), key("q", "b"))
		require.NoError(t, err)
		require.Equal(t, []table.Item{
			{Key: key("q", "b"), Body: []byte("B"), Version: vb},
			{Key: key("p", "none")},
			{Key: key("p", "a"), Body: []byte("A"), Version: va},
			{Key: key("none", "a")},
			{Key: key("q", "b"), Body: []byte("B"), Version: vb},
		}, got)
	}},
	{"no key gives no item", func(t *testing.T, s store) {
		got, err := s.Get(t.Context())
		require.NoError(t, err)
		require.Empty(t, got)
	}},
	{"more items than one request can carry are read at once", func(t *testing.T, s store) {
		var keys []table.Key
		for i := range 110 {
			k := key(fmt.Sprintf("p%d", i%7), fmt.Sprintf("k%03d", i))
			s.put(t, k, strings.Repeat(string(rune('a'+i%26)), 20<<10), table.IfAbsent())
			keys = append(keys, k)
		}
		got, err := s.Get(t.Context(), keys...)
		require.NoError(t, err)
		require.Len(t, got, len(keys))
		for i, it := range got {
			require.Equal(t, keys[i], it.Key)
			require.Len(t, it.Body, 20<<10)
			require.Equal(t, byte('a'+i%26), it.Body[0])
		}
	}},
	{"a body holds any byte", func(t *testing.T, s store) {
		every := make([]byte, 512)
		for i := range every {
			every[i] = byte(i)
		}
		s.put(t, key("p", "every"), string(every), table.IfAbsent())
		require.Equal(t, every, s.get(t, key("p", "every")).Body)
	}},
	{"a body may be empty", func(t *testing.T, s store) {
		v, err := s.Put(t.Context(), table.Op{Key: key("p", "empty"), If: table.IfAbsent()})
		require.NoError(t, err)
		s.has(t, key("p", "empty"), "", v)
		s.refuses(t, key("p", "empty"), "x", table.IfAbsent())
		require.Equal(t, []string{"empty"}, s.sks(t, table.Range{PK: "p"}))
	}},
	{"the store keeps its own copy of a body", func(t *testing.T, s store) {
		body := []byte("before")
		_, err := s.Put(t.Context(), table.Op{Key: key("p", "a"), Body: body})
		require.NoError(t, err)
		copy(body, "AFTER!")
		got := s.get(t, key("p", "a"))
		require.Equal(t, "before", string(got.Body))
		copy(got.Body, "AFTER!")
		require.Equal(t, "before", string(s.get(t, key("p", "a")).Body))
	}},
	{"keys hold odd characters", func(t *testing.T, s store) {
		odd := []string{
			" ", "#", "/", `"`, `\`, "'", "a b", "a\tb", "a\nb", "\x01", "\x7f", "%00", "{}", "é", "e\u0301", "日本語",
			"\U0001F600", "\uFFFD", "\U0010FFFF", "\uD7FF", "\uE000", strings.Repeat("k", table.MaxSK),
		}
		for _, pk := range odd {
			s.fill(t, pk, odd...)
		}
		for _, pk := range odd {
			got := s.query(t, table.Range{PK: pk})
			require.Len(t, got, len(odd), "partition %q", pk)
			for i, it := range got {
				require.Equal(t, it.SK, string(it.Body))
				if i > 0 {
					require.Less(t, got[i-1].SK, it.SK)
				}
			}
			require.Equal(t, "#", string(s.get(t, key(pk, "#")).Body))
		}
	}},
	{"an expiry comes back in seconds, never earlier than asked for", func(t *testing.T, s store) {
		day := time.Now().Add(24 * time.Hour).Truncate(time.Second)
		for _, tt := range []struct {
			sk            string
			expires, want time.Time
		}{
			{"never", time.Time{}, time.Time{}},
			{"whole", day, day.UTC()},
			{"part", day.Add(time.Millisecond), day.Add(time.Second).UTC()},
		} {
			_, err := s.Put(t.Context(), table.Op{Key: key("p", tt.sk), Expires: tt.expires})
			require.NoError(t, err)
			require.Equal(t, tt.want, s.get(t, key("p", tt.sk)).Expires, tt.sk)
			require.Equal(t, tt.want, s.query(t, table.Prefix("p", tt.sk))[0].Expires, tt.sk)
		}
	}},
	{"an expired item is there whole or not at all, and hurts no other", func(t *testing.T, s store) {
		past := time.Now().Add(-time.Hour)
		k := key("p", "a")
		_, err := s.Put(t.Context(), table.Op{Key: k, Body: []byte("old"), Expires: past})
		require.NoError(t, err)
		stays := s.put(t, key("p", "b"), "stays", table.Condition{})
		if it := s.get(t, k); it.Exists() {
			require.Equal(t, "old", string(it.Body))
			require.Equal(t, table.ExpirySeconds(past), it.Expires.Unix())
		}
		v := s.put(t, k, "new", table.Condition{})
		s.has(t, k, "new", v)
		require.Zero(t, s.get(t, k).Expires)
		s.has(t, key("p", "b"), "stays", stays)
	}},
	{"a call whose context has ended is an error", func(t *testing.T, s store) {
		s.put(t, key("p", "a"), "A", table.IfAbsent())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := s.Get(ctx, key("p", "a"))
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.Put(ctx, table.Op{Key: key("p", "b")})
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, s.Write(ctx, table.Op{Key: key("p", "b")}, table.Op{Key: key("p", "c")}), context.Canceled)
		n := 0
		for _, err := range s.Query(ctx, table.Range{PK: "p"}) {
			require.ErrorIs(t, err, context.Canceled)
			n++
		}
		require.Equal(t, 1, n)
		require.Equal(t, []string{"a"}, s.sks(t, table.Range{PK: "p"}))
	}},
}
