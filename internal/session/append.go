package session

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// writer puts the chunks of one Append. It lives over lost races, so that a
// large payload is not written again for each of them.
type writer struct {
	log    *Log
	losses int
	blob   *blobRef // parts written for sum
	sum    [32]byte
	done   func()
	landed bool
}

// put writes the chunk if its place is free. won is false when another writer
// has it; then the winner's chunk is folded. A put whose answer was lost is
// asked for again until it is known who has the place: the nonce tells.
func (w *writer) put(ctx context.Context, c *Chunk, lists map[string][]byte) (won bool, err error) {
	l := w.log
	if err := l.putLists(ctx, lists); err != nil {
		return false, err
	}
	body, err := w.body(ctx, c)
	if err != nil {
		return false, err
	}
	key := table.Key{PK: logKey(l.ID), SK: chunkKey(c.N)}
	var lost error
	for attempt := 0; ; attempt++ {
		_, err = l.store.table.Put(ctx, table.Op{Key: key, Body: body, If: table.IfAbsent()})
		if err == nil {
			break
		}
		if errors.Is(err, table.ErrTooLarge) {
			return false, fmt.Errorf("append to %s: %w", l.ID, err)
		}
		if errors.Is(err, table.ErrCondition) {
			ours, err := w.lost(ctx, c)
			if err != nil {
				return false, err
			}
			if ours {
				break
			}
			return false, nil
		}
		lost = err
		if attempt == maxPutAttempts {
			return false, fmt.Errorf("append to %s: %w", l.ID, lost)
		}
		if err := sleep(ctx, backoff(attempt)); err != nil {
			return false, err
		}
	}
	w.landed = c.blob != nil
	l.fold(c)
	return true, nil
}

const maxPutAttempts = 5

// lost looks who has the place of c. When it is another writer, its chunks are
// folded.
func (w *writer) lost(ctx context.Context, c *Chunk) (ours bool, err error) {
	l := w.log
	there, err := l.chunkAt(ctx, c.N)
	if err != nil {
		return false, err
	}
	if there == nil {
		return false, fmt.Errorf("append to %s: chunk %d is taken but cannot be read", l.ID, c.N)
	}
	if there.Nonce == c.Nonce {
		return true, nil
	}
	if err := l.catchUp(ctx); err != nil {
		return false, err
	}
	if w.losses++; w.losses > 1 {
		if err := sleep(ctx, rand.N(backoff(min(w.losses, 4)))); err != nil {
			return false, err
		}
	}
	return false, nil
}

// body encodes the chunk. Entries that are large, or that lost two races
// already, go into parts first, so that what is put under contention is small.
func (w *writer) body(ctx context.Context, c *Chunk) ([]byte, error) {
	entries := appendEntries(make([]byte, 0, 256+c.size()), c.Entries)
	if w.losses < 2 || len(entries) < 16<<10 {
		if packed := table.Pack(c.encode(entries)); len(packed) < partSize {
			return packed, nil
		}
	}
	sum := sha256.Sum256(entries)
	if w.blob == nil || w.sum != sum {
		ref, done, err := w.log.store.putParts(ctx, w.log.ID, chunkKey(c.N), table.Pack(entries))
		if err != nil {
			return nil, err
		}
		w.blob, w.sum, w.done = ref, sum, done
	}
	c.blob = w.blob
	return table.Pack(c.encode(nil)), nil
}

// release removes the intent of the parts when a chunk names them. Parts of a
// write that was given up stay announced: the sweep deletes them.
func (w *writer) release() {
	if w.landed {
		w.done()
	}
}

func (l *Log) putLists(ctx context.Context, lists map[string][]byte) error {
	for hash, list := range lists {
		l.mu.Lock()
		_, known := l.state.Lists[hash]
		_, cached := l.lists[hash]
		l.mu.Unlock()
		if !known {
			_, err := l.store.putValue(ctx, l.ID, table.Op{Key: table.Key{PK: logKey(l.ID), SK: "TOOLS#" + hash}, Body: list})
			if err != nil {
				return fmt.Errorf("store the tool list of %s: %w", l.ID, err)
			}
		}
		if !cached {
			l.keepList(hash, list)
		}
	}
	return nil
}

// toolList returns the tool list with a hash, as JSON array.
func (l *Log) toolList(ctx context.Context, hash string) ([]byte, error) {
	if hash == "" {
		return []byte("[]"), nil
	}
	l.mu.Lock()
	list, ok := l.lists[hash]
	l.mu.Unlock()
	if ok {
		return list, nil
	}
	items, err := l.store.table.Get(ctx, table.Key{PK: logKey(l.ID), SK: "TOOLS#" + hash})
	if err != nil {
		return nil, fmt.Errorf("read the tool list of %s: %w", l.ID, err)
	}
	if !items[0].Exists() {
		return nil, fmt.Errorf("read the tool list of %s: %s is missing", l.ID, hash)
	}
	list, err = l.store.openValue(ctx, l.ID, items[0].Body)
	if err != nil {
		return nil, err
	}
	l.keepList(hash, list)
	return list, nil
}

// maxListBytes bounds the tool lists a log keeps in memory. One is always kept.
const maxListBytes = 1 << 20

// keepList keeps a stored tool list for the next request that shows it. A driver
// may declare others at every message, so all go when they become too many: those
// in use come back at one read each.
func (l *Log) keepList(hash string, list []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := len(list)
	for _, b := range l.lists {
		held += len(b)
	}
	if held > maxListBytes {
		clear(l.lists)
	}
	l.lists[hash] = list
}

func backoff(attempt int) time.Duration { return 10 * time.Millisecond << min(attempt, 8) }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
