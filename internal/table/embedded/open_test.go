package embedded_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/embedded"
)

func TestOpenCreatesAFileForItsUserOnly(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	tbl, err := embedded.Open(filepath.Join(dir, "lambae.db"), nil)
	require.NoError(t, err)
	require.True(t, tbl.Exclusive())
	require.NoError(t, tbl.Close())
	if runtime.GOOS == "windows" {
		return
	}
	file, err := os.Stat(filepath.Join(dir, "lambae.db"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), file.Mode())
	folder, err := os.Stat(dir)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), folder.Mode().Perm())
}

func TestAFileThatIsOpenElsewhereIsRefusedSoon(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lambae.db")
	tbl, err := embedded.Open(path, nil)
	require.NoError(t, err)
	start := time.Now()
	_, err = embedded.Open(path, nil)
	require.ErrorContains(t, err, path+" is in use by another process: stop that one")
	require.Less(t, time.Since(start), 5*time.Second)
	require.NoError(t, tbl.Close())
	tbl, err = embedded.Open(path, nil)
	require.NoError(t, err)
	require.NoError(t, tbl.Close())
}

func TestOpenRefusesWhatIsNoStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	garbage := filepath.Join(dir, "garbage")
	require.NoError(t, os.WriteFile(garbage, []byte(strings.Repeat("no store ", 10_000)), 0o600))
	_, err := embedded.Open(garbage, nil)
	require.ErrorContains(t, err, garbage+" is not a store, or is damaged")

	other := filepath.Join(dir, "other")
	db, err := bolt.Open(other, 0o600, nil)
	require.NoError(t, err)
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket([]byte("items.9"))
		return err
	}))
	require.NoError(t, db.Close())
	_, err = embedded.Open(other, nil)
	require.ErrorContains(t, err, `another format (it holds "items.9")`)

	_, err = embedded.Open(dir, nil)
	require.ErrorContains(t, err, dir)
	_, err = embedded.Open(filepath.Join(garbage, "below", "a-file"), nil)
	require.ErrorContains(t, err, "create the folder")
}

func TestAFileThatWasCutOffIsRefused(t *testing.T) {
	t.Parallel()
	for _, clean := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "lambae.db")
		tbl, err := embedded.Open(path, nil)
		require.NoError(t, err)
		for i := range 50 {
			_, err := tbl.Put(t.Context(), table.Op{Key: table.Key{PK: "p", SK: fmt.Sprint(i)}, Body: make([]byte, 3000)})
			require.NoError(t, err)
		}
		if clean {
			require.NoError(t, tbl.Close())
		}
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		cut := filepath.Join(t.TempDir(), "cut.db")
		require.NoError(t, os.WriteFile(cut, whole[:len(whole)-1], 0o600))
		_, err = embedded.Open(cut, nil)
		require.ErrorContains(t, err, fmt.Sprintf("it was cut off, it has %d of its %d bytes", len(whole)-1, len(whole)))
		require.NoError(t, tbl.Close())
	}
}

func TestAFileWithDamagedPagesIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lambae.db")
	tbl, err := embedded.Open(path, nil)
	require.NoError(t, err)
	for i := range 50 {
		_, err := tbl.Put(t.Context(), table.Op{Key: table.Key{PK: "partition", SK: fmt.Sprintf("%03d", i)}, Body: make([]byte, 1000)})
		require.NoError(t, err)
	}
	whole, err := os.ReadFile(path) // as a crash would leave it
	require.NoError(t, err)
	require.NoError(t, tbl.Close())
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	require.NoError(t, os.WriteFile(damaged, bytes.Replace(whole, []byte("partition\x00"), []byte("zartition\x00"), 5), 0o600))
	_, err = embedded.Open(damaged, nil)
	require.ErrorContains(t, err, damaged+" is not a store, or is damaged: restore it from a backup")
}

func TestWhatWasWrittenIsThereAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lambae.db")
	seen := map[int64]bool{}
	k := table.Key{PK: "p", SK: "a"}
	for i := range 3 {
		tbl, err := embedded.Open(path, nil)
		require.NoError(t, err)
		got, err := tbl.Get(t.Context(), k)
		require.NoError(t, err)
		if i > 0 {
			require.Equal(t, fmt.Sprint(i-1), string(got[0].Body))
			require.True(t, seen[got[0].Version])
		}
		v, err := tbl.Put(t.Context(), table.Op{Key: k, Body: []byte(fmt.Sprint(i))})
		require.NoError(t, err)
		require.False(t, seen[v], "version %d again", v)
		seen[v] = true
		require.NoError(t, tbl.Close())
	}
}

const crashVariable = "LAMBAE_TEST_EMBEDDED_CRASH"

// The child appends and says which chunks were acknowledged, until it is killed.
func TestAKilledProcessLosesNothingThatWasAcknowledged(t *testing.T) {
	t.Parallel()
	chunk := func(n int) table.Key { return table.Key{PK: "S#log", SK: fmt.Sprintf("L#%012d", n)} }
	if path := os.Getenv(crashVariable); path != "" {
		tbl, err := embedded.Open(path, nil)
		require.NoError(t, err)
		for n := 0; ; n++ {
			_, err := tbl.Put(t.Context(), table.Op{Key: chunk(n), Body: make([]byte, 3000), If: table.IfAbsent()})
			require.NoError(t, err)
			fmt.Println("chunk", n)
		}
	}
	path := filepath.Join(t.TempDir(), "lambae.db")
	child := exec.Command(os.Args[0], "-test.run=^TestAKilledProcessLosesNothingThatWasAcknowledged$")
	child.Env = append(os.Environ(), crashVariable+"="+path)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	last := -1
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if _, err := fmt.Sscanf(lines.Text(), "chunk %d", &last); err == nil && last == 200 {
			require.NoError(t, child.Process.Kill())
		}
	}
	_ = child.Wait()
	require.GreaterOrEqual(t, last, 200)

	tbl, err := embedded.Open(path, nil)
	require.NoError(t, err)
	n := 0
	for it, err := range tbl.Query(t.Context(), table.Range{PK: "S#log"}) {
		require.NoError(t, err)
		require.Equal(t, chunk(n), it.Key)
		n++
	}
	require.Greater(t, n, last)
	require.NoError(t, tbl.Close())
}
