package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// A value that may be large is stored inline, packed, or as parts. Parts are
// partitions of their own (one partition takes 1 MB of writes a second) and are
// written before the item that names them. An intent item is written first and
// removed last; a sweep deletes the parts of an intent that nothing came of.
const (
	inlineValue = 0
	partsValue  = 1
	partSize    = table.MaxItem - 1024
	intents     = "BI"
)

func partKey(session, blob string, i int) table.Key {
	return table.Key{PK: fmt.Sprintf("B#%s#%s#%04d", session, blob, i), SK: "P"}
}

// putParts writes packed as parts and returns their reference. The caller
// writes the item of the session that names them, which has the sort key sk (or,
// for a chunk, a later one), then calls done.
func (s *Store) putParts(ctx context.Context, session, sk string, packed []byte) (ref *blobRef, done func(), err error) {
	ref = &blobRef{ID: newNonce(), Parts: (len(packed) + partSize - 1) / partSize}
	intent := table.Key{PK: intents, SK: fmt.Sprintf("%013d#%s#%s#%d", s.now().UnixMilli(), session, ref.ID, ref.Parts)}
	if _, err := s.table.Put(ctx, table.Op{Key: intent, Body: []byte(sk)}); err != nil {
		return nil, nil, fmt.Errorf("announce a large value of %s: %w", session, err)
	}
	for i := range ref.Parts {
		part := packed[i*partSize : min(len(packed), (i+1)*partSize)]
		if _, err := s.table.Put(ctx, table.Op{Key: partKey(session, ref.ID, i), Body: part}); err != nil {
			return nil, nil, fmt.Errorf("write part %d of a large value of %s: %w", i, session, err)
		}
	}
	return ref, func() {
		// Best effort: an intent left over costs the sweep one look.
		_ = s.table.Write(context.WithoutCancel(ctx), table.Op{Key: intent, Delete: true})
	}, nil
}

func (s *Store) getParts(ctx context.Context, session string, ref blobRef) ([]byte, error) {
	keys := make([]table.Key, ref.Parts)
	for i := range keys {
		keys[i] = partKey(session, ref.ID, i)
	}
	items, err := s.table.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read a large value of %s: %w", session, err)
	}
	var out []byte
	for i, it := range items {
		if !it.Exists() {
			return nil, fmt.Errorf("read a large value of %s: part %d of %d is missing", session, i, ref.Parts)
		}
		out = append(out, it.Body...)
	}
	return out, nil
}

// putValue writes an item whose body may be of any size.
func (s *Store) putValue(ctx context.Context, session string, op table.Op) (int64, error) {
	packed := table.Pack(op.Body)
	if len(packed) < partSize {
		op.Body = append([]byte{inlineValue}, packed...)
		return s.table.Put(ctx, op)
	}
	ref, done, err := s.putParts(ctx, session, op.SK, packed)
	if err != nil {
		return 0, err
	}
	op.Body = append([]byte{partsValue}, MarshalJSON(ref)...)
	v, err := s.table.Put(ctx, op)
	if err == nil {
		done()
	}
	return v, err
}

// openValue returns what [Store.putValue] stored.
func (s *Store) openValue(ctx context.Context, session string, body []byte) ([]byte, error) {
	if len(body) == 0 {
		return nil, fmt.Errorf("open a value of %s: it is empty", session)
	}
	packed := body[1:]
	if body[0] == partsValue {
		var ref blobRef
		err := json.Unmarshal(packed, &ref)
		if err == nil {
			packed, err = s.getParts(ctx, session, ref)
		}
		if err != nil {
			return nil, err
		}
	}
	return table.Unpack(packed)
}

// SweepParts deletes the parts of writes that were given up more than age ago
// (design-log 10). It is safe to run anywhere at any time.
func (s *Store) SweepParts(ctx context.Context, age time.Duration) error {
	limit := fmt.Sprintf("%013d", s.now().Add(-age).UnixMilli())
	for it, err := range s.table.Query(ctx, table.Range{PK: intents, To: limit}) {
		if err != nil {
			return fmt.Errorf("sweep parts: %w", err)
		}
		if err := s.sweepIntent(ctx, it); err != nil {
			return fmt.Errorf("sweep parts: %w", err)
		}
	}
	return nil
}

func (s *Store) sweepIntent(ctx context.Context, intent table.Item) error {
	f := strings.Split(intent.SK, "#")
	if len(f) != 4 {
		return fmt.Errorf("intent %q is not of this release", intent.SK)
	}
	session, ref := f[1], blobRef{ID: f[2]}
	ref.Parts, _ = strconv.Atoi(f[3])
	named, err := s.names(ctx, session, string(intent.Body), ref.ID)
	if err != nil {
		return err
	}
	if !named {
		for i := range ref.Parts {
			if err := s.table.Write(ctx, table.Op{Key: partKey(session, ref.ID, i), Delete: true}); err != nil {
				return err
			}
		}
	}
	return s.table.Write(ctx, table.Op{Key: intent.Key, Delete: true})
}

// names reports whether an item of the session names the blob: the one under
// sk, or for a chunk any from there on.
func (s *Store) names(ctx context.Context, session, sk, blob string) (bool, error) {
	if !strings.HasPrefix(sk, "L#") {
		items, err := s.table.Get(ctx, table.Key{PK: logKey(session), SK: sk})
		if err != nil || !items[0].Exists() {
			return false, err
		}
		return bytes.Contains(items[0].Body, []byte(blob)), nil
	}
	for it, err := range s.table.Query(ctx, table.Range{PK: logKey(session), From: sk, To: "M"}) {
		if err != nil {
			return false, err
		}
		if b, err := table.Unpack(it.Body); err == nil && bytes.Contains(b, []byte(blob)) {
			return true, nil
		}
	}
	return false, nil
}
