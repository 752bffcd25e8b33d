package session

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/lambae/lambae/internal/table"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// directoryWorld drives a directory at random over a store that loses writes and
// answers, and knows of it only what it was told.
type directoryWorld struct {
	*directoryFaults
	d        *Directory
	clock    *directoryClock
	run      int
	profiles []string          // ids
	keys     map[string]string // id → secret, of keys whose creation was acknowledged
	dead     map[string]bool   // keys whose revocation was acknowledged
	openers  []opener
	noted    map[string][]string // sessions by key
	told     toldSessions
}

// opener is a request that authenticated and has not written its session yet.
type opener struct {
	key   string
	since time.Time
}

// longestRequest is what the platform allows.
const longestRequest = 15 * time.Minute

// name is one of few, so that they clash; each run has its own, since the store
// is kept over the runs.
func (w *directoryWorld) name(t *rapid.T) string {
	return fmt.Sprint(w.run, "-", rapid.IntRange(0, 3).Draw(t, "name"))
}

func (w *directoryWorld) key(t *rapid.T) string {
	ids := []string{}
	for id := range w.keys {
		ids = append(ids, id)
	}
	if len(ids) == 0 {
		t.Skip("no key yet")
	}
	slices.Sort(ids)
	return rapid.SampledFrom(ids).Draw(t, "key")
}

func (w *directoryWorld) profile(t *rapid.T) string {
	if len(w.profiles) == 0 {
		t.Skip("no profile yet")
	}
	return rapid.SampledFrom(w.profiles).Draw(t, "profile")
}

// allowed fails the test for an error that is neither a fault of the store nor
// one of those expected.
func (w *directoryWorld) allowed(t *rapid.T, err error, expected ...error) {
	if err == nil || errors.Is(err, errStoreDown) {
		return
	}
	for _, e := range expected {
		if errors.Is(err, e) {
			return
		}
	}
	require.ErrorAs(t, err, new(ErrProfileInUse))
}

func (w *directoryWorld) actions() map[string]func(*rapid.T) {
	ctx := context.Background()
	return map[string]func(*rapid.T){
		"create profile": func(t *rapid.T) {
			p, err := w.d.CreateProfile(ctx, Profile{Name: w.name(t), PrimaryProvider: "p"})
			w.allowed(t, err, ErrDuplicateName)
			if err == nil {
				w.profiles = append(w.profiles, p.ID)
			}
		},
		"rename profile": func(t *rapid.T) {
			_, err := w.d.ReplaceProfile(ctx, w.profile(t), Profile{Name: w.name(t), PrimaryProvider: "p"})
			w.allowed(t, err, ErrDuplicateName, ErrNotFound)
		},
		"delete profile": func(t *rapid.T) {
			w.allowed(t, w.d.DeleteProfile(ctx, w.profile(t)), ErrNotFound)
		},
		"create key": func(t *rapid.T) {
			k, secret, err := w.d.CreateClientKey(ctx, "k", w.profile(t))
			w.allowed(t, err, ErrProfileUnavailable)
			if err == nil {
				w.keys[k.ID] = secret
			}
		},
		"authenticate": func(t *rapid.T) {
			key := w.key(t)
			if _, err := w.d.ClientKeyBySecret(ctx, w.keys[key]); err == nil {
				w.openers = append(w.openers, opener{key, w.clock.now()})
			}
		},
		"open session": func(t *rapid.T) {
			w.openers = slices.DeleteFunc(w.openers, func(o opener) bool { return w.clock.now().Sub(o.since) > longestRequest })
			if len(w.openers) == 0 {
				t.Skip("no opener alive")
			}
			o, session := w.openers[0], NewID(SessionPrefix)
			w.openers = w.openers[1:]
			// Its process dies right after: nobody but a sweep will look again.
			if w.d.NoteSession(ctx, o.key, session) == nil {
				w.noted[o.key] = append(w.noted[o.key], session)
			}
		},
		"revoke key": func(t *rapid.T) {
			key := w.key(t)
			err := w.d.RevokeClientKey(ctx, key, w.told.tell)
			w.allowed(t, err, ErrNotFound)
			w.dead[key] = w.dead[key] || err == nil
		},
		"sweep": func(t *rapid.T) { w.allowed(t, w.d.FinishRevocations(ctx, w.told.tell)) },
		"touch": func(t *rapid.T) { w.allowed(t, w.d.Touch(ctx, w.key(t))) },
		"wait": func(t *rapid.T) {
			w.clock.advance(time.Duration(rapid.SampledFrom([]int{1, 14, 20, 61}).Draw(t, "minutes")) * time.Minute)
		},
		"restart": func(*rapid.T) {
			w.d = NewDirectory(w.directoryFaults, w.clock.now)
		},
		"look": w.check,
	}
}

// check reads the store itself: what must hold between items holds at any time,
// whatever was lost.
func (w *directoryWorld) check(t *rapid.T) {
	read := func(pk string) (items []table.Item) {
		for item, err := range w.Table.Query(context.Background(), table.Range{PK: pk}) {
			require.NoError(t, err)
			items = append(items, item)
		}
		return items
	}
	listed := func(kind string) map[string]bool {
		ids := map[string]bool{}
		for _, item := range read(listPK(kind, 0)) {
			ids[listedID(item.SK)] = true
		}
		return ids
	}
	profiles, keys := listed(profileKind), listed(clientKeyKind)
	active := map[string]int{}
	for id := range keys {
		k, err := w.d.ClientKey(context.Background(), id)
		require.NoError(t, err, "a listed key is active")
		require.True(t, profiles[k.ProfileID], "an active key has its profile")
		active[k.ProfileID]++
	}
	names := map[string]bool{}
	for id := range profiles {
		p, err := w.d.Profile(context.Background(), id)
		require.NoError(t, err, "a listed profile is there")
		require.False(t, names[p.Name], "a name has one owner")
		names[p.Name] = true
		owner, err := w.d.nameOwner(context.Background(), p.Name)
		require.NoError(t, err)
		require.Equal(t, id, owner)
		usage, _, err := w.d.profileUsage(context.Background(), id)
		require.NoError(t, err)
		require.Equal(t, active[id], usage.Keys, "the count is the number of active keys")
	}
	for i := range 4 {
		name := fmt.Sprint(w.run, "-", i)
		owner, err := w.d.nameOwner(context.Background(), name)
		require.NoError(t, err)
		require.Equal(t, names[name], owner != "", "a name that is taken has a profile")
	}
	for id, secret := range w.keys {
		_, bySecret := w.d.ClientKeyBySecret(context.Background(), secret)
		_, byID := w.d.ClientKey(context.Background(), id)
		require.Equal(t, bySecret, byID, "both items of a key say the same")
		require.Equal(t, keys[id], byID == nil)
		if w.dead[id] {
			require.ErrorIs(t, byID, ErrKeyRevoked, "nothing revives a revoked key")
		}
	}
}

// finish lets the store recover and the sweep run: then every session of every
// revoked key was told.
func (w *directoryWorld) finish(t *rapid.T) {
	w.failWrite = nil
	w.check(t)
	for range 2 {
		require.NoError(t, w.d.FinishRevocations(context.Background(), w.told.tell))
		w.clock.advance(revocationGrace)
	}
	told := w.told.sorted()
	for key, sessions := range w.noted {
		if _, err := w.d.ClientKey(context.Background(), key); err == nil {
			continue
		}
		for _, session := range sessions {
			require.Contains(t, told, session+" "+key, "a session of a revoked key was not told")
		}
	}
}

func TestDirectoryHoldsTogetherOverAStoreThatFails(t *testing.T) {
	t.Parallel()
	d, faults, clock := testDirectory(t)
	run := 0
	rapid.Check(t, fewerRuns(25, func(rt *rapid.T) {
		run++
		faults.failWrite = nil
		w := &directoryWorld{
			directoryFaults: faults, d: d, clock: clock, run: run, keys: map[string]string{}, dead: map[string]bool{},
			noted: map[string][]string{},
		}
		w.clear(rt)
		faults.failWrite = func(int64) (lost, unanswered bool) {
			fate := rapid.IntRange(0, 9).Draw(rt, "fate of a write")
			return fate == 8, fate == 9
		}
		rt.Repeat(w.actions())
		w.finish(rt)
	}))
}

// clear forgets the lists of the run before.
func (w *directoryWorld) clear(t *rapid.T) {
	for _, pk := range []string{listPK(profileKind, 0), listPK(clientKeyKind, 0), revocationsPK} {
		var ops []table.Op
		for item, err := range w.Table.Query(context.Background(), table.Range{PK: pk}) {
			require.NoError(t, err)
			ops = append(ops, table.Op{Key: item.Key, Delete: true})
		}
		for chunk := range slices.Chunk(ops, table.MaxWrite) {
			require.NoError(t, w.Table.Write(context.Background(), chunk...))
		}
	}
}
