package claude

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Spec: ListSessions
func TestHeadAndTailOfFilesOfAnySize(t *testing.T) {
	t.Parallel()
	var buffer headBuffer // one for all: what an earlier file left must not show
	for _, size := range []int{3 * headBytes, 0, 1, headBytes - 1, headBytes, headBytes + 1, 2*headBytes - 1, 2 * headBytes, 2*headBytes + 1} {
		t.Run(fmt.Sprint(size, " bytes"), func(t *testing.T) {
			data := make([]byte, size)
			for i := range data {
				data[i] = byte(rand.Int())
			}
			path := filepath.Join(t.TempDir(), "f")
			require.NoError(t, os.WriteFile(path, data, 0o600))
			info, err := os.Stat(path)
			require.NoError(t, err)
			h, err := buffer.readHead(path)
			require.NoError(t, err)
			require.Equal(t, string(data[:min(size, headBytes)]), string(h.head))
			require.Equal(t, string(data[max(size-headBytes, 0):]), string(h.tail))
			require.EqualValues(t, size, h.size)
			require.Equal(t, info.ModTime().UnixMilli(), h.mtime)
		})
	}
}

func TestFailedReadsOfAHeadNameTheFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	_, err := new(headBuffer).readHead(missing)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, missing)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "x"), []byte("x"), 0o600))
	_, err = new(headBuffer).readHead(dir)
	require.ErrorContains(t, err, dir, "a folder has no text to read")
}

func TestSideChainIsToldByItsFirstLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		`{"isSidechain":true}`:                           true,
		`{"isSidechain": true}`:                          true,
		`{"isSidechain":false,"x":{"isSidechain":true}}`: true,
		`{"isSidechain":false}`:                          false,
		`{}`:                                             false,
		``:                                               false,
		"{}\n" + `{"isSidechain":true}`:                  false,
	} {
		require.Equal(t, want, sessionHead{head: []byte(line)}.isSidechain(), line)
	}
}

func TestSplitLosesNothingButEmptyLines(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.SliceOf(rapid.SampledFrom([]byte("ab\n"))).Draw(t, "part")
		var want []string
		line := ""
		for _, c := range append(part[:len(part):len(part)], '\n') {
			if c != '\n' {
				line += string(c)
			} else if line != "" {
				want, line = append(want, line), ""
			}
		}
		var got []string
		for _, l := range new(headBuffer).split(part) {
			got = append(got, string(l))
		}
		require.Equal(t, want, got)
	})
}
