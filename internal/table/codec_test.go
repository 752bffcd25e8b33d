package table_test

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/table"
)

// events is n bytes of JSON like that of a session's log.
func events(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, `{"type":"client.message.send","id":"evt_%012x%s","created_at":"2025-06-01T10:%02d:%02d.123456Z","data":{"text":"Step %d: please look at file_%d.go"}}`,
			i, rand.Text()[:20], i%60, i*7%60, i, i*31)
	}
	return b.Bytes()[:n]
}

func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return b
}

func TestUnpackGivesBackWhatWasPacked(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(t, "unit")
		body := bytes.Repeat(unit, rapid.IntRange(0, 100).Draw(t, "times"))
		packed := table.Pack(body)
		require.LessOrEqual(t, len(packed), len(body)+1)
		got, err := table.Unpack(packed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, got))
	})
}

func TestPackingHelpsOrCostsOneByte(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body []byte
		most int
	}{
		"nothing":          {nil, 1},
		"a small chunk":    {events(300), 301},
		"a chunk":          {events(2000), 1100},
		"a large chunk":    {events(200_000), 60_000},
		"repetition":       {bytes.Repeat([]byte("again "), 10_000), 200},
		"noise":            {noise(5000), 5001},
		"a little noise":   {noise(512), 513},
		"as large as ever": {bytes.Repeat(events(1<<20), 8), 3 << 20},
	} {
		packed := table.Pack(tt.body)
		require.LessOrEqual(t, len(packed), tt.most, name)
		got, err := table.Unpack(packed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(tt.body, got), name)
	}
}

func TestPackLeavesItsInputAlone(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 5000} {
		body := events(n)
		before := string(body)
		packed := table.Pack(body)
		require.Equal(t, before, string(body))
		clear(body)
		got, err := table.Unpack(packed)
		require.NoError(t, err)
		require.Equal(t, before, string(got))
	}
}

func TestUnpackRefusesDamage(t *testing.T) {
	t.Parallel()
	packed := table.Pack(events(2000))
	changed := bytes.Clone(packed)
	changed[len(changed)/2] ^= 0x10
	for name, b := range map[string][]byte{
		"nothing":      {},
		"unknown form": {7, 1, 2, 3},
		"only a form":  packed[:1],
		"cut off":      packed[:len(packed)-3],
		"changed":      changed,
		"no zstd":      append([]byte{1}, strings.Repeat("x", 100)...),
	} {
		_, err := table.Unpack(b)
		require.ErrorIs(t, err, table.ErrPacked, name)
	}
}

func TestUnpackMakesNoMoreThanTheLimit(t *testing.T) {
	t.Parallel()
	e, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	bomb := e.EncodeAll(make([]byte, table.MaxUnpacked+1), []byte{1})
	require.Less(t, len(bomb), 100_000)
	_, err = table.Unpack(bomb)
	require.ErrorIs(t, err, table.ErrPacked)
	most, err := table.Unpack(e.EncodeAll(make([]byte, table.MaxUnpacked), []byte{1}))
	require.NoError(t, err)
	require.Len(t, most, table.MaxUnpacked)
}

func TestManyPackAtOnce(t *testing.T) {
	t.Parallel()
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for n := range 50 {
				body := events(100 * n)
				got, err := table.Unpack(table.Pack(body))
				assert.NoError(t, err)
				assert.Equal(t, string(body), string(got))
			}
		})
	}
	wg.Wait()
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte{1})
	f.Add([]byte{9, 'x'})
	f.Add([]byte{1, 0x28, 0xb5, 0x2f, 0xfd})
	f.Add(table.Pack(events(100)))
	f.Add(table.Pack(events(2000)))
	f.Fuzz(func(t *testing.T, b []byte) {
		body, err := table.Unpack(b)
		if err != nil {
			require.ErrorIs(t, err, table.ErrPacked)
			return
		}
		require.LessOrEqual(t, len(body), table.MaxUnpacked)
		if len(body) > 1<<20 {
			return // what comes of a few bytes; to pack it again only takes time
		}
		again, err := table.Unpack(table.Pack(body))
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, again))
	})
}

func BenchmarkPack(b *testing.B) {
	for _, n := range []int{300, 2000, 20_000, 300_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			body := events(n)
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				table.Pack(body)
			}
			b.ReportMetric(float64(len(table.Pack(body)))/float64(n), "ratio")
		})
	}
}

func BenchmarkUnpack(b *testing.B) {
	for _, n := range []int{300, 2000, 20_000, 300_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			packed := table.Pack(events(n))
			b.SetBytes(int64(n))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := table.Unpack(packed); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
