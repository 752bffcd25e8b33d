package claude

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// SessionOptions say where the session functions look. The zero value means
// every project in claude's own folder.
type SessionOptions struct {
	// Dir narrows the search to the project of this folder and the other
	// worktrees of its git repository. With a Store it chooses the project key;
	// there the current folder is the default.
	Dir string
	// Store is asked in place of claude's own folder.
	Store SessionStore
	// ConfigDir is claude's folder; by default $CLAUDE_CONFIG_DIR or ~/.claude.
	ConfigDir string
}

func (o *SessionOptions) orDefault() *SessionOptions {
	if o == nil {
		return &SessionOptions{}
	}
	return o
}

func (o *SessionOptions) projects() string {
	dir := o.ConfigDir
	if dir == "" {
		dir = environ(os.Environ()).configDir()
	}
	return filepath.Join(dir, "projects")
}

// key names a session in the store, or the one an import goes to.
func (o *SessionOptions) key(id string) (SessionKey, error) {
	dir := o.Dir
	if dir == "" {
		dir = "."
	}
	project, err := ProjectKey(dir)
	return SessionKey{ProjectKey: project, SessionID: id}, err
}

// sessionPlace is a folder of transcripts, and the working directory it is
// known to belong to.
type sessionPlace struct {
	folder string
	cwd    string
}

// places lists the folders to look in.
func (o *SessionOptions) places(ctx context.Context, worktrees bool) ([]sessionPlace, error) {
	root := o.projects()
	if o.Dir != "" {
		return placesOf(ctx, root, o.Dir, worktrees)
	}
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list claude's projects: %w", err)
	}
	var places []sessionPlace
	for _, e := range entries {
		if e.IsDir() {
			places = append(places, sessionPlace{folder: filepath.Join(root, e.Name())})
		}
	}
	return places, nil
}

func placesOf(ctx context.Context, root, dir string, worktrees bool) ([]sessionPlace, error) {
	canonical, err := canonicalDir(dir)
	if err != nil {
		return nil, err
	}
	paths := []string{canonical}
	if worktrees {
		for _, w := range gitWorktrees(ctx, canonical) {
			if !slices.Contains(paths, w) {
				paths = append(paths, w)
			}
		}
	}
	var places []sessionPlace
	for _, path := range paths {
		if folder, ok := projectFolder(root, path); ok {
			places = append(places, sessionPlace{folder: folder, cwd: path})
		}
	}
	return places, nil
}

// projectFolder finds the folder of a path. Claude's builds did not always
// agree on the hash that ends a long name, so for those a folder with the same
// start counts when its sessions say that they ran there.
func projectFolder(root, path string) (string, bool) {
	key := sanitizePath(path)
	folder := filepath.Join(root, key)
	if info, err := os.Stat(folder); err == nil && info.IsDir() {
		return folder, true
	}
	if len(key) <= maxProjectKey {
		return "", false
	}
	entries, _ := os.ReadDir(root)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), key[:maxProjectKey]+"-") && ranIn(filepath.Join(root, e.Name()), path) {
			return filepath.Join(root, e.Name()), true
		}
	}
	return "", false
}

func ranIn(folder, path string) bool {
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".jsonl") {
			if h, err := new(headBuffer).readHead(filepath.Join(folder, e.Name())); err == nil {
				if cwd := firstText(h.head, "cwd"); cwd != "" {
					return cwd == path
				}
			}
		}
	}
	return false
}

// gitWorktrees lists the worktrees of the repository that dir is in, none
// outside a repository or without git.
func gitWorktrees(ctx context.Context, dir string) []string {
	out, err := exec.CommandContext(ctx, "git", "-C", dir, "worktree", "list", "--porcelain").Output()
	if err != nil {
		return nil
	}
	var paths []string
	for line := range strings.Lines(string(out)) {
		if path, ok := strings.CutPrefix(strings.TrimRight(line, "\r\n"), "worktree "); ok {
			paths = append(paths, filepath.FromSlash(path))
		}
	}
	return paths
}

// find returns the first transcript of a session that has something in it,
// links followed. Trouble with one candidate is told if no other is found, so
// that "may not read it" never looks like "does not exist".
func (o *SessionOptions) find(ctx context.Context, id string) (path string, place sessionPlace, err error) {
	if !isUUID(id) {
		return "", sessionPlace{}, invalidID(id)
	}
	places, err := o.places(ctx, true)
	if err != nil {
		return "", sessionPlace{}, err
	}
	var trouble error
	for _, place := range places {
		path := filepath.Join(place.folder, id+".jsonl")
		info, err := os.Stat(path)
		if err == nil && info.Mode().IsRegular() && info.Size() > 0 {
			return path, place, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			trouble = errors.Join(trouble, err)
		}
	}
	if trouble != nil {
		return "", sessionPlace{}, fmt.Errorf("look for session %s: %w", id, trouble)
	}
	return "", sessionPlace{}, notFound(id)
}

func invalidID(id string) error {
	return fmt.Errorf("session id %q is not a UUID; ListSessions has the ids", id)
}

func notFound(id string) error {
	return fmt.Errorf("session %s: %w; ListSessions shows those there are", id, ErrSessionNotFound)
}
