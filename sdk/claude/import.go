package claude

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/tidwall/gjson"
)

const (
	importBatch = 500     // entries per append
	importUnits = 1 << 20 // UTF-16 units of their lines, after which a batch goes early
)

// ImportOptions say what to import, and how.
type ImportOptions struct {
	// SessionOptions choose the session; their Store is not used. The project
	// key it gets in the store is that of Dir, or of the current folder.
	SessionOptions
	// BatchSize is how many entries go into one append; 500 unless positive.
	BatchSize int
	// WithoutSubagents leaves the subagents' transcripts out.
	WithoutSubagents bool
}

// ImportSessionToStore copies a local session into a store: its transcript,
// then those of its subagents, each followed by its sidecar as an entry of type
// "agent_metadata". Every JSON value is passed on; only empty and malformed
// lines are left out.
//
// It is ordered but no transaction: a failure stops it, and what was appended
// stays. Calling it again is safe, since stores know entries by their uuid. Of
// a file that grows meanwhile, what was there at the start is read.
func ImportSessionToStore(ctx context.Context, id string, store SessionStore, opts *ImportOptions) error {
	if opts == nil {
		opts = &ImportOptions{}
	}
	path, _, err := opts.find(ctx, id)
	if err != nil {
		return err
	}
	key, err := opts.key(id)
	if err != nil {
		return err
	}
	im := importer{store: store, batch: opts.BatchSize}
	if im.batch <= 0 {
		im.batch = importBatch
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read session %s: %w", id, err)
	}
	defer f.Close()
	if err := im.file(ctx, key, f); err != nil {
		return fmt.Errorf("import session %s: %w", id, err)
	}
	if opts.WithoutSubagents {
		return nil
	}
	err = walkSubagents(strings.TrimSuffix(path, ".jsonl"), func(path, subpath string) error {
		key := key
		key.Subpath = subpath
		return im.subagent(ctx, key, path)
	})
	if err != nil {
		return fmt.Errorf("import session %s: %w", id, err)
	}
	return nil
}

type importer struct {
	store SessionStore
	batch int
}

// file appends the lines of f, as long as it is now.
func (im *importer) file(ctx context.Context, key SessionKey, f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	lines := newLineReader(io.LimitReader(f, info.Size()))
	lines.limit = int(min(info.Size()+1, int64(^uint(0)>>1)))
	var entries []Entry
	units := 0
	flush := func() error {
		if len(entries) == 0 {
			return nil
		}
		if err := im.append(ctx, key, entries); err != nil {
			return err
		}
		entries, units = make([]Entry, 0, cap(entries)), 0 // the store may keep the old one
		return nil
	}
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		if line = bytes.TrimSpace(line); len(line) == 0 || !gjson.ValidBytes(line) {
			continue
		}
		entries = append(entries, line)
		units += utf16Len(line)
		if len(entries) >= im.batch || units >= importUnits {
			if err := flush(); err != nil {
				return err
			}
		}
	}
}

func (im *importer) append(ctx context.Context, key SessionKey, entries []Entry) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := im.store.Append(ctx, key, entries); err != nil {
		return fmt.Errorf("append to %s: %w", key, err)
	}
	return nil
}

func (im *importer) subagent(ctx context.Context, key SessionKey, path string) error {
	f, err := openNoFollow(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := im.file(ctx, key, f); err != nil {
		return err
	}
	return im.sidecar(ctx, key, strings.TrimSuffix(path, ".jsonl")+".meta.json")
}

// sidecar appends a subagent's metadata; most have some, and none is fine.
func (im *importer) sidecar(ctx context.Context, key SessionKey, path string) error {
	f, err := openNoFollow(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	if !json.Valid(data) {
		return fmt.Errorf("%s is not JSON", path)
	}
	entry := jsonObject{{"type", json.RawMessage(`"agent_metadata"`)}}
	meta, _ := parseObject(data)
	for _, m := range meta { // its own type prevails
		entry.set(m.name, m.value)
	}
	return im.append(ctx, key, []Entry{entry.encode()})
}

// openNoFollow opens a regular file that is not a link.
func openNoFollow(path string) (*os.File, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err != nil || !named.Mode().IsRegular() || !os.SameFile(named, opened) {
		f.Close()
		return nil, cmp.Or(err, fmt.Errorf("%s is not a regular file", path))
	}
	return f, nil
}
