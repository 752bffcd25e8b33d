// Package table is the storage contract of lambae and nothing more: single
// items under a partition and a sort key, read consistently, written under a
// condition. All rules of the product are written once on top of it, in
// package session; the two drivers, table/embedded and table/dynamo, only keep
// items and pass one shared suite, table/tabletest.
package table

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Limits every driver keeps, so that what works on one works on the other.
const (
	// MaxItem is the largest Body of an item in bytes. It stays below
	// DynamoDB's 400 KB with room for keys and attributes.
	MaxItem = 350 << 10
	// MaxWrite is the most operations one Write takes.
	MaxWrite = 100
)

// ErrCondition is returned by [Table.Put] and [Table.Write] when a condition
// did not hold. Nothing was written. Any other error of a write leaves its
// outcome unknown: it may have landed.
var ErrCondition = errors.New("table: condition not met")

// ErrTooLarge is returned for a Body over [MaxItem]. Nothing was written.
var ErrTooLarge = errors.New("table: item is larger than 350 KB")

// Key names one item. Keys sort by the bytes of SK within a PK.
type Key struct{ PK, SK string }

// Item is what is stored under a key. The zero Version means "no such item".
type Item struct {
	Key
	Body []byte
	// Version changes with every write of the item and is never 0 for one that
	// exists. Its only use is [IfVersion].
	Version int64
	// Expires lets a store drop the item some time after it (DynamoDB's TTL, a
	// sweep on the embedded store). Zero keeps it. Readers must not rely on an
	// expired item being gone.
	Expires time.Time
}

// Exists reports whether a read found the item.
func (i Item) Exists() bool { return i.Version != 0 }

// Condition guards a write. The zero Condition always holds.
type Condition struct {
	absent  bool
	version int64
}

// IfAbsent holds when no item has the key.
func IfAbsent() Condition { return Condition{absent: true} }

// IfVersion holds when the item exists with exactly this version, as read.
func IfVersion(v int64) Condition { return Condition{version: v} }

// Absent reports whether this is [IfAbsent].
func (c Condition) Absent() bool { return c.absent }

// Version returns the version of an [IfVersion] condition, else 0.
func (c Condition) Version() int64 { return c.version }

// Op is one write: a put of Body, or a delete.
type Op struct {
	Key
	Body    []byte
	Expires time.Time
	If      Condition
	Delete  bool
}

// Range selects items of one partition. From is the lowest sort key wanted; To
// ("" = open) is the first one not wanted. Limit 0 means all.
type Range struct {
	PK       string
	From, To string
	Reverse  bool
	Limit    int
}

// Prefix is the range of all sort keys that start with sk.
func Prefix(pk, sk string) Range {
	if sk == "" {
		return Range{PK: pk}
	}
	return Range{PK: pk, From: sk, To: sk + "\xff"}
}

// Table is implemented by the drivers. It is safe for concurrent use. Reads
// are strongly consistent; a write is durable when it returns nil.
type Table interface {
	// Get reads several items at once, from one or several partitions; the
	// result has the order of keys. It is not a snapshot across items.
	Get(ctx context.Context, keys ...Key) ([]Item, error)
	// Query yields the items of a range in order, reading pages as they are
	// asked for. It is not a snapshot: an item written meanwhile may or may not
	// show. An error ends the sequence.
	Query(ctx context.Context, r Range) iter.Seq2[Item, error]
	// Put writes one item. It returns the item's new version, or
	// [ErrCondition], [ErrTooLarge], or an error after which the outcome is unknown.
	Put(ctx context.Context, op Op) (version int64, err error)
	// Write applies several operations on distinct keys atomically: all or, with
	// [ErrCondition], none. It costs twice a Put and is for administration only.
	Write(ctx context.Context, ops ...Op) error
	// Exclusive reports whether no other process can write while this Table is
	// open. Then what an earlier process left running is known to be dead.
	Exclusive() bool
	// Close releases the store. No call may follow.
	Close() error
}
