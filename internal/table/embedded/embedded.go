// Package embedded keeps a [table.Table] in one file on this machine, by way of
// bbolt. It is the store of `lambae dev` and of tests: nothing to install, one
// process at a time, every acknowledged write on the disk.
//
// It knows nothing of what the items mean.
package embedded

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/lambae/lambae/internal/table"
)

// The layout is one flat tree of items, and one that finds what has expired.
// The names carry the version of the format.
const (
	itemsBucket  = "items.1"
	expiryBucket = "expiry.1"
)

const (
	// lockWait is how long Open waits for another process to let go of the file.
	lockWait = time.Second
	// pageSize and fillPercent were measured with logs of 1 KB chunks appended
	// to many partitions at random: the file grows by 1.6 KB a chunk, against
	// 2.1 KB with the common 4 KB pages, for the same CPU time.
	pageSize    = 8 << 10
	fillPercent = 0.9
	// mmapSize is address space, not memory: up to this size of the file no
	// write has to wait for readers to let the mapping move.
	mmapSize = 256 << 20
	// defaultSweepEvery applies when Options.SweepEvery is zero.
	defaultSweepEvery = time.Minute
)

// Options may be nil, or zero in every field.
type Options struct {
	// OnFatal is called once, when a commit failed. Whether its writes are on
	// the disk is then unknown, and the table refuses everything: end the
	// process, so that the next one starts from what the file says.
	OnFatal func(error)
	// SweepEvery is the time between two looks for expired items; 0 means a
	// minute.
	SweepEvery time.Duration
	// Now is the clock that decides what has expired; nil means time.Now.
	Now func() time.Time
}

// Table is the embedded store. It implements [table.Table].
type Table struct {
	db      *bolt.DB
	onFatal func(error)
	now     func() time.Time

	mu     sync.Mutex
	wake   *sync.Cond // queue has grown, or refuse was set
	queue  []*request
	refuse error // why no more calls are taken; nil while open

	closing   sync.Once
	closeErr  error
	stop      chan struct{} // closed by Close
	sweeper   chan struct{} // closed when the sweeper has ended
	committer chan struct{} // closed when the committer has ended
	failed    error         // the commit that ended the committer; read after that
}

var _ table.Table = (*Table)(nil)

var errClosed = errors.New("embedded: the store is closed")

// Open opens the store in the file at path, and creates it and its folders when
// they are not there. Only one process can have it open.
func Open(path string, opts *Options) (*Table, error) {
	return open(path, opts, os.OpenFile)
}

func open(path string, opts *Options, openFile func(string, int, os.FileMode) (*os.File, error)) (*Table, error) {
	if opts == nil {
		opts = &Options{}
	}
	db, err := openDB(path, openFile)
	if err != nil {
		return nil, err
	}
	t := &Table{
		db: db, onFatal: opts.OnFatal, now: opts.Now,
		stop: make(chan struct{}), sweeper: make(chan struct{}), committer: make(chan struct{}),
	}
	if t.now == nil {
		t.now = time.Now
	}
	t.wake = sync.NewCond(&t.mu)
	every := opts.SweepEvery
	if every <= 0 {
		every = defaultSweepEvery
	}
	go t.commitLoop()
	go t.sweepLoop(every)
	return t, nil
}

func openDB(path string, openFile func(string, int, os.FileMode) (*os.File, error)) (db *bolt.DB, err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("embedded: create the folder of the store: %w", err)
	}
	defer func() {
		if p := recover(); p != nil { // bbolt's way to tell of damaged pages
			db, err = nil, explainOpen(path, fmt.Errorf("%w: %v", bolterrors.ErrInvalid, p))
		}
	}()
	if err := checkLength(path); err != nil {
		return nil, explainOpen(path, err)
	}
	if db, err = bolt.Open(path, 0o600, boltOptions(openFile)); err != nil {
		return nil, explainOpen(path, err)
	}
	if err := db.Update(createBuckets); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("embedded: open %s: %w", path, err)
	}
	if err := syncDir(dir); err != nil {
		_ = db.Close()
		return nil, fmt.Errorf("embedded: sync the folder of the store: %w", err)
	}
	return db, nil
}

func boltOptions(openFile func(string, int, os.FileMode) (*os.File, error)) *bolt.Options {
	opts := &bolt.Options{
		Timeout:      lockWait,
		PageSize:     pageSize,
		FreelistType: bolt.FreelistMapType,
		// The list of free pages is written by Close only: a commit would have to
		// write it whole. After a crash it is found again by walking the tree.
		NoFreelistSync: true,
		// Every commit syncs what it wrote, length included; growing ahead of that
		// would cost a second sync and leave a file larger than its content.
		NoGrowSync:   true,
		NoStatistics: true,
		OpenFile:     openFile,
	}
	if runtime.GOOS != "windows" { // there the file itself would take that size
		opts.InitialMmapSize = mmapSize
	}
	return opts
}

// checkLength refuses a file that was cut off, as by a copy that broke off. To
// read behind its end through the mapping would kill the process.
func checkLength(path string) error {
	file, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && file.Size() == 0 {
		return nil // to be created
	}
	if err != nil {
		return err
	}
	db, err := bolt.Open(path, 0, &bolt.Options{ReadOnly: true, Timeout: lockWait})
	if err != nil {
		return err
	}
	return errors.Join(db.View(func(tx *bolt.Tx) error {
		if tx.Size() > file.Size() {
			return fmt.Errorf("%w: it was cut off, it has %d of its %d bytes", bolterrors.ErrInvalid, file.Size(), tx.Size())
		}
		return nil
	}), db.Close())
}

func explainOpen(path string, err error) error {
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("embedded: %s is in use by another process: stop that one, or choose another data folder: %w", path, err)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum):
		return fmt.Errorf("embedded: %s is not a store, or is damaged: restore it from a backup, or choose another data folder: %w", path, err)
	}
	return fmt.Errorf("embedded: open the store: %w", err)
}

// createBuckets makes a new file a store, and refuses one that somebody else,
// or a later version with another format, has filled.
func createBuckets(tx *bolt.Tx) error {
	if tx.Bucket([]byte(itemsBucket)) == nil {
		if name, _ := tx.Cursor().First(); name != nil {
			return fmt.Errorf("the file has another format (it holds %q): use the version of lambae that wrote it, or choose another data folder", name)
		}
	}
	for _, name := range []string{itemsBucket, expiryBucket} {
		if _, err := tx.CreateBucketIfNotExists([]byte(name)); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	return nil
}

// syncDir makes the file's name as durable as its content.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" { // has no such thing
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Exclusive is true: the file is locked for this process.
func (t *Table) Exclusive() bool { return true }

// Close waits for the writes under way, and releases the file. It returns the
// error of a failed commit again.
func (t *Table) Close() error {
	t.closing.Do(func() { t.closeErr = t.close() })
	return t.closeErr
}

func (t *Table) close() error {
	t.mu.Lock()
	if t.refuse == nil {
		t.refuse = errClosed
	}
	t.wake.Signal()
	t.mu.Unlock()
	close(t.stop)
	<-t.sweeper
	<-t.committer
	if t.failed != nil {
		return errors.Join(t.failed, t.db.Close())
	}
	// With the list of free pages in the file, the next Open is quick.
	t.db.NoFreelistSync = false
	err := t.db.Update(func(*bolt.Tx) error { return nil })
	if err := errors.Join(err, t.db.Close()); err != nil {
		return fmt.Errorf("embedded: close the store: %w", err)
	}
	return nil
}

// usable returns why the table takes no calls, or nil.
func (t *Table) usable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refuse
}
