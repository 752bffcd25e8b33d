package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// touchEvery is how often a key's last use is written down at most.
const touchEvery = time.Hour

// lastUse is an item of its own, so that using a key never gets in the way of
// revoking it.
type lastUse struct {
	At time.Time `json:"at"`
}

// Touch notes that a client key was used, in the store at most hourly over all
// processes. It is meant to be called off the path of a turn, after the answer:
// mostly it decides from memory alone.
func (d *Directory) Touch(ctx context.Context, keyID string) error {
	now := d.instant()
	fresh := func(at time.Time) bool { return now.Sub(at) < touchEvery }
	if at, ok := d.touched.get(keyID); ok && fresh(at) {
		return nil
	}
	if !IsID(KeyPrefix, keyID) {
		return ErrNotFound
	}
	key := table.Key{PK: clientKeyPK(keyID), SK: clientKeyUseSK}
	items, err := d.get(ctx, "the last use of client key "+keyID, key)
	if err != nil {
		return err
	}
	last, err := decodeLastUse(items[0])
	if err != nil {
		return err
	}
	if last != nil && fresh(*last) {
		d.touched.put(keyID, *last)
		return nil
	}
	cond := table.IfAbsent()
	if items[0].Exists() {
		cond = table.IfVersion(items[0].Version)
	}
	// A lost condition means that another process noted the same use.
	_, err = d.table.Put(ctx, putItem(key.PK, key.SK, lastUse{now}, cond))
	if err != nil && !errors.Is(err, table.ErrCondition) {
		return fmt.Errorf("note the last use of client key %s: %w", keyID, err)
	}
	d.touched.put(keyID, now)
	return nil
}

// decodeLastUse returns nil for a key that was never used.
func decodeLastUse(item table.Item) (*time.Time, error) {
	if !item.Exists() {
		return nil, nil
	}
	var use lastUse
	err := decodeItem(item, &use)
	return &use.At, err
}
