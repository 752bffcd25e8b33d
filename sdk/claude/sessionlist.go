package claude

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// SessionInfo is what is known of a session without reading all of it.
type SessionInfo struct {
	SessionID string `json:"sessionId"`
	// Summary is the title to show: the user's, claude's, the last prompt, or
	// the first.
	Summary      string `json:"summary"`
	LastModified int64  `json:"lastModified"` // milliseconds since 1970
	FileSize     int64  `json:"fileSize,omitempty"`
	CustomTitle  string `json:"customTitle,omitempty"`
	FirstPrompt  string `json:"firstPrompt,omitempty"`
	GitBranch    string `json:"gitBranch,omitempty"`
	Cwd          string `json:"cwd,omitempty"`
	Tag          string `json:"tag,omitempty"`
	CreatedAt    int64  `json:"createdAt,omitempty"` // milliseconds since 1970

	// The following are known for local sessions only.
	Model          string `json:"-"` // that answered last
	AgentName      string `json:"-"`
	TranscriptPath string `json:"-"`
}

// ListOptions say which sessions to list.
type ListOptions struct {
	SessionOptions
	Limit, Offset int // a limit of 0 is none
	// OnlyDir leaves out the other worktrees of Dir's repository.
	OnlyDir bool
	// HideProgrammatic leaves out sessions that programs started.
	HideProgrammatic bool
}

// ListSessions lists sessions, the latest first. It reads only the start and
// the end of every transcript. A store needs [SummaryLister] or
// [SessionLister].
func ListSessions(ctx context.Context, opts *ListOptions) ([]SessionInfo, error) {
	if opts == nil {
		opts = &ListOptions{}
	}
	var infos []SessionInfo
	var err error
	if opts.Store != nil {
		infos, err = listStore(ctx, opts)
	} else {
		infos, err = listLocal(ctx, opts)
	}
	if err != nil {
		return nil, err
	}
	infos = latestOfEach(infos)
	return page(infos, opts.Limit, opts.Offset), nil
}

// latestOfEach sorts by time and keeps the latest of sessions that are there
// more than once, as after a move between worktrees.
func latestOfEach(infos []SessionInfo) []SessionInfo {
	slices.SortFunc(infos, func(a, b SessionInfo) int {
		return cmp.Or(cmp.Compare(b.LastModified, a.LastModified), cmp.Compare(b.SessionID, a.SessionID))
	})
	seen := make(map[string]bool, len(infos))
	return slices.DeleteFunc(infos, func(i SessionInfo) bool {
		if seen[i.SessionID] {
			return true
		}
		seen[i.SessionID] = true
		return false
	})
}

// page cuts a list; limits and offsets that make no sense count as none.
func page[T any](all []T, limit, offset int) []T {
	all = all[min(max(offset, 0), len(all)):]
	if limit > 0 {
		all = all[:min(limit, len(all))]
	}
	return all
}

func listLocal(ctx context.Context, opts *ListOptions) ([]SessionInfo, error) {
	places, err := opts.places(ctx, !opts.OnlyDir)
	if err != nil {
		return nil, err
	}
	type file struct{ path, id, cwd string }
	var files []file
	for _, place := range places {
		entries := readDir(place.folder)
		files = slices.Grow(files, len(entries))
		for _, e := range entries {
			id, ok := strings.CutSuffix(e.Name(), ".jsonl")
			if ok && isUUID(id) && e.Type().IsRegular() {
				files = append(files, file{place.folder + string(filepath.Separator) + e.Name(), id, place.cwd})
			}
		}
	}
	infos := make([]SessionInfo, len(files))
	var next atomic.Int64 // workers take turns, so that none is left with the slow files
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			var buffer headBuffer
			for i := int(next.Add(1)) - 1; i < len(files) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				f := files[i]
				infos[i], _ = readInfo(f.path, f.id, f.cwd, opts.HideProgrammatic, &buffer)
			}
		})
	}
	if wait.Wait(); ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return slices.DeleteFunc(infos, func(i SessionInfo) bool { return i.SessionID == "" }), nil
}

// readDir reads a folder in any order; the list is sorted by time at its end.
// A folder that is gone since, or not ours to read, has nothing in it.
func readDir(folder string) []os.DirEntry {
	dir, err := os.Open(folder)
	if err != nil {
		return nil
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(-1) // what was read before a failure counts
	return entries
}

// readInfo reads one transcript; the zero SessionInfo is one to leave out.
func readInfo(path, id, cwd string, hideProgrammatic bool, buffer *headBuffer) (SessionInfo, error) {
	head, err := buffer.readHead(path)
	if err != nil {
		return SessionInfo{}, err
	}
	info, ok := head.info(id, cwd)
	if !ok || hideProgrammatic && isProgrammatic(head) {
		return SessionInfo{}, nil
	}
	info.TranscriptPath = path
	return info, nil
}

func isProgrammatic(h sessionHead) bool {
	mark := []byte(`"entrypoint":"sdk-`)
	return bytes.Contains(h.head, mark) || bytes.Contains(h.tail, mark)
}

func listStore(ctx context.Context, opts *ListOptions) ([]SessionInfo, error) {
	key, err := opts.key("")
	if err != nil {
		return nil, err
	}
	if lister, ok := opts.Store.(SummaryLister); ok {
		summaries, err := lister.ListSessionSummaries(ctx, key.ProjectKey)
		if err != nil {
			return nil, fmt.Errorf("list session summaries in the store: %w", err)
		}
		var infos []SessionInfo
		for _, s := range summaries {
			if info, ok := s.info(); ok {
				infos = append(infos, info)
			}
		}
		return infos, nil
	}
	lister, ok := opts.Store.(SessionLister)
	if !ok {
		return nil, unsupported("list sessions", "ListSessions or ListSessionSummaries")
	}
	stamps, err := lister.ListSessions(ctx, key.ProjectKey)
	if err != nil {
		return nil, fmt.Errorf("list sessions in the store: %w", err)
	}
	var infos []SessionInfo
	for _, stamp := range stamps {
		key.SessionID = stamp.SessionID
		info, err := loadInfo(ctx, opts.Store, key, stamp.MTime)
		if errors.Is(err, ErrSessionNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// loadInfo makes the info of a session in a store from its whole transcript.
func loadInfo(ctx context.Context, store SessionStore, key SessionKey, mtime int64) (SessionInfo, error) {
	entries, err := store.Load(ctx, key)
	if err != nil {
		return SessionInfo{}, fmt.Errorf("load session %s from the store: %w", key, err)
	}
	info, ok := summarise(key, entries, mtime).info()
	if !ok {
		return SessionInfo{}, notFound(key.SessionID)
	}
	info.FileSize = sizeOf(entries)
	return info, nil
}

// GetSessionInfo returns what is known of one session. A session that exists
// nowhere, has nothing to show, or is a side chain is [ErrSessionNotFound].
func GetSessionInfo(ctx context.Context, id string, opts *SessionOptions) (SessionInfo, error) {
	opts = opts.orDefault()
	if opts.Store != nil {
		key, err := opts.key(id)
		if err != nil {
			return SessionInfo{}, err
		}
		return loadInfo(ctx, opts.Store, key, stampOf(ctx, opts.Store, key))
	}
	path, place, err := opts.find(ctx, id)
	if err != nil {
		return SessionInfo{}, err
	}
	if !isRegular(path) {
		return SessionInfo{}, notFound(id)
	}
	info, err := readInfo(path, id, place.cwd, false, new(headBuffer))
	if err != nil {
		return SessionInfo{}, fmt.Errorf("read session %s: %w", id, err)
	}
	if info.SessionID == "" {
		return SessionInfo{}, notFound(id)
	}
	return info, nil
}

// stampOf asks the store when a session was written; 0 if it cannot tell.
func stampOf(ctx context.Context, store SessionStore, key SessionKey) int64 {
	lister, ok := store.(SessionLister)
	if !ok {
		return 0
	}
	stamps, err := lister.ListSessions(ctx, key.ProjectKey)
	if err != nil {
		return 0
	}
	for _, s := range stamps {
		if s.SessionID == key.SessionID {
			return s.MTime
		}
	}
	return 0
}
