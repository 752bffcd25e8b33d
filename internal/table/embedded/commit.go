package embedded

import (
	"context"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"github.com/lambae/lambae/internal/table"
)

// A request is what one Put or Write asks the committer for.
type request struct {
	writes []write
	done   chan outcome // takes one outcome without blocking
}

type write struct {
	key     []byte
	cond    table.Condition
	expires int64
	draft   draft // nil deletes
}

// An outcome has the version of the last item written.
type outcome struct {
	version int64
	err     error
}

func newRequest(ops ...table.Op) *request {
	r := &request{writes: make([]write, len(ops)), done: make(chan outcome, 1)}
	for i, op := range ops {
		w := write{key: treeKey(op.Key), cond: op.If}
		if !op.Delete {
			w.expires = table.ExpirySeconds(op.Expires)
			w.draft = newDraft(op.Body)
		}
		r.writes[i] = w
	}
	return r
}

// Put implements [table.Table]. When ctx ends first, the outcome is unknown.
func (t *Table) Put(ctx context.Context, op table.Op) (int64, error) {
	out := t.write(ctx, op)
	return out.version, out.err
}

// Write implements [table.Table]. When ctx ends first, the outcome is unknown.
func (t *Table) Write(ctx context.Context, ops ...table.Op) error {
	if len(ops) == 0 {
		return t.usable()
	}
	return t.write(ctx, ops...).err
}

func (t *Table) write(ctx context.Context, ops ...table.Op) outcome {
	if err := table.CheckOps(ops...); err != nil {
		return outcome{err: err}
	}
	if err := ctx.Err(); err != nil {
		return outcome{err: fmt.Errorf("embedded: write: %w", err)}
	}
	r := newRequest(ops...)
	if err := t.enqueue(r); err != nil {
		return outcome{err: err}
	}
	select {
	case out := <-r.done:
		return out
	case <-ctx.Done():
		return outcome{err: fmt.Errorf("embedded: wait for a commit: %w", ctx.Err())}
	}
}

func (t *Table) enqueue(rs ...*request) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refuse != nil {
		return t.refuse
	}
	t.queue = append(t.queue, rs...)
	t.wake.Signal()
	return nil
}

// commitLoop is the one writer of the file. While it waits for the disk the
// next requests gather, so the busier the table, the fewer syncs a write costs,
// and an idle table never waits for company.
func (t *Table) commitLoop() {
	for t.failed == nil {
		batch := t.takeQueue()
		if batch == nil {
			break
		}
		t.failed = t.commit(batch)
	}
	failed := t.failed
	close(t.committer)
	if failed != nil && t.onFatal != nil {
		t.onFatal(failed)
	}
}

// takeQueue waits for requests and takes all there are; nil when the table was
// closed and none is left.
func (t *Table) takeQueue() []*request {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.queue) == 0 && t.refuse == nil {
		t.wake.Wait()
	}
	batch := t.queue
	t.queue = nil
	return batch
}

// commit carries out a batch in one transaction and releases its outcomes. An
// error is the end: whether the batch is on the disk is unknown, and so is
// everything decided after it.
func (t *Table) commit(batch []*request) error {
	outcomes, err := t.transact(batch)
	if err != nil {
		err = fmt.Errorf("embedded: commit failed, its outcome is unknown: %w", err)
		batch = append(batch, t.fail(err)...)
		for _, r := range batch {
			r.done <- outcome{err: err}
		}
		return err
	}
	for i, r := range batch {
		r.done <- outcomes[i]
	}
	return nil
}

// fail makes the table refuse everything, and returns what was still queued.
func (t *Table) fail(err error) []*request {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.refuse == nil {
		t.refuse = err
	}
	left := t.queue
	t.queue = nil
	return left
}

func (t *Table) transact(batch []*request) ([]outcome, error) {
	tx, err := t.db.Begin(true)
	if err != nil {
		return nil, fmt.Errorf("begin: %w", err)
	}
	defer func() { _ = tx.Rollback() }() // says ErrTxClosed after a commit
	d := decider{items: tx.Bucket([]byte(itemsBucket)), expiry: tx.Bucket([]byte(expiryBucket))}
	d.items.FillPercent = fillPercent
	outcomes := make([]outcome, len(batch))
	for i, r := range batch {
		if outcomes[i], err = d.decide(r); err != nil {
			return nil, err
		}
	}
	if !d.wrote {
		return outcomes, nil
	}
	if err := tx.Commit(); err != nil {
		return nil, err
	}
	return outcomes, nil
}

// A decider evaluates the requests of a batch, each on top of those before it.
type decider struct {
	items, expiry *bolt.Bucket
	wrote         bool
}

// decide returns the outcome of one request. An error, unlike an outcome with
// one, is that of the transaction.
func (d *decider) decide(r *request) (outcome, error) {
	var one [1]header
	old := one[:]
	if len(r.writes) > 1 {
		old = make([]header, len(r.writes))
	}
	for i, w := range r.writes {
		h, _, err := parse(d.items.Get(w.key))
		if err != nil {
			return outcome{err: err}, nil
		}
		if !holds(w.cond, h.version) {
			return outcome{err: table.ErrCondition}, nil
		}
		old[i] = h
	}
	var version int64
	for i, w := range r.writes {
		var err error
		if version, err = d.apply(w, old[i]); err != nil {
			return outcome{}, fmt.Errorf("write %q: %w", w.key, err)
		}
	}
	return outcome{version: version}, nil
}

func holds(c table.Condition, version int64) bool {
	switch {
	case c.Absent():
		return version == 0
	case c.Version() != 0:
		return version == c.Version()
	}
	return true
}

// apply carries out a write over an item with the header old. Versions come from
// one counter for the whole table, so that an item which is deleted and written
// again never has a version that somebody may have read before.
func (d *decider) apply(w write, old header) (int64, error) {
	if old.expires != 0 && (old.expires != w.expires || w.draft == nil) {
		if err := d.expiry.Delete(expiryKey(old.expires, w.key)); err != nil {
			return 0, err
		}
	}
	if w.draft == nil {
		if old.version == 0 {
			return 0, nil
		}
		d.wrote = true
		return 0, d.items.Delete(w.key)
	}
	d.wrote = true
	seq, err := d.items.NextSequence()
	if err != nil {
		return 0, err
	}
	if w.expires != 0 && old.expires != w.expires {
		if err := d.expiry.Put(expiryKey(w.expires, w.key), nil); err != nil {
			return 0, err
		}
	}
	version := int64(seq)
	return version, d.items.Put(w.key, w.draft.finish(header{version: version, expires: w.expires}))
}
