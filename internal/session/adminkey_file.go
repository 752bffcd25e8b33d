package session

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxKeyFile is more than any key file has.
const maxKeyFile = 64 << 10

// readAdminKeyFile returns the key in the file. A file that others may read is
// closed to them, where the file system lets us.
func readAdminKeyFile(path string) (string, error) {
	b, err := readSmallFile(path)
	if err != nil {
		return "", fmt.Errorf("read the admin key: %w", err)
	}
	secret := strings.TrimSpace(string(b))
	if !IsSecret(AdminSecretPrefix, secret) {
		return "", fmt.Errorf("%s holds no admin key (%s and 48 hex characters): restore it, "+
			"or remove the file and start once with --rotate-admin-key to make a new one", path, AdminSecretPrefix)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
		_ = os.Chmod(path, 0o600) // a read-only mount may refuse; the key is still the key
	}
	return secret, nil
}

// writeAdminKeyFile puts the key into the file, whole or not at all and durably.
// Without replace it returns [os.ErrExist] when there is a file.
func writeAdminKeyFile(path, secret string, replace bool) (err error) {
	defer func() {
		if err != nil && !errors.Is(err, fs.ErrExist) {
			err = fmt.Errorf("write the admin key: %w", err)
		}
	}()
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".admin-key-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = io.WriteString(f, secret+"\n")
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if !replace {
		// Unlike a rename a link fails if the file exists. Where there are no hard
		// links only the check before protects a file that another process makes now.
		err = os.Link(f.Name(), path)
	}
	if replace || err != nil && !errors.Is(err, fs.ErrExist) {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir makes a new name in a folder last.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync() // some systems do not let a folder be synced, and need not
	return d.Close()
}

// adminKeyHashFile is a key provisioned by its hash.
type adminKeyHashFile struct {
	Name    string `json:"name"`
	Prefix  string `json:"prefix"`
	KeyHash string `json:"key_hash"`
}

func readAdminKeyHashFile(path string) (adminKeyHashFile, error) {
	var file adminKeyHashFile
	b, err := readSmallFile(path)
	if err != nil {
		return file, fmt.Errorf("read BAE_ADMIN_KEY_HASH_FILE: %w", err)
	}
	if err := json.Unmarshal(b, &file); err != nil {
		return file, fmt.Errorf(`BAE_ADMIN_KEY_HASH_FILE %s must be JSON {"prefix": "…", "key_hash": "…"}: %w`, path, err)
	}
	if file.Prefix == "" || file.KeyHash == "" {
		return file, fmt.Errorf(`BAE_ADMIN_KEY_HASH_FILE %s must have the strings "prefix" and "key_hash"`, path)
	}
	if _, err := ParseAdminKeyHash(file.KeyHash); err != nil {
		return file, fmt.Errorf("BAE_ADMIN_KEY_HASH_FILE %s: %w", path, err)
	}
	return file, nil
}

func readSmallFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err == nil && len(b) > maxKeyFile {
		err = fmt.Errorf("%s is larger than any key file", path)
	}
	return b, err
}
