package embedded

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"

	"github.com/lambae/lambae/internal/table"
)

// A page is what one transaction of a Query reads at most. A transaction that
// stayed open while the caller works would keep every page freed meanwhile from
// being used again, and the file would grow. Pages start small, since many
// callers stop early.
const (
	firstPageItems = 16
	maxPageItems   = 256
	maxPageBytes   = 1 << 20
)

// Get implements [table.Table].
func (t *Table) Get(ctx context.Context, keys ...table.Key) ([]table.Item, error) {
	for _, k := range keys {
		if err := table.CheckKey(k); err != nil {
			return nil, err
		}
	}
	got := make([]table.Item, len(keys))
	err := t.view(ctx, func(items *bolt.Bucket) error {
		for i, k := range keys {
			var err error
			if got[i], err = item(k, items.Get(treeKey(k))); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return got, nil
}

// Query implements [table.Table].
func (t *Table) Query(ctx context.Context, r table.Range) iter.Seq2[table.Item, error] {
	return func(yield func(table.Item, error) bool) {
		if err := table.CheckRange(r); err != nil {
			yield(table.Item{}, err)
			return
		}
		rest, left := r, r.Limit // the sequence may be run again
		for want := firstPageItems; ; want = min(2*want, maxPageItems) {
			if r.Limit > 0 {
				want = min(want, left)
			}
			page, more, err := t.page(ctx, rest, want)
			if err != nil {
				yield(table.Item{}, err)
				return
			}
			for _, it := range page {
				if !yield(it, nil) {
					return
				}
			}
			left -= len(page)
			if !more || r.Limit > 0 && left == 0 {
				return
			}
			rest = after(rest, page[len(page)-1].SK)
		}
	}
}

// after is what is left of a range behind the sort key it was read to.
func after(r table.Range, sk string) table.Range {
	if r.Reverse {
		r.To = sk
	} else {
		r.From = sk + "\x00" // the least string above sk
	}
	return r
}

// page reads at most want items from the start of the range. It says whether
// there may be more.
func (t *Table) page(ctx context.Context, r table.Range, want int) (page []table.Item, more bool, err error) {
	err = t.view(ctx, func(items *bolt.Bucket) error {
		w := newWalk(items, r)
		size := 0
		for k, v := w.first(); k != nil; k, v = w.next() {
			if len(page) == want || size >= maxPageBytes {
				more = true
				return nil
			}
			it, err := item(table.Key{PK: r.PK, SK: string(k[len(r.PK)+1:])}, v)
			if err != nil {
				return err
			}
			page = append(page, it)
			size += len(v)
		}
		return nil
	})
	return page, more, err
}

// view runs fn in a short read transaction.
func (t *Table) view(ctx context.Context, fn func(items *bolt.Bucket) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("embedded: read: %w", err)
	}
	if err := t.usable(); err != nil {
		return err
	}
	return t.db.View(func(tx *bolt.Tx) error { return fn(tx.Bucket([]byte(itemsBucket))) })
}

// A walk goes through the tree keys of a range in its order.
type walk struct {
	cursor   *bolt.Cursor
	low, end []byte // low is in the range, end is not
	reverse  bool
}

func newWalk(items *bolt.Bucket, r table.Range) *walk {
	w := &walk{cursor: items.Cursor(), reverse: r.Reverse}
	w.low = treeKey(table.Key{PK: r.PK, SK: r.From})
	if r.To == "" {
		w.end = append([]byte(r.PK), 1) // behind the zero byte that ends the partition key
	} else {
		w.end = treeKey(table.Key{PK: r.PK, SK: r.To})
	}
	return w
}

func (w *walk) first() (k, v []byte) {
	if !w.reverse {
		k, v = w.cursor.Seek(w.low)
		return w.inside(k, v)
	}
	if k, _ := w.cursor.Seek(w.end); k == nil {
		k, v = w.cursor.Last()
		return w.inside(k, v)
	}
	return w.next()
}

func (w *walk) next() (k, v []byte) {
	if w.reverse {
		k, v = w.cursor.Prev()
	} else {
		k, v = w.cursor.Next()
	}
	return w.inside(k, v)
}

func (w *walk) inside(k, v []byte) (_, _ []byte) {
	if k == nil || bytes.Compare(k, w.low) < 0 || bytes.Compare(k, w.end) >= 0 {
		return nil, nil
	}
	return k, v
}
