package embedded

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/lambae/lambae/internal/table"
)

func openTemp(t testing.TB, opts *Options) *Table {
	t.Helper()
	tbl, err := Open(filepath.Join(t.TempDir(), "lambae.db"), opts)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tbl.Close() })
	return tbl
}

// commits is how many transactions the file has seen.
func (t *Table) commits(tb testing.TB) (n int) {
	require.NoError(tb, t.db.View(func(tx *bolt.Tx) error {
		n = tx.ID()
		return nil
	}))
	return n
}

func (t *Table) queued() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.queue)
}

// hold keeps the committer waiting for the file, with one put under way, until
// release is called.
func hold(t *testing.T, tbl *Table) (release func()) {
	t.Helper()
	tx, err := tbl.db.Begin(true)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback() })
	held := enqueue(t, tbl, table.Op{Key: key("held")})
	require.Eventually(t, func() bool { return tbl.queued() == 0 }, 5*time.Second, time.Millisecond)
	return func() {
		require.NoError(t, tx.Rollback())
		require.NoError(t, (<-held).err)
	}
}

// enqueue is a Put that does not wait.
func enqueue(t require.TestingT, tbl *Table, op table.Op) <-chan outcome {
	r := newRequest(op)
	require.NoError(t, tbl.enqueue(r))
	return r.done
}

func key(sk string) table.Key { return table.Key{PK: "p", SK: sk} }

func TestWhatIsQueuedIsOneCommit(t *testing.T) {
	t.Parallel()
	tbl := openTemp(t, nil)
	before := tbl.commits(t)
	release := hold(t, tbl)
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			_, err := tbl.Put(t.Context(), table.Op{Key: key(fmt.Sprint(i)), If: table.IfAbsent()})
			assert.NoError(t, err)
		})
	}
	require.Eventually(t, func() bool { return tbl.queued() == 100 }, 5*time.Second, time.Millisecond)
	release()
	wg.Wait()
	require.Equal(t, before+2, tbl.commits(t), "one commit for the put that was held, one for all others")
}

func TestAFailedConditionIsItsOwnOutcomeOnly(t *testing.T) {
	t.Parallel()
	tbl := openTemp(t, nil)
	release := hold(t, tbl)
	var outs []<-chan outcome
	for _, op := range []table.Op{
		{Key: key("a"), Body: []byte("first"), If: table.IfAbsent()},
		{Key: key("a"), Body: []byte("second"), If: table.IfAbsent()},
		{Key: key("b"), Body: []byte("other")},
		{Key: key("b"), If: table.IfVersion(1 << 40)},
		{Key: key("a"), Delete: true},
		{Key: key("a"), Body: []byte("third"), If: table.IfAbsent()},
	} {
		outs = append(outs, enqueue(t, tbl, op))
	}
	release()
	for i, failed := range []bool{false, true, false, true, false, false} {
		out := <-outs[i]
		if failed {
			require.ErrorIs(t, out.err, table.ErrCondition)
		} else {
			require.NoError(t, out.err)
		}
	}
	got, err := tbl.Get(t.Context(), key("a"), key("b"))
	require.NoError(t, err)
	require.Equal(t, "third", string(got[0].Body))
	require.Equal(t, "other", string(got[1].Body))
}

func TestARefusalAloneCostsNoCommit(t *testing.T) {
	t.Parallel()
	tbl := openTemp(t, nil)
	_, err := tbl.Put(t.Context(), table.Op{Key: key("a")})
	require.NoError(t, err)
	before := tbl.commits(t)
	_, err = tbl.Put(t.Context(), table.Op{Key: key("a"), If: table.IfAbsent()})
	require.ErrorIs(t, err, table.ErrCondition)
	_, err = tbl.Put(t.Context(), table.Op{Key: key("b"), Delete: true})
	require.NoError(t, err)
	require.Equal(t, before, tbl.commits(t))
}

func TestACallerNeedNotWaitForItsOutcome(t *testing.T) {
	t.Parallel()
	tbl := openTemp(t, nil)
	release := hold(t, tbl)
	body := []byte("as it was")
	ctx, cancel := context.WithCancel(t.Context())
	put := make(chan error, 1)
	go func() {
		_, err := tbl.Put(ctx, table.Op{Key: key("a"), Body: body})
		put <- err
	}()
	require.Eventually(t, func() bool { return tbl.queued() == 1 }, 5*time.Second, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-put, context.Canceled)
	copy(body, "is reused")
	release()
	_, err := tbl.Put(t.Context(), table.Op{Key: key("b")}) // comes after it
	require.NoError(t, err)
	got, err := tbl.Get(t.Context(), key("a"))
	require.NoError(t, err)
	require.Equal(t, "as it was", string(got[0].Body))
}

// openBreakable returns a table and what breaks its file: the descriptor is
// closed behind the table's back, so that every write to it fails.
func openBreakable(t *testing.T, opts *Options) (tbl *Table, breakFile func()) {
	t.Helper()
	var file *os.File
	tbl, err := open(filepath.Join(t.TempDir(), "lambae.db"), opts, func(name string, flag int, mode os.FileMode) (f *os.File, err error) {
		file, err = os.OpenFile(name, flag, mode)
		return file, err
	})
	require.NoError(t, err)
	return tbl, func() { require.NoError(t, file.Close()) }
}

func TestAFailedCommitIsUnknownToAllAndTheEnd(t *testing.T) {
	t.Parallel()
	fatal := make(chan error, 2)
	tbl, breakFile := openBreakable(t, &Options{OnFatal: func(err error) { fatal <- err }})
	_, err := tbl.Put(t.Context(), table.Op{Key: key("a")})
	require.NoError(t, err)
	breakFile()

	tx, err := tbl.db.Begin(true) // so that one put is under way and two are queued
	require.NoError(t, err)
	outs := []<-chan outcome{enqueue(t, tbl, table.Op{Key: key("0")})}
	require.Eventually(t, func() bool { return tbl.queued() == 0 }, 5*time.Second, time.Millisecond)
	for _, sk := range []string{"1", "2"} {
		outs = append(outs, enqueue(t, tbl, table.Op{Key: key(sk), If: table.IfAbsent()}))
	}
	require.NoError(t, tx.Rollback())
	for _, out := range outs {
		o := <-out
		require.ErrorContains(t, o.err, "outcome is unknown")
		require.NotErrorIs(t, o.err, table.ErrCondition)
	}
	require.ErrorContains(t, <-fatal, "outcome is unknown")

	_, err = tbl.Put(t.Context(), table.Op{Key: key("b")})
	require.ErrorContains(t, err, "outcome is unknown")
	_, err = tbl.Get(t.Context(), key("a"))
	require.ErrorContains(t, err, "outcome is unknown")
	require.ErrorContains(t, tbl.Write(t.Context()), "outcome is unknown")
	for _, err := range tbl.Query(t.Context(), table.Range{PK: "p"}) {
		require.ErrorContains(t, err, "outcome is unknown")
	}
	require.ErrorContains(t, tbl.Close(), "outcome is unknown")
	require.Empty(t, fatal, "it is told once")
}

func TestOnFatalMayClose(t *testing.T) {
	t.Parallel()
	closed := make(chan error, 1)
	var tbl *Table
	tbl, breakFile := openBreakable(t, &Options{OnFatal: func(error) { closed <- tbl.Close() }})
	breakFile()
	_, err := tbl.Put(t.Context(), table.Op{Key: key("a")})
	require.Error(t, err)
	select {
	case err := <-closed:
		require.ErrorContains(t, err, "outcome is unknown")
	case <-time.After(5 * time.Second):
		t.Fatal("Close waits for itself")
	}
}

func TestCloseCarriesOutWhatIsQueued(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lambae.db")
	tbl, err := Open(path, nil)
	require.NoError(t, err)
	release := hold(t, tbl)
	out := enqueue(t, tbl, table.Op{Key: key("a"), Body: []byte("A")})
	closed := make(chan error, 1)
	go func() { closed <- tbl.Close() }()
	require.Eventually(t, func() bool { return tbl.usable() != nil }, 5*time.Second, time.Millisecond)
	release()
	require.NoError(t, (<-out).err)
	require.NoError(t, <-closed)

	tbl, err = Open(path, nil)
	require.NoError(t, err)
	got, err := tbl.Get(t.Context(), key("a"))
	require.NoError(t, err)
	require.Equal(t, "A", string(got[0].Body))
	require.NoError(t, tbl.Close())
}

func TestMain(m *testing.M) {
	// bbolt leaves this one behind when it panics over a damaged file.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("go.etcd.io/bbolt.(*DB).freepages.func2"))
}
