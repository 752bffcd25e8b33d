package session

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/embedded"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// directoryClock is a clock that stands until it is moved.
type directoryClock struct {
	mu sync.Mutex
	t  time.Time
}

func (c *directoryClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.t
}

func (c *directoryClock) advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.t = c.t.Add(by)
}

func newDirectoryClock() *directoryClock {
	return &directoryClock{t: time.Date(2026, 7, 6, 18, 26, 1, 234567890, time.UTC)}
}

// testDirectory is a directory on an embedded store of its own.
func testDirectory(t testing.TB) (*Directory, *directoryFaults, *directoryClock) {
	t.Helper()
	store, err := embedded.Open(filepath.Join(t.TempDir(), "store"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	faults, clock := &directoryFaults{Table: store}, newDirectoryClock()
	return NewDirectory(faults, clock.now), faults, clock
}

var errStoreDown = errors.New("the store is down")

// directoryFaults is a table that fails on demand and counts its calls.
type directoryFaults struct {
	table.Table
	reads, writes atomic.Int64
	// failWrite, if set, is asked before the n-th write (counted from 1 again when
	// it is set): lost means that it fails without effect, unanswered that it
	// fails after it landed.
	failWrite func(n int64) (lost, unanswered bool)
	// onWrite is called before a write.
	onWrite func()
}

func (f *directoryFaults) failing(fail func(n int64) (lost, unanswered bool)) {
	f.writes.Store(0)
	f.failWrite = fail
}

func (f *directoryFaults) Get(ctx context.Context, keys ...table.Key) ([]table.Item, error) {
	f.reads.Add(1)
	return f.Table.Get(ctx, keys...)
}

func (f *directoryFaults) Put(ctx context.Context, op table.Op) (version int64, err error) {
	err = f.write(func() error {
		version, err = f.Table.Put(ctx, op)
		return err
	})
	return version, err
}

func (f *directoryFaults) Write(ctx context.Context, ops ...table.Op) error {
	return f.write(func() error { return f.Table.Write(ctx, ops...) })
}

func (f *directoryFaults) write(do func() error) error {
	n := f.writes.Add(1)
	if f.onWrite != nil {
		f.onWrite()
	}
	lost, unanswered := false, false
	if f.failWrite != nil {
		lost, unanswered = f.failWrite(n)
	}
	if lost {
		return errStoreDown
	}
	if err := do(); err != nil {
		return err
	}
	if unanswered {
		return errStoreDown
	}
	return nil
}

func TestNamesAreChecked(t *testing.T) {
	t.Parallel()
	require.NoError(t, CheckName("main profile ü"))
	require.EqualError(t, CheckName(" \t"), "name must not be empty")
	require.EqualError(t, CheckName("a\x00b"), "name must not contain control characters")
	require.EqualError(t, CheckName(string(make([]byte, 201))+"a"), "name must have at most 200 bytes")
}

func TestRecentKeysForgetsTheOldestOnly(t *testing.T) {
	t.Parallel()
	r := newRecentKeys[int](4)
	r.put("kept", 1)
	for i, key := range []string{"a", "b", "c", "d", "e", "f"} {
		r.put(key, i)
		v, ok := r.get("kept")
		require.True(t, ok, "a key in use is never forgotten")
		require.Equal(t, 1, v)
	}
	_, ok := r.get("a")
	require.False(t, ok)
	require.LessOrEqual(t, len(r.young)+len(r.old), 4)
}

func TestSameHash(t *testing.T) {
	t.Parallel()
	require.True(t, SameHash("ab", "ab"))
	require.False(t, SameHash("ab", "ac"))
	require.False(t, SameHash("ab", "abc"))
	require.Equal(t, "bae_1234", ShownPrefix("bae_12345678"))
	require.Equal(t, "x", ShownPrefix("x"))
}

// fewerRuns is a property that is content after n good runs, for one whose every
// step is a write of the disk. Once it failed it runs as often as it is asked
// to, so that the failure is minimised as ever.
func fewerRuns(n int, property func(*rapid.T)) func(*rapid.T) {
	good, failed := 0, false
	return func(t *rapid.T) {
		if good >= n && !failed {
			return
		}
		ended := false
		defer func() { failed = failed || !ended }()
		property(t)
		ended = true
		good++
	}
}
