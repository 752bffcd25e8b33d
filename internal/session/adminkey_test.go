package session

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/argon2"
)

// argonHash is the PHC string of a secret with the parameters given, cheap ones in tests.
func argonHash(secret string, memory, time uint32) string {
	salt := []byte("0123456789abcdef")
	sum := argon2.IDKey([]byte(secret), salt, time, memory, 1, 32)
	return fmt.Sprintf("$argon2id$v=19$m=%d,t=%d,p=1$%s$%s", memory, time,
		base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(sum))
}

func readKey(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	return strings.TrimSpace(string(b))
}

func TestFirstStartMakesAKeyAndLaterOnesKeepIt(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	file := filepath.Join(t.TempDir(), "new", "admin.key")
	o := AdminKeyOptions{File: file}
	require.ErrorIs(t, d.VerifyAdminKey(t.Context(), NewSecret(AdminSecretPrefix)), ErrAdminKey, "no key opens a store that has none")

	outcome, err := d.EnsureAdminKey(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, AdminKeyCreated, outcome)
	secret := readKey(t, file)
	require.True(t, IsSecret(AdminSecretPrefix, secret))
	require.NoError(t, d.VerifyAdminKey(t.Context(), secret))

	outcome, err = d.EnsureAdminKey(t.Context(), o)
	require.NoError(t, err)
	require.Equal(t, AdminKeyKept, outcome)
	require.Equal(t, secret, readKey(t, file))

	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	require.Len(t, entries, 1, "no temporary file stays")
}

func TestOnlyTheActiveAdminKeyVerifies(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	file := filepath.Join(t.TempDir(), "admin.key")
	_, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
	require.NoError(t, err)
	_, _, client := testKey(t, d)
	secret := readKey(t, file)
	for name, s := range map[string]string{
		"other": NewSecret(AdminSecretPrefix), "client key": client, "empty": "", "cut": secret[:len(secret)-1],
		"session key": NewSecret(SessionSecretPrefix), "with a newline": secret + "\n",
	} {
		require.ErrorIs(t, d.VerifyAdminKey(t.Context(), s), ErrAdminKey, name)
	}
}

func TestRotationKillsTheKeyBefore(t *testing.T) {
	t.Parallel()
	d, faults, clock := testDirectory(t)
	file := filepath.Join(t.TempDir(), "admin.key")
	_, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
	require.NoError(t, err)
	before := readKey(t, file)
	other := NewDirectory(faults, clock.now)

	outcome, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file, Rotate: true})
	require.NoError(t, err)
	require.Equal(t, AdminKeyRotated, outcome)
	require.ErrorIs(t, other.VerifyAdminKey(t.Context(), before), ErrAdminKey, "another process sees it at once")
	require.NoError(t, other.VerifyAdminKey(t.Context(), readKey(t, file)))
}

func TestFileWithoutStoreIsAdopted(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "admin.key")
	secret := NewSecret(AdminSecretPrefix)
	require.NoError(t, os.WriteFile(file, []byte(secret), 0o644))
	d, _, _ := testDirectory(t)
	outcome, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
	require.NoError(t, err)
	require.Equal(t, AdminKeyAdopted, outcome)
	require.Equal(t, secret, readKey(t, file), "and is closed to others")
	require.NoError(t, d.VerifyAdminKey(t.Context(), secret))
}

func TestStoreWithoutFileKeepsItsKey(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	file := filepath.Join(t.TempDir(), "admin.key")
	_, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
	require.NoError(t, err)
	secret := readKey(t, file)
	require.NoError(t, os.Remove(file))

	outcome, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
	require.NoError(t, err)
	require.Equal(t, AdminKeyElsewhere, outcome)
	require.NoError(t, d.VerifyAdminKey(t.Context(), secret))
	require.NoFileExists(t, file)
}

func TestStartRefusesAKeyItCannotPlace(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "admin.key")
	_, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
	require.NoError(t, err)

	other := filepath.Join(dir, "other.key")
	require.NoError(t, os.WriteFile(other, []byte(NewSecret(AdminSecretPrefix)), 0o600))
	_, err = d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: other})
	require.ErrorContains(t, err, "is not the active one of this store")
	require.ErrorContains(t, err, "--rotate-admin-key")

	require.NoError(t, os.WriteFile(other, []byte("nonsense"), 0o600))
	_, err = d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: other})
	require.ErrorContains(t, err, "holds no admin key")

	require.NoError(t, os.WriteFile(other, make([]byte, maxKeyFile+1), 0o600))
	_, err = d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: other})
	require.ErrorContains(t, err, "larger than any key file")

	_, err = d.EnsureAdminKey(t.Context(), AdminKeyOptions{})
	require.ErrorContains(t, err, "set BAE_ADMIN_KEY_FILE")
}

func TestServersThatStartTogetherAgreeOnOneKey(t *testing.T) {
	t.Parallel()
	d, faults, clock := testDirectory(t)
	file := filepath.Join(t.TempDir(), "admin.key")
	var created atomic.Int64
	each(6, func(int) {
		outcome, err := NewDirectory(faults, clock.now).EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
		if err != nil {
			t.Error(err)
		}
		if outcome == AdminKeyCreated {
			created.Add(1)
		}
	})
	require.LessOrEqual(t, created.Load(), int64(1))
	require.NoError(t, d.VerifyAdminKey(t.Context(), readKey(t, file)))
}

func TestCrashedFirstStartIsMadeGoodByTheNext(t *testing.T) {
	t.Parallel()
	d, faults, _ := testDirectory(t)
	file := filepath.Join(t.TempDir(), "admin.key")
	faults.failing(func(int64) (bool, bool) { return true, false })
	_, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
	require.ErrorIs(t, err, errStoreDown)
	faults.failing(nil)
	outcome, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
	require.NoError(t, err)
	require.Equal(t, AdminKeyAdopted, outcome)
	require.NoError(t, d.VerifyAdminKey(t.Context(), readKey(t, file)))
}

func TestHashFileProvisionsTheKey(t *testing.T) {
	t.Parallel()
	secret := NewSecret(AdminSecretPrefix)
	for name, hash := range map[string]string{
		"sha256": "sha256:" + strings.ToUpper(HashSecret(secret)), "argon2id": argonHash(secret, 64, 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, _, _ := testDirectory(t)
			dir := t.TempDir()
			file, hashFile := filepath.Join(dir, "admin.key"), filepath.Join(dir, "hash.json")
			_, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file})
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(hashFile, []byte(`{"name":"cli","prefix":"bae_admi","key_hash":"`+hash+`"}`), 0o600))
			for range 2 {
				outcome, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{File: file, HashFile: hashFile, Rotate: true})
				require.NoError(t, err)
				require.Equal(t, AdminKeyProvisioned, outcome)
			}
			require.NoError(t, d.VerifyAdminKey(t.Context(), secret))
			require.ErrorIs(t, d.VerifyAdminKey(t.Context(), readKey(t, file)), ErrAdminKey, "there is one active key")
			require.NoError(t, d.VerifyAdminKey(t.Context(), secret))
		})
	}
}

func TestHashFileErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	d, _, _ := testDirectory(t)
	good := argonHash("x", 64, 1)
	for name, c := range map[string]struct{ content, want string }{
		"not JSON":         {"x", `must be JSON {"prefix": "…", "key_hash": "…"}`},
		"no prefix":        {`{"key_hash":"x"}`, `must have the strings "prefix" and "key_hash"`},
		"unknown hash":     {`{"prefix":"p","key_hash":"md5:00"}`, "must look like $argon2id$"},
		"short sha256":     {`{"prefix":"p","key_hash":"sha256:00"}`, "needs 64 hex characters"},
		"argon2i":          {`{"prefix":"p","key_hash":"` + strings.Replace(good, "argon2id", "argon2i", 1) + `"}`, "must look like $argon2id$"},
		"old version":      {`{"prefix":"p","key_hash":"` + strings.Replace(good, "v=19", "v=16", 1) + `"}`, `version "v=16" is not supported`},
		"odd parameters":   {`{"prefix":"p","key_hash":"` + strings.Replace(good, "p=1", "p=1x", 1) + `"}`, "must be m=…,t=…,p=…"},
		"too much memory":  {`{"prefix":"p","key_hash":"` + strings.Replace(good, "m=64", "m=4000000", 1) + `"}`, "out of bounds"},
		"no pass":          {`{"prefix":"p","key_hash":"` + strings.Replace(good, "t=1", "t=0", 1) + `"}`, "out of bounds"},
		"bad salt":         {`{"prefix":"p","key_hash":"` + strings.Replace(good, "$MDEy", "$=DEy", 1) + `"}`, "salt is not base64"},
		"hash of one byte": {`{"prefix":"p","key_hash":"` + good[:strings.LastIndexByte(good, '$')] + `$AA"}`, "hash has 1 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "hash.json")
			require.NoError(t, os.WriteFile(file, []byte(c.content), 0o600))
			_, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{HashFile: file})
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "BAE_ADMIN_KEY_HASH_FILE")
		})
	}
	_, err := d.EnsureAdminKey(t.Context(), AdminKeyOptions{HashFile: "/nowhere/hash.json"})
	require.ErrorIs(t, err, os.ErrNotExist)
}

// The reference vector pins the PHC form to what other implementations write.
func TestArgon2idOfAnotherImplementationMatches(t *testing.T) {
	t.Parallel()
	// printf password | argon2 somesalt -id -t 2 -m 16 -p 1 -l 32 -e
	hash, err := ParseAdminKeyHash("$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc")
	require.NoError(t, err)
	require.True(t, hash.Matches("password"))
	require.False(t, hash.Matches("Password"))
}

func TestSlowHashIsComputedOnceAndFloodsAreBounded(t *testing.T) {
	t.Parallel()
	secret := NewSecret(AdminSecretPrefix)
	hash, err := ParseAdminKeyHash(argonHash(secret, 8<<10, 1))
	require.NoError(t, err)
	v := newAdminVerifier()

	// While one check runs, so many wait and the rest are sent away at once.
	v.turn <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	var busy, cancelled atomic.Int64
	each(slowChecks+20, func(int) {
		switch err := v.verify(ctx, hash, NewSecret(AdminSecretPrefix)); {
		case errors.Is(err, ErrAdminKeyBusy):
			if busy.Add(1) == 20 {
				cancel()
			}
		case errors.Is(err, context.Canceled):
			cancelled.Add(1)
		default:
			t.Errorf("unexpected %v", err)
		}
	})
	require.EqualValues(t, slowChecks, cancelled.Load())
	<-v.turn

	require.ErrorIs(t, v.verify(t.Context(), hash, NewSecret(AdminSecretPrefix)), ErrAdminKey)
	require.NoError(t, v.verify(t.Context(), hash, secret))

	// From here on nothing is computed any more, even while a check could not run.
	v.turn <- struct{}{}
	require.NoError(t, v.verify(t.Context(), hash, secret))
	for range 100 {
		require.ErrorIs(t, v.verify(t.Context(), hash, NewSecret(AdminSecretPrefix)), ErrAdminKey)
	}
}
