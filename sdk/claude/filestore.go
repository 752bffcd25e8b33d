package claude

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// FileStore is a [SessionStore] in a folder: one file of JSON lines per
// transcript, laid out as claude lays out its own, and a summary beside each.
//
// It survives crashes: an append is on the disk when the call returns, a line
// that a crash cut off is dropped by the next append, and a summary that fell
// behind is brought up to date. Several processes may share a folder.
type FileStore struct {
	dir string

	mu    sync.Mutex
	known map[string]*fileTranscript
}

// fileTranscript is what a store remembers of a file, so that an append need
// not read it all again.
type fileTranscript struct {
	mu    sync.Mutex
	file  os.FileInfo // of the file that was read; another one starts afresh
	read  int64
	uuids map[string]bool
}

// NewFileStore opens a store in a folder, which need not exist yet.
func NewFileStore(dir string) *FileStore {
	return &FileStore{dir: dir, known: make(map[string]*fileTranscript)}
}

const (
	transcriptSuffix = ".jsonl"
	summarySuffix    = ".summary.json"
)

// path of a transcript. Names that mean something to a file system are
// escaped, so that no key can lead out of the folder.
func (s *FileStore) path(key SessionKey) string {
	path := filepath.Join(s.dir, fileName(key.ProjectKey), fileName(key.SessionID))
	if key.Subpath == "" {
		return path + transcriptSuffix
	}
	for part := range strings.SplitSeq(key.Subpath, "/") {
		path = filepath.Join(path, fileName(part))
	}
	return path + transcriptSuffix
}

func fileName(part string) string {
	switch part {
	case "":
		return "%"
	case ".", "..":
		return strings.ReplaceAll(part, ".", "%2E")
	}
	return url.PathEscape(part)
}

func partName(file string) (string, error) {
	if file == "%" {
		return "", nil
	}
	return url.PathUnescape(file)
}

func (s *FileStore) transcript(path string) *fileTranscript {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.known[path]
	if t == nil {
		t = &fileTranscript{}
		s.known[path] = t
	}
	return t
}

// Append implements [SessionStore].
func (s *FileStore) Append(_ context.Context, key SessionKey, entries []Entry) error {
	if len(entries) == 0 {
		return nil
	}
	path := s.path(key)
	t := s.transcript(path)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("append to %s: %w", key, err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("append to %s: %w", key, err)
	}
	defer f.Close()
	if err := lockFile(f); err != nil { // released with the file
		return fmt.Errorf("lock %s: %w", key, err)
	}
	if err := t.catchUp(f); err != nil {
		return fmt.Errorf("append to %s: %w", key, err)
	}
	block, fresh, err := t.fresh(entries)
	if err != nil {
		return fmt.Errorf("append to %s: %w", key, err)
	}
	if len(block) == 0 {
		return nil
	}
	if _, err := f.Write(block); err != nil {
		t.file = nil // whatever is there now must be read again
		return fmt.Errorf("append to %s: %w", key, err)
	}
	if err := f.Sync(); err != nil {
		t.file = nil
		return fmt.Errorf("append to %s: %w", key, err)
	}
	t.read += int64(len(block))
	for _, id := range fresh {
		t.uuids[id] = true
	}
	if key.Subpath != "" {
		return nil
	}
	if _, err := refreshSummary(path, key, f); err != nil {
		return fmt.Errorf("summarise %s: %w", key, err)
	}
	return nil
}

// catchUp reads what others have appended, and drops a line cut off by a crash.
// The lock is held, so what is torn now stays torn.
func (t *fileTranscript) catchUp(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if t.file == nil || !os.SameFile(t.file, info) || info.Size() < t.read {
		t.file, t.read, t.uuids = info, 0, make(map[string]bool)
	}
	r := bufio.NewReaderSize(io.NewSectionReader(f, t.read, info.Size()-t.read), 256<<10)
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			if len(line) > 0 {
				return f.Truncate(t.read)
			}
			return nil
		}
		if err != nil {
			return err
		}
		t.read += int64(len(line))
		if id := EntryUUID(line); id != "" {
			t.uuids[id] = true
		}
	}
}

// fresh encodes the entries that are not stored yet as lines, and returns
// their uuids.
func (t *fileTranscript) fresh(entries []Entry) (lines []byte, ids []string, err error) {
	var block bytes.Buffer
	seen := make(map[string]bool)
	for i, e := range entries {
		if id := EntryUUID(e); id != "" {
			if t.uuids[id] || seen[id] {
				continue
			}
			seen[id] = true
			ids = append(ids, id)
		}
		if err := json.Compact(&block, e); err != nil {
			return nil, nil, fmt.Errorf("entry %d is not JSON: %w", i, err)
		}
		block.WriteByte('\n')
	}
	return block.Bytes(), ids, nil
}

// Load implements [SessionStore].
func (s *FileStore) Load(_ context.Context, key SessionKey) ([]Entry, error) {
	data, err := os.ReadFile(s.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", key, err)
	}
	return completeLines(data), nil
}

// completeLines splits a file; a last line without its newline is one that a
// crash cut off.
func completeLines(data []byte) []Entry {
	var entries []Entry
	for line := range bytes.Lines(data) {
		if line[len(line)-1] == '\n' && !isBlank(line) {
			entries = append(entries, Entry(line[:len(line)-1]))
		}
	}
	return entries
}

// DeleteSession implements [SessionDeleter].
func (s *FileStore) DeleteSession(_ context.Context, key SessionKey) error {
	path := s.path(key)
	remove := []string{path}
	if key.Subpath == "" {
		bare := strings.TrimSuffix(path, transcriptSuffix)
		remove = []string{bare, bare + summarySuffix, path}
	}
	s.mu.Lock()
	for known := range s.known { // a new file may look like the old one
		if known == path || key.Subpath == "" && strings.HasPrefix(known, remove[0]+string(filepath.Separator)) {
			delete(s.known, known)
		}
	}
	s.mu.Unlock()
	for _, path := range remove {
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
	}
	return nil
}

// ListSubkeys implements [SubkeyLister].
func (s *FileStore) ListSubkeys(_ context.Context, projectKey, sessionID string) ([]string, error) {
	root := strings.TrimSuffix(s.path(SessionKey{ProjectKey: projectKey, SessionID: sessionID}), transcriptSuffix)
	var subpaths []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, transcriptSuffix) {
			return err
		}
		rel, err := filepath.Rel(root, strings.TrimSuffix(path, transcriptSuffix))
		if err != nil {
			return err
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		for i := range parts {
			if parts[i], err = partName(parts[i]); err != nil {
				return err
			}
		}
		subpaths = append(subpaths, strings.Join(parts, "/"))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list subagents of %s/%s: %w", projectKey, sessionID, err)
	}
	return subpaths, nil
}

func mtimeOf(info os.FileInfo) int64 { return info.ModTime().Truncate(time.Millisecond).UnixMilli() }
