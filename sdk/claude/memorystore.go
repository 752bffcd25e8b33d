package claude

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"
)

// InMemoryStore is a [SessionStore] with every optional interface that lives as
// long as the program: for tests, and to see what a store is given. The zero
// value is ready.
type InMemoryStore struct {
	mu        sync.Mutex
	sessions  map[SessionKey]*memoryTranscript
	lastMTime int64
}

type memoryTranscript struct {
	entries []Entry
	uuids   map[string]bool
	mtime   int64
	summary SessionSummary
}

// Append implements [SessionStore].
func (s *InMemoryStore) Append(_ context.Context, key SessionKey, entries []Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.sessions[key]
	var fresh []Entry
	uuids := make(map[string]bool)
	for _, e := range entries {
		if id := EntryUUID(e); id != "" {
			if uuids[id] || t != nil && t.uuids[id] {
				continue
			}
			uuids[id] = true
		}
		fresh = append(fresh, bytes.Clone(e))
	}
	if len(fresh) == 0 {
		return nil
	}
	if t == nil {
		t = &memoryTranscript{uuids: make(map[string]bool)}
		if s.sessions == nil {
			s.sessions = make(map[SessionKey]*memoryTranscript)
		}
		s.sessions[key] = t
	}
	// Strictly later than before, so that listings have one order.
	t.mtime = max(time.Now().UnixMilli(), s.lastMTime+1)
	s.lastMTime = t.mtime
	t.entries = append(t.entries, fresh...)
	for id := range uuids {
		t.uuids[id] = true
	}
	if key.Subpath == "" {
		var prev *SessionSummary
		if t.summary.Data != nil {
			prev = &t.summary
		}
		t.summary = FoldSessionSummary(prev, key, fresh, t.mtime)
	}
	return nil
}

// Load implements [SessionStore].
func (s *InMemoryStore) Load(_ context.Context, key SessionKey) ([]Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.sessions[key]
	if t == nil {
		return nil, nil
	}
	return slices.Clone(t.entries), nil
}

// ListSessions implements [SessionLister].
func (s *InMemoryStore) ListSessions(_ context.Context, projectKey string) ([]SessionStamp, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var stamps []SessionStamp
	for key, t := range s.sessions {
		if key.ProjectKey == projectKey && key.Subpath == "" {
			stamps = append(stamps, SessionStamp{SessionID: key.SessionID, MTime: t.mtime})
		}
	}
	return stamps, nil
}

// ListSessionSummaries implements [SummaryLister].
func (s *InMemoryStore) ListSessionSummaries(_ context.Context, projectKey string) ([]SessionSummary, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var summaries []SessionSummary
	for key, t := range s.sessions {
		if key.ProjectKey == projectKey && key.Subpath == "" {
			summaries = append(summaries, t.summary)
		}
	}
	return summaries, nil
}

// DeleteSession implements [SessionDeleter].
func (s *InMemoryStore) DeleteSession(_ context.Context, key SessionKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.sessions {
		if k == key || key.Subpath == "" && k.ProjectKey == key.ProjectKey && k.SessionID == key.SessionID {
			delete(s.sessions, k)
		}
	}
	return nil
}

// ListSubkeys implements [SubkeyLister].
func (s *InMemoryStore) ListSubkeys(_ context.Context, projectKey, sessionID string) ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var subpaths []string
	for key := range s.sessions {
		if key.ProjectKey == projectKey && key.SessionID == sessionID && key.Subpath != "" {
			subpaths = append(subpaths, key.Subpath)
		}
	}
	slices.SortFunc(subpaths, strings.Compare)
	return subpaths, nil
}

// EntryUUID returns the uuid that a store recognises an entry by, "" for one
// that has none. It is for those who write stores.
func EntryUUID(e Entry) string {
	root := gjson.ParseBytes(e)
	if !root.IsObject() {
		return ""
	}
	id := root.Get("uuid")
	if id.Type != gjson.String {
		return ""
	}
	return id.Str
}
