package embedded

import (
	"bytes"
	"fmt"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/lambae/lambae/internal/table"
)

// sweepItems is how many expired items one commit drops, so that no other write
// waits long behind it.
const sweepItems = 64

// sweepLoop drops expired items now and then, until the table closes.
func (t *Table) sweepLoop(every time.Duration) {
	defer close(t.sweeper)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-t.stop:
			return
		case <-tick.C:
		}
		for t.sweep() == sweepItems {
		}
	}
}

// sweep drops the items that expired first, at most sweepItems. It returns how
// many it tried, 0 when the table takes no more writes.
func (t *Table) sweep() int {
	expired, err := t.expired()
	if err != nil {
		return 0 // the next writer or reader is told of it
	}
	rs := make([]*request, len(expired))
	for i, it := range expired {
		rs[i] = newRequest(table.Op{Key: it.Key, Delete: true, If: table.IfVersion(it.Version)})
	}
	if len(rs) == 0 || t.enqueue(rs...) != nil {
		return 0
	}
	for _, r := range rs {
		// A condition that fails means that the item was renewed meanwhile.
		<-r.done
	}
	return len(rs)
}

// expired lists what expired before now, oldest first, without bodies.
func (t *Table) expired() ([]table.Item, error) {
	limit := expiryKey(t.now().Unix(), nil)
	var out []table.Item
	err := t.db.View(func(tx *bolt.Tx) error {
		items := tx.Bucket([]byte(itemsBucket))
		c := tx.Bucket([]byte(expiryBucket)).Cursor()
		for k, _ := c.First(); k != nil && bytes.Compare(k, limit) < 0 && len(out) < sweepItems; k, _ = c.Next() {
			_, key := splitExpiryKey(k)
			h, _, err := parse(items.Get(key))
			if err != nil {
				return err
			}
			if h.version == 0 {
				return fmt.Errorf("embedded: the expiry of %q is damaged: there is no such item", key)
			}
			out = append(out, table.Item{Key: splitKey(key), Version: h.version})
		}
		return nil
	})
	return out, err
}
