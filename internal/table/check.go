package table

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Further limits every driver keeps. They are DynamoDB's own.
const (
	// MaxPK and MaxSK are the longest keys in bytes.
	MaxPK = 2048
	MaxSK = 1024
	// MaxWriteBytes is the most one Write carries, keys and bodies together.
	MaxWriteBytes = 4 << 20
)

// afterAll ends a range's To behind every key that starts with what stands
// before it: no UTF-8 text contains this byte.
const afterAll = "\xff"

// CheckKey refuses keys that not every driver can hold: they are non-empty
// UTF-8 without a zero byte, no longer than [MaxPK] and [MaxSK].
func CheckKey(k Key) error {
	if err := checkText("partition key", k.PK, MaxPK); err != nil {
		return err
	}
	return checkText("sort key", k.SK, MaxSK)
}

func checkText(what, s string, most int) error {
	switch {
	case s == "":
		return fmt.Errorf("table: the %s is empty", what)
	case len(s) > most:
		return fmt.Errorf("table: the %s has %d bytes, at most %d are allowed: %.40q…", what, len(s), most, s)
	case !utf8.ValidString(s):
		return fmt.Errorf("table: the %s is not UTF-8: %q", what, s)
	case strings.IndexByte(s, 0) >= 0:
		return fmt.Errorf("table: the %s contains a zero byte: %q", what, s)
	}
	return nil
}

// CheckOps refuses a write that not every driver can take: see [CheckKey], the
// limits of this package, and [Table.Write]. The error of a Body that is too
// large is an [ErrTooLarge].
func CheckOps(ops ...Op) error {
	if len(ops) > MaxWrite {
		return fmt.Errorf("table: %d operations in one write, at most %d are allowed", len(ops), MaxWrite)
	}
	total := 0
	for _, op := range ops {
		if err := checkOp(op); err != nil {
			return err
		}
		total += len(op.PK) + len(op.SK) + len(op.Body)
	}
	if len(ops) < 2 {
		return nil
	}
	if total > MaxWriteBytes {
		return fmt.Errorf("table: one write carries %d bytes, at most %d are allowed", total, MaxWriteBytes)
	}
	seen := make(map[Key]bool, len(ops))
	for _, op := range ops {
		if seen[op.Key] {
			return fmt.Errorf("table: one write has two operations on %q %q", op.PK, op.SK)
		}
		seen[op.Key] = true
	}
	return nil
}

func checkOp(op Op) error {
	if err := CheckKey(op.Key); err != nil {
		return err
	}
	if len(op.Body) > MaxItem {
		return fmt.Errorf("%w: %q %q has %d bytes", ErrTooLarge, op.PK, op.SK, len(op.Body))
	}
	if !op.Expires.IsZero() && op.Expires.Unix() <= 0 {
		return fmt.Errorf("table: %q %q expires before 1970: %s", op.PK, op.SK, op.Expires)
	}
	return nil
}

// CheckRange refuses a range that not every driver can read. From and To are
// UTF-8; To may end in the byte 0xff that [Prefix] puts there.
func CheckRange(r Range) error {
	if err := checkText("partition key", r.PK, MaxPK); err != nil {
		return err
	}
	if r.Limit < 0 {
		return errors.New("table: the limit of a range is negative")
	}
	if len(r.From) > MaxSK || len(r.To) > MaxSK+len(afterAll) {
		return fmt.Errorf("table: the bounds of a range have %d and %d bytes, at most %d are allowed", len(r.From), len(r.To), MaxSK)
	}
	if !utf8.ValidString(r.From) || !utf8.ValidString(strings.TrimSuffix(r.To, afterAll)) {
		return fmt.Errorf("table: the bounds of a range are not UTF-8: %q to %q", r.From, r.To)
	}
	return nil
}

// Empty reports that the bounds leave room for no key at all.
func (r Range) Empty() bool { return r.To != "" && r.From >= r.To }

// ExpirySeconds is how drivers store [Item.Expires]: whole Unix seconds, rounded
// up so that no item is dropped early; 0 keeps it for ever.
func ExpirySeconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return s
}

// ExpiryTime is the inverse of [ExpirySeconds].
func ExpiryTime(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}
