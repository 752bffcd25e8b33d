package table_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/table"
)

func TestPackedBodiesComeBackWhole(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := bytes.Repeat(rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "body"), rapid.IntRange(0, 40).Draw(t, "times"))
		out, err := table.Unpack(table.Pack(body))
		require.NoError(t, err)
		require.True(t, bytes.Equal(body, out))
	})
}

func TestPackingNeverCostsMoreThanAByte(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(t, "body")
		require.LessOrEqual(t, len(table.Pack(body)), len(body)+1)
	})
	require.Less(t, len(table.Pack([]byte(strings.Repeat("lambae ", 1000)))), 200)
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 'x'})
	f.Add([]byte{1, 0x28, 0xb5, 0x2f, 0xfd})
	f.Add([]byte{9, 'x'})
	f.Add(table.Pack(bytes.Repeat([]byte("x"), 4096)))
	f.Fuzz(func(_ *testing.T, b []byte) { _, _ = table.Unpack(b) })
}

func BenchmarkPack(b *testing.B) {
	body := []byte(strings.Repeat(`{"t":"client.message.send","k":"key_0123456789abcdef","p":{"role":"user"}}`, 27))
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		table.Pack(body)
	}
}
