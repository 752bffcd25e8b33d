package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// ClientKey is what is known of a client key. The key itself is shown once, by
// [Directory.CreateClientKey]; only its hash is kept.
type ClientKey struct {
	ID        string     `json:"id"`
	Name      string     `json:"name"`
	Prefix    string     `json:"prefix"` // the key's first characters
	ProfileID string     `json:"profile_id"`
	CreatedAt time.Time  `json:"created_at"`
	RevokedAt *time.Time `json:"revoked_at,omitempty"`
	// LastUsedAt is filled by [Directory.ListClientKeys] only. See [Directory.Touch].
	LastUsedAt *time.Time `json:"-"`
	// Hash finds the key's other item.
	Hash string `json:"hash"`
}

const (
	clientKeyKind  = "key" // of its list
	secretSK       = "KEY"
	clientKeySK    = "META"
	clientKeyUseSK = "USED"
)

// secretKind is what an item under a secret's hash must say to be a client key.
const secretKind = "client"

// secretItem is a client key as found by the key itself. It carries all that
// authentication needs and changes only with the key's own item, in one atomic
// write, so that reading either of them decides whether the key is active.
type secretItem struct {
	Kind string `json:"kind"`
	ClientKey
}

func secretPK(hash string) string  { return "K#" + hash }
func clientKeyPK(id string) string { return "C#" + id }

// CreateClientKey makes a key for a profile and returns it with the secret,
// which is kept nowhere. It returns [ErrProfileUnavailable].
func (d *Directory) CreateClientKey(ctx context.Context, name, profileID string) (ClientKey, string, error) {
	secret := NewSecret(ClientSecretPrefix)
	k := ClientKey{
		ID:        NewID(KeyPrefix),
		Name:      name,
		Prefix:    ShownPrefix(secret),
		ProfileID: profileID,
		CreatedAt: d.instant(),
		Hash:      HashSecret(secret),
	}
	retried := false
	err := d.retry(ctx, "create a client key", func() error {
		if retried {
			// The write that met a condition may have met itself: landed, answer
			// lost, tried again by the store's client.
			if _, err := d.ClientKey(ctx, k.ID); !errors.Is(err, ErrNotFound) {
				return err
			}
		}
		retried = true
		usage, item, err := d.profileUsage(ctx, profileID)
		if err != nil {
			return err
		}
		usage.Keys++
		err = d.table.Write(ctx,
			putItem(profilePK(profileID), profileUsageSK, usage, table.IfVersion(item.Version)),
			putItem(secretPK(k.Hash), secretSK, secretItem{secretKind, k}, table.IfAbsent()),
			putItem(clientKeyPK(k.ID), clientKeySK, k, table.IfAbsent()),
			putItem(listPK(clientKeyKind, 0), listSK(k.CreatedAt, k.ID), profileName{k.ID}, table.Condition{}),
		)
		return wrapWrite(err, "create a client key")
	})
	if err != nil {
		return ClientKey{}, "", err
	}
	return k, secret, nil
}

// ClientKeyBySecret authenticates a client: one read of one item, which carries
// the key's revocation too. It returns [ErrNotFound] or [ErrKeyRevoked].
func (d *Directory) ClientKeyBySecret(ctx context.Context, secret string) (ClientKey, error) {
	if !IsSecret(ClientSecretPrefix, secret) {
		return ClientKey{}, ErrNotFound
	}
	hash := HashSecret(secret)
	items, err := d.get(ctx, "a client key", table.Key{PK: secretPK(hash), SK: secretSK})
	if err != nil {
		return ClientKey{}, err
	}
	return d.secretKey(items[0], hash)
}

// ClientKeyAndProfile authenticates a client and reads its profile. A key's
// profile never changes, so once a process has seen the key it needs one read of
// two items; the first time it needs two reads. A deleted profile is
// [ErrProfileUnavailable], with the key still returned.
func (d *Directory) ClientKeyAndProfile(ctx context.Context, secret string) (ClientKey, Profile, error) {
	if !IsSecret(ClientSecretPrefix, secret) {
		return ClientKey{}, Profile{}, ErrNotFound
	}
	hash := HashSecret(secret)
	keys := []table.Key{{PK: secretPK(hash), SK: secretSK}}
	profileID, known := d.profileOf.get(hash)
	if known {
		keys = append(keys, table.Key{PK: profilePK(profileID), SK: profileSK})
	}
	items, err := d.get(ctx, "a client key and its profile", keys...)
	if err != nil {
		return ClientKey{}, Profile{}, err
	}
	k, err := d.secretKey(items[0], hash)
	if err != nil {
		return ClientKey{}, Profile{}, err
	}
	if known {
		p, err := availableProfile(items[1])
		return k, p, err
	}
	d.profileOf.put(hash, k.ProfileID)
	p, err := d.Profile(ctx, k.ProfileID)
	if errors.Is(err, ErrNotFound) {
		err = ErrProfileUnavailable
	}
	return k, p, err
}

// ClientKey reads a key by its id: the one read that says whether a session
// key's client key is still active. It returns [ErrNotFound] or [ErrKeyRevoked].
func (d *Directory) ClientKey(ctx context.Context, id string) (ClientKey, error) {
	k, _, err := d.clientKey(ctx, id)
	if err == nil && k.RevokedAt != nil {
		return ClientKey{}, ErrKeyRevoked
	}
	return k, err
}

// KeyWithProfile reads a key and a profile by their ids in one read, for a
// session whose state names both. A deleted profile is [ErrProfileUnavailable],
// with the key still returned.
func (d *Directory) KeyWithProfile(ctx context.Context, id, profileID string) (ClientKey, Profile, error) {
	if !IsID(KeyPrefix, id) || !IsID(ProfilePrefix, profileID) {
		return ClientKey{}, Profile{}, ErrNotFound
	}
	items, err := d.get(ctx, "a client key and a profile",
		table.Key{PK: clientKeyPK(id), SK: clientKeySK}, table.Key{PK: profilePK(profileID), SK: profileSK})
	if err != nil {
		return ClientKey{}, Profile{}, err
	}
	k, err := decodeClientKey(items[0])
	if err != nil {
		return ClientKey{}, Profile{}, err
	}
	if k.RevokedAt != nil {
		return ClientKey{}, Profile{}, ErrKeyRevoked
	}
	p, err := availableProfile(items[1])
	return k, p, err
}

// ListClientKeys pages through the active client keys, oldest first, with their
// last use. See [ListPage].
func (d *Directory) ListClientKeys(ctx context.Context, cursor string, limit int) (ListPage[ClientKey], error) {
	page := ListPage[ClientKey]{Items: []ClientKey{}}
	rows, next, err := d.listRows(ctx, clientKeyKind, cursor, limit)
	if err != nil || len(rows) == 0 {
		return page, err
	}
	page.Next = next
	keys := make([]table.Key, 0, 2*len(rows))
	for _, row := range rows {
		pk := clientKeyPK(listedID(row.SK))
		keys = append(keys, table.Key{PK: pk, SK: clientKeySK}, table.Key{PK: pk, SK: clientKeyUseSK})
	}
	items, err := d.get(ctx, "the client keys of a page", keys...)
	if err != nil {
		return page, err
	}
	for i := 0; i < len(items); i += 2 {
		k, err := decodeClientKey(items[i])
		if errors.Is(err, ErrNotFound) || k.RevokedAt != nil {
			continue // revoked since its row was read
		}
		if err != nil {
			return page, err
		}
		if k.LastUsedAt, err = decodeLastUse(items[i+1]); err != nil {
			return page, err
		}
		page.Items = append(page.Items, k)
	}
	return page, nil
}

// secretKey reads the item found under a secret's hash.
func (d *Directory) secretKey(item table.Item, hash string) (ClientKey, error) {
	if !item.Exists() {
		return ClientKey{}, ErrNotFound
	}
	var s secretItem
	if err := decodeItem(item, &s); err != nil {
		return ClientKey{}, err
	}
	switch {
	case s.Kind != secretKind || !SameHash(s.Hash, hash):
		return ClientKey{}, ErrNotFound
	case s.RevokedAt != nil:
		return ClientKey{}, ErrKeyRevoked
	}
	return s.ClientKey, nil
}

func (d *Directory) clientKey(ctx context.Context, id string) (ClientKey, table.Item, error) {
	if !IsID(KeyPrefix, id) {
		return ClientKey{}, table.Item{}, ErrNotFound
	}
	items, err := d.get(ctx, "client key "+id, table.Key{PK: clientKeyPK(id), SK: clientKeySK})
	if err != nil {
		return ClientKey{}, table.Item{}, err
	}
	k, err := decodeClientKey(items[0])
	return k, items[0], err
}

func decodeClientKey(item table.Item) (ClientKey, error) {
	if !item.Exists() {
		return ClientKey{}, ErrNotFound
	}
	var k ClientKey
	err := decodeItem(item, &k)
	return k, err
}

func availableProfile(item table.Item) (Profile, error) {
	if !item.Exists() {
		return Profile{}, fmt.Errorf("%w: it was deleted", ErrProfileUnavailable)
	}
	return decodeProfile(item)
}
