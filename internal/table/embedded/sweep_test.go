package embedded

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/table"
)

// count returns how many items, and how many entries of the expiry tree there are.
func (t *Table) count(tb require.TestingT) (items, entries int) {
	require.NoError(tb, t.db.View(func(tx *bolt.Tx) error {
		for range each(tx.Bucket([]byte(itemsBucket))) {
			items++
		}
		for range each(tx.Bucket([]byte(expiryBucket))) {
			entries++
		}
		return nil
	}))
	return items, entries
}

func each(b *bolt.Bucket) func(func(k, v []byte) bool) {
	return func(yield func(k, v []byte) bool) {
		c := b.Cursor()
		for k, v := c.First(); k != nil && yield(k, v); k, v = c.Next() {
		}
	}
}

func TestExpiredItemsAreSweptWhileTheTableIsOpen(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(1000)
	tbl := openTemp(t, &Options{
		SweepEvery: time.Millisecond,
		Now:        func() time.Time { return time.Unix(now.Load(), 0) },
	})
	for i := range 3 * sweepItems {
		_, err := tbl.Put(t.Context(), table.Op{Key: key(fmt.Sprintf("soon-%d", i)), Expires: time.Unix(2000, 0)})
		require.NoError(t, err)
	}
	for sk, expires := range map[string]time.Time{"later": time.Unix(3000, 0), "never": {}} {
		_, err := tbl.Put(t.Context(), table.Op{Key: key(sk), Expires: expires})
		require.NoError(t, err)
	}
	now.Store(2000)
	require.Never(t, func() bool { n, _ := tbl.count(t); return n < 3*sweepItems+2 }, 50*time.Millisecond, 10*time.Millisecond,
		"an item lives through the second it expires in")
	now.Store(2001)
	require.Eventually(t, func() bool { n, _ := tbl.count(t); return n == 2 }, 10*time.Second, 5*time.Millisecond)
	got, err := tbl.Get(t.Context(), key("later"), key("never"))
	require.NoError(t, err)
	require.True(t, got[0].Exists() && got[1].Exists())
	now.Store(5000)
	require.Eventually(t, func() bool { n, _ := tbl.count(t); return n == 1 }, 10*time.Second, 5*time.Millisecond)
}

func TestTheExpiryTreeListsExactlyTheItemsThatExpire(t *testing.T) {
	t.Parallel()
	tbl := openTemp(t, &Options{Now: func() time.Time { return time.Unix(1005, 0) }})
	rapid.Check(t, func(rt *rapid.T) {
		want := map[string]int64{} // sort key → expiry, 0 = never
		var outs []<-chan outcome
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			op := table.Op{Key: key(rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(rt, "sk"))}
			op.Delete = rapid.IntRange(0, 4).Draw(rt, "delete") == 0
			if s := rapid.Int64Range(999, 1010).Draw(rt, "expires"); s > 999 && !op.Delete {
				op.Expires = time.Unix(s, 0)
			}
			outs = append(outs, enqueue(rt, tbl, op))
			want[op.SK] = table.ExpirySeconds(op.Expires)
			if op.Delete {
				delete(want, op.SK)
			}
		}
		for _, out := range outs {
			require.NoError(rt, (<-out).err)
		}
		requireCount(rt, tbl, want)
		tbl.sweep()
		for sk, s := range want {
			if s != 0 && s < 1005 {
				delete(want, sk)
			}
		}
		requireCount(rt, tbl, want)
		for sk := range want {
			require.NoError(rt, (<-enqueue(rt, tbl, table.Op{Key: key(sk), Delete: true})).err)
		}
		requireCount(rt, tbl, nil)
	})
}

func requireCount(t require.TestingT, tbl *Table, want map[string]int64) {
	expiring := 0
	for _, s := range want {
		if s != 0 {
			expiring++
		}
	}
	items, entries := tbl.count(t)
	require.Equal(t, len(want), items)
	require.Equal(t, expiring, entries)
}

func TestASweepSparesWhatWasRenewedMeanwhile(t *testing.T) {
	t.Parallel()
	tbl := openTemp(t, &Options{Now: func() time.Time { return time.Unix(5000, 0) }})
	_, err := tbl.Put(t.Context(), table.Op{Key: key("lease"), Expires: time.Unix(1000, 0)})
	require.NoError(t, err)
	release := hold(t, tbl)
	renewed := enqueue(t, tbl, table.Op{Key: key("lease"), Expires: time.Unix(9000, 0)})
	swept := make(chan int, 1)
	go func() { swept <- tbl.sweep() }() // sees the item as it was before
	require.Eventually(t, func() bool { return tbl.queued() == 2 }, 5*time.Second, time.Millisecond)
	release()
	require.NoError(t, (<-renewed).err)
	require.Equal(t, 1, <-swept)
	got, err := tbl.Get(t.Context(), key("lease"))
	require.NoError(t, err)
	require.True(t, got[0].Exists())
}
