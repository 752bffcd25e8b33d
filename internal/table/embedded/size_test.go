package embedded

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/table"
)

// appendLogs appends chunks of about size bytes to logs of their own, at random
// among those that are open, and returns how many it appended.
func appendLogs(t testing.TB, tbl *Table, logs, each, size int) int {
	const open = 8
	var wg sync.WaitGroup
	for w := range open {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(w), 1))
			for l := w; l < logs; l += open {
				pk := fmt.Sprintf("S#ses_%016x", rng.Uint64())
				for n := range each {
					body := bytes.Repeat([]byte{byte(n)}, size/2+rng.IntN(size))
					_, err := tbl.Put(t.Context(), table.Op{Key: table.Key{PK: pk, SK: fmt.Sprintf("L#%012d", n)}, Body: body, If: table.IfAbsent()})
					if err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	return logs * each
}

func TestTheFileGrowsLittleMoreThanWhatIsPut(t *testing.T) {
	t.Parallel()
	for _, each := range []int{2, 6, 40} {
		path := filepath.Join(t.TempDir(), "lambae.db")
		tbl, err := Open(path, nil)
		require.NoError(t, err)
		puts := appendLogs(t, tbl, 960/each, each, 1000)
		require.NoError(t, tbl.Close())
		file, err := os.Stat(path)
		require.NoError(t, err)
		perPut := int(file.Size()) / puts
		t.Logf("%d chunks of 1 KB a log: the file grows by %d bytes a put", each, perPut)
		require.Less(t, perPut, 2000, "bytes of file for a put of 1 KB, %d puts a log", each)
	}
}

func TestAPageOfAQueryIsBounded(t *testing.T) {
	t.Parallel()
	tbl := openTemp(t, nil)
	for i := range 40 {
		_, err := tbl.Put(t.Context(), table.Op{Key: key(fmt.Sprintf("%03d", i)), Body: make([]byte, 100<<10)})
		require.NoError(t, err)
	}
	page, more, err := tbl.page(t.Context(), table.Range{PK: "p"}, maxPageItems)
	require.NoError(t, err)
	require.True(t, more)
	require.Len(t, page, 11, "the one that passes 1 MB is the last")
	page, more, err = tbl.page(t.Context(), table.Range{PK: "p", From: "037"}, 3)
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, page, 3)
}

func body1K() []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	raw := make([]byte, 512)
	for i := range raw {
		raw[i] = byte(rng.Uint32())
	}
	return []byte(hex.EncodeToString(raw))
}

func BenchmarkPut(b *testing.B) {
	tbl := openTemp(b, nil)
	body := body1K()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		op := table.Op{Key: table.Key{PK: fmt.Sprintf("S#%03d", n%100), SK: fmt.Sprintf("L#%012d", n)}, Body: body, If: table.IfAbsent()}
		if _, err := tbl.Put(b.Context(), op); err != nil {
			b.Fatal(err)
		}
		n++
	}
	reportGrowth(b, tbl, n)
}

func BenchmarkPutParallel(b *testing.B) {
	const writers = 32
	tbl := openTemp(b, nil)
	body := body1K()
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := w; n < b.N; n += writers {
				op := table.Op{Key: table.Key{PK: fmt.Sprintf("S#%03d", w), SK: fmt.Sprintf("L#%012d", n)}, Body: body, If: table.IfAbsent()}
				if _, err := tbl.Put(b.Context(), op); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	reportGrowth(b, tbl, b.N)
}

func reportGrowth(b *testing.B, tbl *Table, puts int) {
	file, err := os.Stat(tbl.db.Path())
	require.NoError(b, err)
	b.ReportMetric(float64(file.Size())/float64(puts), "file-B/put")
}

// BenchmarkQueryTail reads the last two chunks of a log, as a turn does.
func BenchmarkQueryTail(b *testing.B) {
	tbl := openTemp(b, nil)
	appendLogs(b, tbl, 64, 40, 1000)
	for n := range 100 {
		_, err := tbl.Put(b.Context(), table.Op{Key: key(fmt.Sprintf("L#%012d", n)), Body: body1K()})
		require.NoError(b, err)
	}
	r := table.Range{PK: "p", From: "L#", To: "L#\xff", Reverse: true, Limit: 2}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for _, err := range tbl.Query(b.Context(), r) {
			if err != nil {
				b.Fatal(err)
			}
			n++
		}
		if n != 2 {
			b.Fatal("not the tail")
		}
	}
}
