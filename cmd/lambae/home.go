package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// home is the folder in which the server on this machine leaves its keys and
// the command line remembers those of sessions.
type home string

// homeFolder is the folder unless LAMBAE_HOME names another.
const homeFolder = ".lambae"

func (a *app) home() home { return home(cmp.Or(a.env("LAMBAE_HOME"), homeFolder)) }

func (h home) clientKeyFile() string { return filepath.Join(string(h), "client.key") }
func (h home) adminKeyFile() string  { return filepath.Join(string(h), "admin.key") }

func (h home) sessionKeyFile(id string) string {
	return filepath.Join(string(h), "sessions", filepath.Base(id)+".key")
}

// sessionKey is the remembered key of a session, or "".
func (h home) sessionKey(id string) string {
	key, err := readKey(h.sessionKeyFile(id))
	if err != nil {
		return "" // joining anew gives another
	}
	return key
}

// rememberSession keeps a session's key so that the next chat needs no new one.
func (h home) rememberSession(id, key string) error {
	file := h.sessionKeyFile(id)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return fmt.Errorf("remember session key: %w", err)
	}
	// Written aside and renamed: another command may be reading.
	part, err := os.CreateTemp(filepath.Dir(file), ".key-*") // mode 0600
	if err != nil {
		return fmt.Errorf("remember session key: %w", err)
	}
	_, err = part.WriteString(key + "\n")
	err = errors.Join(err, part.Close())
	if err == nil {
		err = os.Rename(part.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("remember session key: %w", errors.Join(err, os.Remove(part.Name())))
	}
	return nil
}

// lastSession is the id of the session that was remembered last, or "".
func (h home) lastSession() string {
	files, err := filepath.Glob(h.sessionKeyFile("*"))
	if err != nil {
		return ""
	}
	var last string
	var at time.Time
	for _, file := range files {
		if info, err := os.Stat(file); err == nil && info.ModTime().After(at) {
			last, at = strings.TrimSuffix(filepath.Base(file), ".key"), info.ModTime()
		}
	}
	return last
}

// readKey reads a key from the only line of a file.
func readKey(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(content))
	if key == "" || strings.ContainsAny(key, " \t\n") {
		return "", fmt.Errorf("%s does not hold a key alone on a line", file)
	}
	return key, nil
}

// missing reports whether a file is simply not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
