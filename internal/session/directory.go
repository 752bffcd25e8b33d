package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
	"unicode"

	"github.com/lambae/lambae/internal/table"
)

// Errors of a [Directory] that callers branch on. All of them mean that nothing
// was changed.
var (
	// ErrNotFound says that no such profile or client key exists (any more).
	ErrNotFound = errors.New("not found")
	// ErrKeyRevoked says that a client key existed and was revoked.
	ErrKeyRevoked = errors.New("client key is revoked")
	// ErrDuplicateName says that another profile has the wanted name.
	ErrDuplicateName = errors.New("a profile with that name already exists")
	// ErrProfileUnavailable says that a client key's profile was deleted, or that
	// a key was wanted for a profile that is not there.
	ErrProfileUnavailable = errors.New("profile is not available")
)

// ErrProfileInUse refuses to delete a profile that has active client keys.
type ErrProfileInUse struct{ N int }

func (e ErrProfileInUse) Error() string {
	return fmt.Sprintf("profile has %d active client key(s); revoke them before deleting", e.N)
}

// MaxNameLength is the most bytes a profile's or a client key's name may have: a
// profile's is part of an item's key, whose length the stores limit.
const MaxNameLength = 200

// CheckName says what is wrong with the name of a profile or a client key.
func CheckName(name string) error {
	switch {
	case blank(name):
		return errors.New("name must not be empty")
	case len(name) > MaxNameLength:
		return fmt.Errorf("name must have at most %d bytes", MaxNameLength)
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("name must not contain control characters")
	}
	return nil
}

// Directory holds what is not part of any session: profiles, client keys, the
// admin key, and the lists that administration pages through. It is safe for
// concurrent use by any number of processes on one table: whatever must hold
// between two items is written in one atomic, conditional write.
type Directory struct {
	table table.Table
	now   func() time.Time

	profileOf *recentKeys[string]    // a client key's hash → its profile id
	touched   *recentKeys[time.Time] // a client key's id → last_used_at as stored
	admin     *adminVerifier
}

// NewDirectory returns the directory kept in t. Times come from now.
func NewDirectory(t table.Table, now func() time.Time) *Directory {
	return &Directory{
		table:     t,
		now:       now,
		profileOf: newRecentKeys[string](4096),
		touched:   newRecentKeys[time.Time](4096),
		admin:     newAdminVerifier(),
	}
}

// instant is the present as items hold it: with the precision of the wire.
func (d *Directory) instant() time.Time { return d.now().UTC().Truncate(time.Millisecond) }

// get reads items, in the order of keys.
func (d *Directory) get(ctx context.Context, what string, keys ...table.Key) ([]table.Item, error) {
	items, err := d.table.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", what, err)
	}
	return items, nil
}

// collect reads a whole range before anything is done with it, so that no read
// is open while its items are written.
func (d *Directory) collect(ctx context.Context, what string, r table.Range) ([]table.Item, error) {
	var items []table.Item
	for item, err := range d.table.Query(ctx, r) {
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
		items = append(items, item)
	}
	return items, nil
}

// retry runs an attempt (read, decide, write under conditions) again as long as
// somebody else's write came in between.
func (d *Directory) retry(ctx context.Context, what string, attempt func() error) error {
	const attempts = 40
	for i := range attempts {
		err := attempt()
		if !errors.Is(err, table.ErrCondition) {
			return err
		}
		pause := time.Duration(rand.Int64N(int64(min(5<<min(i, 5), 100)*int(time.Millisecond)))) + 1
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(pause):
		}
	}
	return fmt.Errorf("%s: %d attempts met other writers each time; try again", what, attempts)
}

// putItem is the write of v's JSON form under pk, sk.
func putItem(pk, sk string, v any, cond table.Condition) table.Op {
	return table.Op{Key: table.Key{PK: pk, SK: sk}, Body: MarshalJSON(v), If: cond}
}

// decodeItem reads what [putItem] wrote.
func decodeItem(i table.Item, v any) error {
	if err := json.Unmarshal(i.Body, v); err != nil {
		return fmt.Errorf("stored item %s/%s is damaged: %w", i.PK, i.SK, err)
	}
	return nil
}
