package claude

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/tidwall/gjson"
)

const defaultLoadTimeout = time.Minute

// resumeTree is a temporary config folder with a session from a store in it,
// for a child to resume from. The nil tree stands for the usual folder.
type resumeTree struct{ dir string }

// env is what the child must know to use the tree.
func (t *resumeTree) env() []string {
	if t == nil {
		return nil
	}
	return []string{"CLAUDE_CONFIG_DIR=" + t.dir}
}

// remove deletes the tree; it must not happen before the child has ended.
func (t *resumeTree) remove() {
	if t != nil {
		_ = os.RemoveAll(t.dir) // best effort: a temporary folder
	}
}

// materialize writes the session that the options resume into a temporary
// tree, and points the options at it. It returns nil when there is nothing to
// resume, or nothing in the store: then claude looks in its own folder.
func materialize(ctx context.Context, o *Options, dir string, env environ) (*resumeTree, error) {
	if !o.Continue && !isUUID(o.Resume) {
		return nil, nil
	}
	project, err := ProjectKey(dir)
	if err != nil {
		return nil, err
	}
	l := &storeLoader{store: o.SessionStore, timeout: cmp.Or(o.LoadTimeout, defaultLoadTimeout)}
	if o.Continue {
		latest, err := l.latest(ctx, project)
		if err != nil {
			return nil, err
		}
		o.Continue, o.Resume = false, latest // none: a new session, as in an empty folder
		if latest == "" {
			return nil, nil
		}
	}
	key := SessionKey{ProjectKey: project, SessionID: o.Resume}
	entries, err := l.load(ctx, key)
	if err != nil || len(entries) == 0 {
		return nil, err
	}
	subpaths, err := l.subpaths(ctx, key)
	if err != nil {
		return nil, err
	}
	root, err := os.MkdirTemp("", "claude-resume-")
	if err != nil {
		return nil, fmt.Errorf("make a folder to resume in: %w", err)
	}
	tree := &resumeTree{dir: root}
	if err := tree.fill(ctx, l, key, entries, subpaths, env); err != nil {
		tree.remove()
		return nil, err
	}
	return tree, nil
}

func (t *resumeTree) fill(ctx context.Context, l *storeLoader, key SessionKey, entries []Entry, subpaths []string, env environ) error {
	session := filepath.Join(t.dir, "projects", key.ProjectKey, key.SessionID)
	if err := writeTranscript(session+".jsonl", entries); err != nil {
		return err
	}
	for _, subpath := range subpaths {
		local := filepath.FromSlash(subpath)
		if !filepath.IsLocal(local) {
			continue // a key that would lead out of the tree
		}
		key.Subpath = subpath
		entries, err := l.load(ctx, key)
		if err != nil {
			return err
		}
		transcript, meta := splitAgentMetadata(entries)
		path := filepath.Join(session, local)
		if err := writeTranscript(path+".jsonl", transcript); err != nil {
			return err
		}
		if meta != nil {
			if err := os.WriteFile(path+".meta.json", meta, 0o600); err != nil {
				return err
			}
		}
	}
	return t.copyConfig(env)
}

// copyConfig takes over what claude needs besides transcripts: who the user is
// and the user's settings. A refresh token stays behind: two folders with the
// same one would invalidate each other.
func (t *resumeTree) copyConfig(env environ) error {
	for from, to := range map[string]string{
		env.stateFile(): ".claude.json",
		filepath.Join(env.configDir(), "settings.json"):     "settings.json",
		filepath.Join(env.configDir(), ".credentials.json"): ".credentials.json",
	} {
		data, err := os.ReadFile(from)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("copy claude's configuration: %w", err)
		}
		if to == ".credentials.json" {
			data = withoutRefreshToken(data)
		}
		if err := os.WriteFile(filepath.Join(t.dir, to), data, 0o600); err != nil {
			return fmt.Errorf("copy claude's configuration: %w", err)
		}
	}
	return nil
}

func withoutRefreshToken(credentials []byte) []byte {
	file, _ := parseObject(credentials)
	if login, ok := parseObject(file.get("claudeAiOauth")); ok {
		login.delete("refreshToken")
		file.set("claudeAiOauth", login.encode())
	}
	return file.encode()
}

// writeTranscript writes entries as the lines of a new file.
func writeTranscript(path string, entries []Entry) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 256<<10)
	var line bytes.Buffer
	for i, e := range entries {
		line.Reset()
		if err := json.Compact(&line, e); err != nil {
			return fmt.Errorf("entry %d of %s is not JSON: %w", i, filepath.Base(path), err)
		}
		line.WriteByte('\n')
		if _, err := w.Write(line.Bytes()); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}

// splitAgentMetadata takes the sidecar out of a subagent's entries: the last
// agent_metadata entry, without the type that marked it.
func splitAgentMetadata(entries []Entry) (transcript []Entry, meta []byte) {
	for _, e := range entries {
		if gjson.GetBytes(e, "type").Str != "agent_metadata" {
			transcript = append(transcript, e)
			continue
		}
		sidecar, _ := parseObject(e)
		sidecar.delete("type")
		meta = sidecar.encode()
	}
	return transcript, meta
}

// storeLoader reads from a store with a bound on every call.
type storeLoader struct {
	store   SessionStore
	timeout time.Duration
}

func (l *storeLoader) load(ctx context.Context, key SessionKey) ([]Entry, error) {
	entries, err := bounded(ctx, l.timeout, func(ctx context.Context) ([]Entry, error) { return l.store.Load(ctx, key) })
	if err != nil {
		return nil, fmt.Errorf("load session %s from the store: %w", key, err)
	}
	return entries, nil
}

func (l *storeLoader) subpaths(ctx context.Context, key SessionKey) ([]string, error) {
	lister, ok := l.store.(SubkeyLister)
	if !ok {
		return nil, nil
	}
	paths, err := bounded(ctx, l.timeout, func(ctx context.Context) ([]string, error) {
		return lister.ListSubkeys(ctx, key.ProjectKey, key.SessionID)
	})
	if err != nil {
		return nil, fmt.Errorf("list subagents of session %s in the store: %w", key, err)
	}
	return paths, nil
}

func (l *storeLoader) latest(ctx context.Context, project string) (string, error) {
	lister, ok := l.store.(SessionLister)
	if !ok {
		return "", unsupported("continue the latest session", "ListSessions")
	}
	stamps, err := bounded(ctx, l.timeout, func(ctx context.Context) ([]SessionStamp, error) {
		return lister.ListSessions(ctx, project)
	})
	if err != nil {
		return "", fmt.Errorf("list sessions in the store: %w", err)
	}
	if len(stamps) == 0 {
		return "", nil
	}
	return slices.MaxFunc(stamps, func(a, b SessionStamp) int { return cmp.Compare(a.MTime, b.MTime) }).SessionID, nil
}

// bounded calls f and gives up on it after a while, even if f ignores its
// context.
func bounded[T any](ctx context.Context, limit time.Duration, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit,
		fmt.Errorf("no answer within %s; see Options.LoadTimeout", limit))
	defer cancel()
	type outcome struct {
		value T
		err   error
	}
	result := make(chan outcome, 1)
	go func() {
		value, err := f(ctx)
		result <- outcome{value, err}
	}()
	select {
	case r := <-result:
		if r.err != nil && ctx.Err() != nil {
			r.err = context.Cause(ctx)
		}
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}
