package session

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// ErrAdminKey refuses an admin key.
var ErrAdminKey = errors.New("invalid admin key")

// ErrAdminKeyBusy refuses to check a key because too many unknown ones are
// being checked against a slow hash. Trying again later helps.
var ErrAdminKeyBusy = errors.New("too many admin keys are being checked; try again in a moment")

const (
	adminKeyPK = "ADMIN"
	adminKeySK = "KEY"

	// slowChecks is how many checks against a slow hash may be under way or
	// wait. They run one at a time: a flood of wrong keys keeps one core busy, and
	// the memory of one check, no more.
	slowChecks = 8
)

// adminKeyItem is the active admin key: there is one, so authentication is one
// read and rotation one write.
type adminKeyItem struct {
	Name      string    `json:"name,omitempty"`
	Prefix    string    `json:"prefix"`
	KeyHash   string    `json:"key_hash"` // see [ParseAdminKeyHash]
	CreatedAt time.Time `json:"created_at"`
}

// AdminKeyOptions say where the admin key comes from.
type AdminKeyOptions struct {
	// File is where a key that is made here is written, mode 0600
	// (BAE_ADMIN_KEY_FILE).
	File string
	// HashFile provisions the key by its hash instead (BAE_ADMIN_KEY_HASH_FILE).
	// Then this key is the active one and File is not touched.
	HashFile string
	// Rotate replaces the active key (--rotate-admin-key).
	Rotate bool
}

// AdminKeyOutcome says what [Directory.EnsureAdminKey] did.
type AdminKeyOutcome string

// What a start may do about the admin key.
const (
	// AdminKeyCreated: store and file were new; a key was made and written.
	AdminKeyCreated AdminKeyOutcome = "created"
	// AdminKeyRotated: a new key was made and written; the one before is dead.
	AdminKeyRotated AdminKeyOutcome = "rotated"
	// AdminKeyKept: the file holds the active key.
	AdminKeyKept AdminKeyOutcome = "kept"
	// AdminKeyAdopted: the file was there and the store was new, so the file's key
	// is the active one now: a store that is begun anew does not lock its owner out.
	AdminKeyAdopted AdminKeyOutcome = "adopted"
	// AdminKeyElsewhere: the store has a key and there is no file. The key stays
	// valid, for whoever moved it to a safe place; only its hash is known here, so
	// the file cannot be written again.
	AdminKeyElsewhere AdminKeyOutcome = "elsewhere"
	// AdminKeyProvisioned: the hash file's key is the active one.
	AdminKeyProvisioned AdminKeyOutcome = "provisioned"
)

// EnsureAdminKey sees to it that there is an active admin key, at every start
// of a server that authenticates administration itself. It fails, rather than
// guess which of two keys is meant, when the file holds another key than the
// store knows.
func (d *Directory) EnsureAdminKey(ctx context.Context, o AdminKeyOptions) (AdminKeyOutcome, error) {
	if o.HashFile != "" {
		return AdminKeyProvisioned, d.provisionAdminKey(ctx, o.HashFile)
	}
	if o.File == "" {
		return "", errors.New("no place for the admin key: set BAE_ADMIN_KEY_FILE, or BAE_ADMIN_KEY_HASH_FILE to provision one")
	}
	if o.Rotate {
		secret := NewSecret(AdminSecretPrefix)
		if err := writeAdminKeyFile(o.File, secret, true); err != nil {
			return "", err
		}
		return AdminKeyRotated, d.putAdminKey(ctx, d.newAdminKey(secret), table.Condition{})
	}
	return d.ensureAdminKeyFile(ctx, o.File)
}

func (d *Directory) ensureAdminKeyFile(ctx context.Context, file string) (AdminKeyOutcome, error) {
	active, err := d.activeAdminKey(ctx)
	if err != nil {
		return "", err
	}
	secret, err := readAdminKeyFile(file)
	outcome := AdminKeyAdopted
	switch {
	case errors.Is(err, os.ErrNotExist) && active != nil:
		return AdminKeyElsewhere, nil
	case errors.Is(err, os.ErrNotExist):
		// The file comes first: a crash in between leaves a key to adopt, not a
		// store whose key nobody knows.
		secret, outcome = NewSecret(AdminSecretPrefix), AdminKeyCreated
		if err = writeAdminKeyFile(file, secret, false); errors.Is(err, os.ErrExist) {
			return d.ensureAdminKeyFile(ctx, file) // another process was first
		}
	}
	if err != nil {
		return "", err
	}
	if active == nil {
		err = d.putAdminKey(ctx, d.newAdminKey(secret), table.IfAbsent())
		if err == nil || !errors.Is(err, table.ErrCondition) {
			return outcome, err
		}
		if active, err = d.activeAdminKey(ctx); err != nil {
			return "", err
		}
	}
	hash, err := ParseAdminKeyHash(active.KeyHash)
	if err != nil {
		return "", err
	}
	if !hash.Matches(secret) {
		return "", fmt.Errorf("the admin key in %s is not the active one of this store: put the active key there, "+
			"or start once with --rotate-admin-key to make a new one", file)
	}
	return AdminKeyKept, nil
}

// VerifyAdminKey returns nil if secret is the active admin key, [ErrAdminKey] if
// not, or [ErrAdminKeyBusy].
func (d *Directory) VerifyAdminKey(ctx context.Context, secret string) error {
	if !IsSecret(AdminSecretPrefix, secret) {
		return ErrAdminKey
	}
	active, err := d.activeAdminKey(ctx)
	if err != nil {
		return err
	}
	if active == nil {
		return ErrAdminKey
	}
	hash, err := ParseAdminKeyHash(active.KeyHash)
	if err != nil {
		return err
	}
	return d.admin.verify(ctx, hash, secret)
}

func (d *Directory) provisionAdminKey(ctx context.Context, file string) error {
	wanted, err := readAdminKeyHashFile(file)
	if err != nil {
		return err
	}
	active, err := d.activeAdminKey(ctx)
	if err != nil {
		return err
	}
	if active != nil && active.KeyHash == wanted.KeyHash {
		return nil
	}
	return d.putAdminKey(ctx, adminKeyItem{
		Name: wanted.Name, Prefix: wanted.Prefix, KeyHash: wanted.KeyHash, CreatedAt: d.instant(),
	}, table.Condition{})
}

func (d *Directory) newAdminKey(secret string) adminKeyItem {
	return adminKeyItem{Prefix: ShownPrefix(secret), KeyHash: sha256Scheme + HashSecret(secret), CreatedAt: d.instant()}
}

func (d *Directory) putAdminKey(ctx context.Context, key adminKeyItem, cond table.Condition) error {
	_, err := d.table.Put(ctx, putItem(adminKeyPK, adminKeySK, key, cond))
	return wrapWrite(err, "store the admin key")
}

// activeAdminKey returns nil when the store has none yet.
func (d *Directory) activeAdminKey(ctx context.Context) (*adminKeyItem, error) {
	items, err := d.get(ctx, "the admin key", table.Key{PK: adminKeyPK, SK: adminKeySK})
	if err != nil || !items[0].Exists() {
		return nil, err
	}
	var key adminKeyItem
	return &key, decodeItem(items[0], &key)
}

// adminVerifier spares slow hashes: a key that matched one is known by its
// SHA-256 for the rest of the process, and so is that every other key is wrong.
type adminVerifier struct {
	mu      sync.Mutex
	slow    string // the slow hash that was matched
	matched string // SHA-256 of the key that matched it

	turn  chan struct{} // held by the one check that runs
	queue chan struct{} // held by it and by those that wait
}

func newAdminVerifier() *adminVerifier {
	return &adminVerifier{turn: make(chan struct{}, 1), queue: make(chan struct{}, slowChecks)}
}

func (v *adminVerifier) verify(ctx context.Context, hash AdminKeyHash, secret string) error {
	if !hash.Slow() {
		return adminKeyResult(hash.Matches(secret))
	}
	if known, ok := v.remembered(hash, secret); known {
		return adminKeyResult(ok)
	}
	select {
	case v.queue <- struct{}{}:
		defer func() { <-v.queue }()
	default:
		return ErrAdminKeyBusy
	}
	select {
	case v.turn <- struct{}{}:
		defer func() { <-v.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	// The one before may have been right.
	if known, ok := v.remembered(hash, secret); known {
		return adminKeyResult(ok)
	}
	if !hash.Matches(secret) {
		return ErrAdminKey
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.slow, v.matched = hash.String(), HashSecret(secret)
	return nil
}

// remembered reports whether the hash was matched before, and by this key.
func (v *adminVerifier) remembered(hash AdminKeyHash, secret string) (known, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.slow == hash.String(), SameHash(v.matched, HashSecret(secret))
}

func adminKeyResult(ok bool) error {
	if !ok {
		return ErrAdminKey
	}
	return nil
}
