package session

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lambae/lambae/internal/table"
	"github.com/stretchr/testify/require"
)

func TestProfileRoundTrips(t *testing.T) {
	t.Parallel()
	d, _, clock := testDirectory(t)
	prompt, days, idle := "be <brief> & kind", 30, 15
	made, err := d.CreateProfile(t.Context(), Profile{
		Name: "main", PrimaryProvider: "p", FallbackProviders: []string{"q"}, MCPServers: []string{"m"},
		AllowedTools: []string{"a"}, AvailableSandboxes: []string{"i"},
		SystemPrompt: &prompt, EventTTLDays: &days, SandboxIdleMinutes: &idle,
	})
	require.NoError(t, err)
	require.True(t, IsID(ProfilePrefix, made.ID))
	require.Equal(t, clock.now().Truncate(time.Millisecond), made.CreatedAt)
	require.Equal(t, made.CreatedAt, made.UpdatedAt)

	read, err := d.Profile(t.Context(), made.ID)
	require.NoError(t, err)
	require.Equal(t, made, read)

	clock.advance(time.Second)
	replaced, err := d.ReplaceProfile(t.Context(), made.ID, Profile{Name: "main", PrimaryProvider: "r"})
	require.NoError(t, err)
	require.Equal(t, Profile{
		ID: made.ID, Name: "main", PrimaryProvider: "r", FallbackProviders: []string{}, MCPServers: []string{},
		AllowedTools: []string{}, AvailableSandboxes: []string{}, CreatedAt: made.CreatedAt,
		UpdatedAt: made.CreatedAt.Add(time.Second),
	}, replaced, "a replacement resets what it does not name")
	read, err = d.Profile(t.Context(), made.ID)
	require.NoError(t, err)
	require.Equal(t, replaced, read)

	clock.advance(-time.Hour)
	replaced, err = d.ReplaceProfile(t.Context(), made.ID, Profile{Name: "main", PrimaryProvider: "s"})
	require.NoError(t, err)
	require.Equal(t, read.UpdatedAt, replaced.UpdatedAt, "updated_at never goes back")
}

func TestProfileNamesAreUniqueWhileTheyAreTaken(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	a, err := d.CreateProfile(t.Context(), Profile{Name: "a", PrimaryProvider: "p"})
	require.NoError(t, err)
	b, err := d.CreateProfile(t.Context(), Profile{Name: "b", PrimaryProvider: "p"})
	require.NoError(t, err)

	_, err = d.CreateProfile(t.Context(), Profile{Name: "a", PrimaryProvider: "p"})
	require.ErrorIs(t, err, ErrDuplicateName)
	_, err = d.ReplaceProfile(t.Context(), b.ID, Profile{Name: "a", PrimaryProvider: "p"})
	require.ErrorIs(t, err, ErrDuplicateName)
	_, err = d.ReplaceProfile(t.Context(), b.ID, Profile{Name: "b", PrimaryProvider: "q"})
	require.NoError(t, err, "its own name is not taken from it")

	_, err = d.ReplaceProfile(t.Context(), a.ID, Profile{Name: "c", PrimaryProvider: "p"})
	require.NoError(t, err)
	_, err = d.CreateProfile(t.Context(), Profile{Name: "a", PrimaryProvider: "p"})
	require.NoError(t, err, "a name given up is free")
	require.NoError(t, d.DeleteProfile(t.Context(), a.ID))
	_, err = d.CreateProfile(t.Context(), Profile{Name: "c", PrimaryProvider: "p"})
	require.NoError(t, err, "a deleted profile's name is free")
}

func TestMissingProfilesAreNotFound(t *testing.T) {
	t.Parallel()
	d, faults, _ := testDirectory(t)
	gone, err := d.CreateProfile(t.Context(), Profile{Name: "gone", PrimaryProvider: "p"})
	require.NoError(t, err)
	require.NoError(t, d.DeleteProfile(t.Context(), gone.ID))
	for name, id := range map[string]string{
		"deleted": gone.ID, "never made": NewID(ProfilePrefix), "no id at all": "x", "empty": "", "of another kind": NewID(KeyPrefix),
	} {
		_, err := d.Profile(t.Context(), id)
		require.ErrorIs(t, err, ErrNotFound, name)
		_, err = d.ReplaceProfile(t.Context(), id, Profile{Name: "n", PrimaryProvider: "p"})
		require.ErrorIs(t, err, ErrNotFound, name)
		require.ErrorIs(t, d.DeleteProfile(t.Context(), id), ErrNotFound, name)
		_, _, err = d.CreateClientKey(t.Context(), "k", id)
		require.ErrorIs(t, err, ErrProfileUnavailable, name)
	}
	page, err := d.ListProfiles(t.Context(), "", 10)
	require.NoError(t, err)
	require.Empty(t, page.Items)
	items, err := faults.Table.Get(t.Context(), table.Key{PK: profileNamePK("n"), SK: profileSK})
	require.NoError(t, err)
	require.False(t, items[0].Exists(), "a refused replacement takes no name")
}

func TestProfileTooLargeForAnItemIsRefused(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	prompt := string(make([]byte, table.MaxItem))
	_, err := d.CreateProfile(t.Context(), Profile{Name: "big", PrimaryProvider: "p", SystemPrompt: &prompt})
	require.ErrorIs(t, err, table.ErrTooLarge)
	_, err = d.CreateProfile(t.Context(), Profile{Name: "big", PrimaryProvider: "p"})
	require.NoError(t, err, "it left no name behind")
}

func TestOneOfManyCreatorsGetsTheName(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	var made sync.Map
	each(8, func(i int) {
		p, err := d.CreateProfile(t.Context(), Profile{Name: "wanted", PrimaryProvider: "p"})
		if err == nil {
			made.Store(p.ID, true)
		} else if !errors.Is(err, ErrDuplicateName) {
			t.Error(err)
		}
	})
	n := 0
	made.Range(func(any, any) bool { n++; return true })
	require.Equal(t, 1, n)
}

func TestRenamesThatCrossLeaveEveryNameWithOneOwner(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	var ids []string
	for i := range 4 {
		p, err := d.CreateProfile(t.Context(), Profile{Name: fmt.Sprint("start-", i), PrimaryProvider: "p"})
		require.NoError(t, err)
		ids = append(ids, p.ID)
	}
	each(16, func(i int) {
		_, err := d.ReplaceProfile(t.Context(), ids[i%4], Profile{Name: fmt.Sprint("n-", i%3), PrimaryProvider: "p"})
		if err != nil && !errors.Is(err, ErrDuplicateName) {
			t.Error(err)
		}
	})
	owners := map[string]string{}
	for _, id := range ids {
		p, err := d.Profile(t.Context(), id)
		require.NoError(t, err)
		require.Empty(t, owners[p.Name], "two profiles have the name %s", p.Name)
		owners[p.Name] = id
	}
	for i := range 4 {
		for _, name := range []string{fmt.Sprint("start-", i), fmt.Sprint("n-", i)} {
			owner, err := d.nameOwner(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, owners[name], owner, "the item of name %s", name)
		}
	}
}

// A key and the deletion of its profile race; whoever wins, no active key is
// left without its profile.
func TestKeyOrDeletionWinsNeverBoth(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	for i := range 20 {
		p, err := d.CreateProfile(t.Context(), Profile{Name: fmt.Sprint(i), PrimaryProvider: "p"})
		require.NoError(t, err)
		var keyErr, deleteErr error
		each(2, func(who int) {
			if who == 0 {
				_, _, keyErr = d.CreateClientKey(t.Context(), "k", p.ID)
			} else {
				deleteErr = d.DeleteProfile(t.Context(), p.ID)
			}
		})
		if deleteErr == nil {
			require.ErrorIs(t, keyErr, ErrProfileUnavailable)
			continue
		}
		require.NoError(t, keyErr)
		require.Equal(t, ErrProfileInUse{N: 1}, deleteErr)
		require.EqualError(t, deleteErr, "profile has 1 active client key(s); revoke them before deleting")
	}
}

// A write whose answer is lost may be tried again by the store's own client: then
// it meets itself.
func TestWriteThatMeetsItselfIsASuccess(t *testing.T) {
	t.Parallel()
	d, faults, _ := testDirectory(t)
	d.table = &landsTwice{directoryFaults: faults}
	p, err := d.CreateProfile(t.Context(), Profile{Name: "a", PrimaryProvider: "p"})
	require.NoError(t, err)
	_, err = d.Profile(t.Context(), p.ID)
	require.NoError(t, err)
	k, secret, err := d.CreateClientKey(t.Context(), "k", p.ID)
	require.NoError(t, err)
	found, err := d.ClientKeyBySecret(t.Context(), secret)
	require.NoError(t, err)
	require.Equal(t, k, found)
	require.Equal(t, ErrProfileInUse{N: 1}, d.DeleteProfile(t.Context(), p.ID), "the key is counted once")
	require.NoError(t, d.RevokeClientKey(t.Context(), k.ID, tellNobody))
	require.NoError(t, d.DeleteProfile(t.Context(), p.ID))
}

// each runs f in n goroutines at once.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}
