package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/lambae/lambae/internal/table"
	"github.com/stretchr/testify/require"
)

func tellNobody(context.Context, string, string) error { return nil }

// landsTwice is a table whose client sent every write a second time because the
// first answer was lost.
type landsTwice struct{ *directoryFaults }

func (l *landsTwice) Put(ctx context.Context, op table.Op) (int64, error) {
	if _, err := l.directoryFaults.Put(ctx, op); err != nil {
		return 0, err
	}
	return l.directoryFaults.Put(ctx, op)
}

func (l *landsTwice) Write(ctx context.Context, ops ...table.Op) error {
	if err := l.directoryFaults.Write(ctx, ops...); err != nil {
		return err
	}
	return l.directoryFaults.Write(ctx, ops...)
}

func testKey(t testing.TB, d *Directory) (Profile, ClientKey, string) {
	t.Helper()
	p, err := d.CreateProfile(t.Context(), Profile{Name: "p-" + NewID(""), PrimaryProvider: "p"})
	require.NoError(t, err)
	k, secret, err := d.CreateClientKey(t.Context(), "k", p.ID)
	require.NoError(t, err)
	return p, k, secret
}

func TestClientKeyIsFoundByItsSecretInOneRead(t *testing.T) {
	t.Parallel()
	d, faults, _ := testDirectory(t)
	p, k, secret := testKey(t, d)
	require.True(t, IsSecret(ClientSecretPrefix, secret))
	require.Equal(t, secret[:8], k.Prefix)

	faults.reads.Store(0)
	found, err := d.ClientKeyBySecret(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, k, found)
	require.EqualValues(t, 1, faults.reads.Load())

	for i, reads := range []int64{2, 1, 1} {
		faults.reads.Store(0)
		found, profile, err := d.ClientKeyAndProfile(t.Context(), secret)
		require.NoError(t, err)
		require.Equal(t, k, found)
		require.Equal(t, p, profile)
		require.Equal(t, reads, faults.reads.Load(), "call %d", i)
	}

	faults.reads.Store(0)
	found, profile, err := d.KeyWithProfile(t.Context(), k.ID, p.ID)
	require.NoError(t, err)
	require.Equal(t, k, found)
	require.Equal(t, p, profile)
	require.EqualValues(t, 1, faults.reads.Load())
}

func TestSecretIsKeptNowhere(t *testing.T) {
	t.Parallel()
	d, faults, _ := testDirectory(t)
	p, k, secret := testKey(t, d)
	for _, pk := range []string{profilePK(p.ID), clientKeyPK(k.ID), secretPK(k.Hash), listPK(clientKeyKind, 0)} {
		for item, err := range faults.Query(t.Context(), table.Range{PK: pk}) {
			require.NoError(t, err)
			require.NotContains(t, string(item.Body), secret[len(k.Prefix):])
		}
	}
}

func TestWrongSecretsAreNotFound(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	_, k, secret := testKey(t, d)
	for name, s := range map[string]string{
		"unknown": NewSecret(ClientSecretPrefix), "session key": NewSecret(SessionSecretPrefix),
		"admin key": NewSecret(AdminSecretPrefix), "empty": "", "cut": secret[:len(secret)-1], "its id": k.ID, "its hash": k.Hash,
	} {
		_, err := d.ClientKeyBySecret(t.Context(), s)
		require.ErrorIs(t, err, ErrNotFound, name)
		_, _, err = d.ClientKeyAndProfile(t.Context(), s)
		require.ErrorIs(t, err, ErrNotFound, name)
	}
	for _, id := range []string{"", "x", NewID(KeyPrefix), NewID(ProfilePrefix)} {
		_, err := d.ClientKey(t.Context(), id)
		require.ErrorIs(t, err, ErrNotFound)
		_, _, err = d.KeyWithProfile(t.Context(), id, id)
		require.ErrorIs(t, err, ErrNotFound)
	}
}

func TestKeyOfADeletedProfileSaysSo(t *testing.T) {
	t.Parallel()
	d, faults, _ := testDirectory(t)
	p, k, secret := testKey(t, d)
	_, _, err := d.ClientKeyAndProfile(t.Context(), secret)
	require.NoError(t, err)
	// A profile is not deleted while it has active keys; whatever takes it away,
	// its keys must say so.
	_, err = faults.Table.Put(t.Context(), table.Op{Key: table.Key{PK: profilePK(p.ID), SK: profileSK}, Delete: true})
	require.NoError(t, err)

	warm, _, err := d.ClientKeyAndProfile(t.Context(), secret)
	require.ErrorIs(t, err, ErrProfileUnavailable)
	require.Equal(t, k, warm)
	cold, _, err := NewDirectory(faults, d.now).ClientKeyAndProfile(t.Context(), secret)
	require.ErrorIs(t, err, ErrProfileUnavailable)
	require.Equal(t, k, cold)
	byID, _, err := d.KeyWithProfile(t.Context(), k.ID, p.ID)
	require.ErrorIs(t, err, ErrProfileUnavailable)
	require.Equal(t, k, byID)
}

func TestRevokedKeyOpensNothing(t *testing.T) {
	t.Parallel()
	d, _, clock := testDirectory(t)
	p, k, secret := testKey(t, d)
	require.NoError(t, d.NoteSession(t.Context(), k.ID, "ses_b"))
	require.NoError(t, d.NoteSession(t.Context(), k.ID, "ses_a"))
	require.NoError(t, d.NoteSession(t.Context(), k.ID, "ses_a"))
	require.NoError(t, d.Touch(t.Context(), k.ID))

	var told toldSessions
	require.NoError(t, d.RevokeClientKey(t.Context(), k.ID, told.tell))
	require.Equal(t, []string{"ses_a " + k.ID, "ses_b " + k.ID}, told.sorted())

	_, err := d.ClientKeyBySecret(t.Context(), secret)
	require.ErrorIs(t, err, ErrKeyRevoked)
	_, _, err = d.ClientKeyAndProfile(t.Context(), secret)
	require.ErrorIs(t, err, ErrKeyRevoked)
	_, err = d.ClientKey(t.Context(), k.ID)
	require.ErrorIs(t, err, ErrKeyRevoked)
	_, _, err = d.KeyWithProfile(t.Context(), k.ID, p.ID)
	require.ErrorIs(t, err, ErrKeyRevoked)
	page, err := d.ListClientKeys(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, page.Items)

	require.ErrorIs(t, d.RevokeClientKey(t.Context(), k.ID, told.tell), ErrNotFound, "it is revoked once")
	require.ErrorIs(t, d.RevokeClientKey(t.Context(), NewID(KeyPrefix), told.tell), ErrNotFound)
	require.Len(t, told.sorted(), 2)
	require.NoError(t, d.DeleteProfile(t.Context(), p.ID), "it is not counted any more")

	// A session that was being opened meanwhile is found by the last look.
	require.NoError(t, d.NoteSession(t.Context(), k.ID, "ses_c"))
	require.NoError(t, d.FinishRevocations(t.Context(), told.tell))
	require.Len(t, told.sorted(), 2, "too early for the last look")
	clock.advance(revocationGrace)
	require.NoError(t, d.FinishRevocations(t.Context(), told.tell))
	require.Contains(t, told.sorted(), "ses_c "+k.ID)
	told = toldSessions{}
	require.NoError(t, d.FinishRevocations(t.Context(), told.tell))
	require.Empty(t, told.sorted(), "nothing is left to finish")
	require.ErrorIs(t, d.RevokeClientKey(t.Context(), k.ID, told.tell), ErrNotFound)
}

func TestOneFailedSessionDoesNotKeepTheOthersFromBeingTold(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	_, k, _ := testKey(t, d)
	for i := range 20 {
		require.NoError(t, d.NoteSession(t.Context(), k.ID, fmt.Sprintf("ses_%02d", i)))
	}
	var told toldSessions
	boom := errors.New("boom")
	err := d.RevokeClientKey(t.Context(), k.ID, func(ctx context.Context, session, key string) error {
		if session == "ses_03" {
			return boom
		}
		return told.tell(ctx, session, key)
	})
	require.ErrorIs(t, err, boom)
	require.ErrorContains(t, err, "ses_03")
	require.Len(t, told.sorted(), 19)

	told = toldSessions{}
	require.NoError(t, d.RevokeClientKey(t.Context(), k.ID, told.tell), "calling again goes on")
	require.Len(t, told.sorted(), 20)
	require.ErrorIs(t, d.RevokeClientKey(t.Context(), k.ID, told.tell), ErrNotFound)
}

// Wherever the process of a revocation dies, with its last write landed or not,
// the key is either untouched or dead, and when dead the next start tells every
// session.
func TestCrashedRevocationIsFinished(t *testing.T) {
	t.Parallel()
	for at := int64(1); at <= 2; at++ {
		for _, landed := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d landed %t", at, landed), func(t *testing.T) {
				t.Parallel()
				d, faults, clock := testDirectory(t)
				_, k, secret := testKey(t, d)
				require.NoError(t, d.NoteSession(t.Context(), k.ID, "ses_a"))
				faults.failing(func(n int64) (bool, bool) { return n > at || n == at && !landed, n == at && landed })
				require.ErrorIs(t, d.RevokeClientKey(t.Context(), k.ID, tellNobody), errStoreDown)
				faults.failing(nil)

				restarted := NewDirectory(faults, clock.now)
				var told toldSessions
				require.NoError(t, restarted.FinishRevocations(t.Context(), told.tell))
				_, err := restarted.ClientKeyBySecret(t.Context(), secret)
				if at == 1 && !landed {
					require.NoError(t, err)
					require.Empty(t, told.sorted())
					return
				}
				require.ErrorIs(t, err, ErrKeyRevoked)
				clock.advance(revocationGrace)
				require.NoError(t, restarted.FinishRevocations(t.Context(), told.tell))
				require.Equal(t, []string{"ses_a " + k.ID}, slices.Compact(told.sorted()))
			})
		}
	}
}

func TestManyRevokersCountTheKeyOnce(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	p, k, _ := testKey(t, d)
	_, other, err := d.CreateClientKey(t.Context(), "other", p.ID)
	require.NoError(t, err)
	each(8, func(int) {
		if err := d.RevokeClientKey(t.Context(), k.ID, tellNobody); err != nil && !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	})
	require.Equal(t, ErrProfileInUse{N: 1}, d.DeleteProfile(t.Context(), p.ID))
	_, err = d.ClientKeyBySecret(t.Context(), other)
	require.NoError(t, err)
}

func TestManyKeysAtOnceAreAllCounted(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	p, err := d.CreateProfile(t.Context(), Profile{Name: "p", PrimaryProvider: "p"})
	require.NoError(t, err)
	each(12, func(int) {
		if _, _, err := d.CreateClientKey(t.Context(), "k", p.ID); err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, ErrProfileInUse{N: 12}, d.DeleteProfile(t.Context(), p.ID))
}

func TestLastUseIsWrittenHourlyAtMost(t *testing.T) {
	t.Parallel()
	d, faults, clock := testDirectory(t)
	_, k, _ := testKey(t, d)
	lastUse := func() *time.Time {
		page, err := d.ListClientKeys(t.Context(), "", 1)
		require.NoError(t, err)
		return page.Items[0].LastUsedAt
	}
	require.Nil(t, lastUse())

	first := clock.now().Truncate(time.Millisecond)
	faults.writes.Store(0)
	require.NoError(t, d.Touch(t.Context(), k.ID))
	require.Equal(t, first, *lastUse())
	faults.reads.Store(0)
	clock.advance(59 * time.Minute)
	require.NoError(t, d.Touch(t.Context(), k.ID))
	require.Zero(t, faults.reads.Load(), "memory decides")
	require.NoError(t, NewDirectory(faults, clock.now).Touch(t.Context(), k.ID), "another process")
	require.EqualValues(t, 1, faults.writes.Load())
	require.Equal(t, first, *lastUse())

	clock.advance(time.Minute)
	require.NoError(t, d.Touch(t.Context(), k.ID))
	require.EqualValues(t, 2, faults.writes.Load())
	require.Equal(t, first.Add(time.Hour), *lastUse())
	require.ErrorIs(t, d.Touch(t.Context(), "x"), ErrNotFound)
}

// toldSessions remembers what a cascade told.
type toldSessions struct {
	mu   sync.Mutex
	told []string
}

func (s *toldSessions) tell(_ context.Context, sessionID, keyID string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, sessionID+" "+keyID)
	return nil
}

func (s *toldSessions) sorted() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.told))
}
