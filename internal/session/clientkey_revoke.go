package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/table"
	"golang.org/x/sync/errgroup"
)

// RevokeInSession takes a revoked client key's rights on one session: it
// appends key.revoked and closes the session when no active key is left. It
// must accept a session that does not exist (its opener never got to write it)
// or that knows of the revocation already.
type RevokeInSession func(ctx context.Context, sessionID, keyID string) error

const (
	revocationsPK = "R"
	// revocationGrace is how long the note of a revocation outlives its first
	// cascade. A request that authenticated just before the revocation may write
	// its session after the cascade looked; it runs the cascade for that session
	// itself, unless its process dies in that very moment. No request lives
	// longer than 15 minutes, so a last look after this time finds what such a
	// crash left.
	revocationGrace = 20 * time.Minute
)

// revocation is the note of a revocation whose cascade may be unfinished.
type revocation struct {
	RevokedAt time.Time `json:"revoked_at"`
	// Cascaded says that all sessions known by then have been told.
	Cascaded bool `json:"cascaded"`
}

// sessionNote ties a session to a client key that opened or joined it.
type sessionNote struct {
	At time.Time `json:"at"`
}

// NoteSession ties a session to a client key, before the chunk that opens or
// joins it, so that a revocation finds every session the key may act on.
func (d *Directory) NoteSession(ctx context.Context, keyID, sessionID string) error {
	_, err := d.table.Put(ctx, putItem(clientKeyPK(keyID), sessionID, sessionNote{d.instant()}, table.Condition{}))
	return wrapWrite(err, "note session %s of client key %s", sessionID, keyID)
}

// RevokeClientKey ends a client key. When it returns nil, no request of the key
// or of its session keys succeeds any more and every session knows of it. With
// another error than [ErrNotFound] the key may be revoked already while some
// sessions were not told; calling again goes on, and so does
// [Directory.FinishRevocations]. A key whose revocation is complete is
// [ErrNotFound].
func (d *Directory) RevokeClientKey(ctx context.Context, id string, tell RevokeInSession) error {
	err := d.retry(ctx, "revoke client key "+id, func() error {
		k, item, err := d.clientKey(ctx, id)
		if err != nil || k.RevokedAt != nil {
			return err
		}
		return d.markRevoked(ctx, k, item)
	})
	if err != nil {
		return err
	}
	items, err := d.get(ctx, "the revocation of client key "+id, table.Key{PK: revocationsPK, SK: id})
	if err != nil {
		return err
	}
	if !items[0].Exists() {
		return ErrNotFound
	}
	var r revocation
	if err := decodeItem(items[0], &r); err != nil {
		return err
	}
	if r.Cascaded {
		return ErrNotFound
	}
	return d.cascade(ctx, items[0], tell)
}

// FinishRevocations runs the cascades that a crash cut short, and the last look
// after each of the others. It belongs to every start and to a regular sweep. A
// cascade that fails does not keep the others from running.
func (d *Directory) FinishRevocations(ctx context.Context, tell RevokeInSession) error {
	var failed []error
	items, err := d.collect(ctx, "unfinished revocations", table.Range{PK: revocationsPK})
	if err != nil {
		return err
	}
	for _, item := range items {
		var r revocation
		if err := decodeItem(item, &r); err != nil {
			failed = append(failed, err)
			continue
		}
		if r.Cascaded && d.instant().Sub(r.RevokedAt) < revocationGrace {
			continue
		}
		if err := d.cascade(ctx, item, tell); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

// markRevoked ends the key itself: one atomic write, guarded by the version of
// the key's own item, beside which its other items never change.
func (d *Directory) markRevoked(ctx context.Context, k ClientKey, item table.Item) error {
	usage, usageItem, err := d.profileUsage(ctx, k.ProfileID)
	if err != nil {
		return fmt.Errorf("revoke client key %s: its profile %s: %w", k.ID, k.ProfileID, err)
	}
	usage.Keys--
	now := d.instant()
	k.RevokedAt = &now
	err = d.table.Write(ctx,
		putItem(revocationsPK, k.ID, revocation{RevokedAt: now}, table.Condition{}),
		putItem(clientKeyPK(k.ID), clientKeySK, k, table.IfVersion(item.Version)),
		putItem(secretPK(k.Hash), secretSK, secretItem{secretKind, k}, table.Condition{}),
		putItem(profilePK(k.ProfileID), profileUsageSK, usage, table.IfVersion(usageItem.Version)),
		table.Op{Key: table.Key{PK: listPK(clientKeyKind, 0), SK: listSK(k.CreatedAt, k.ID)}, Delete: true},
	)
	return wrapWrite(err, "revoke client key %s", k.ID)
}

// cascade tells every session of the revoked key and takes the note of the
// revocation a step further, or away after its last look.
func (d *Directory) cascade(ctx context.Context, item table.Item, tell RevokeInSession) error {
	var r revocation
	if err := decodeItem(item, &r); err != nil {
		return err
	}
	keyID := item.SK
	last := d.instant().Sub(r.RevokedAt) >= revocationGrace

	notes, err := d.collect(ctx, "the sessions of client key "+keyID, table.Prefix(clientKeyPK(keyID), SessionPrefix))
	if err != nil {
		return err
	}
	var tells errgroup.Group // without a context: one failure must not keep the others from being told
	tells.SetLimit(8)
	for _, note := range notes {
		tells.Go(func() error {
			if err := tell(ctx, note.SK, keyID); err != nil {
				return fmt.Errorf("revoke client key %s in session %s: %w", keyID, note.SK, err)
			}
			return nil
		})
	}
	if err := tells.Wait(); err != nil {
		return err
	}
	op := table.Op{Key: item.Key, If: table.IfVersion(item.Version), Delete: true}
	if !last {
		r.Cascaded = true
		op = putItem(item.PK, item.SK, r, table.IfVersion(item.Version))
	}
	// A lost condition: another process ran the same cascade to its end.
	if _, err := d.table.Put(ctx, op); err != nil && !errors.Is(err, table.ErrCondition) {
		return fmt.Errorf("finish the revocation of client key %s: %w", keyID, err)
	}
	return nil
}
