package claude

import (
	"context"
	"encoding/json"
	"fmt"
)

// Entry is one line of a transcript: a JSON value that stores pass through.
// Most are objects with a "type" and many have a "uuid".
type Entry = json.RawMessage

// SessionKey names one transcript in a store.
type SessionKey struct {
	// ProjectKey is the scope of a session, by default [ProjectKey] of its
	// working directory.
	ProjectKey string `json:"projectKey"`
	SessionID  string `json:"sessionId"`
	// Subpath is empty for the session's own transcript, and names those of its
	// subagents, such as "subagents/agent-a1b2". Opaque to a store.
	Subpath string `json:"subpath,omitempty"`
}

// String renders the key for messages to people.
func (k SessionKey) String() string {
	if k.Subpath == "" {
		return k.ProjectKey + "/" + k.SessionID
	}
	return k.ProjectKey + "/" + k.SessionID + "/" + k.Subpath
}

// SessionStore keeps copies of transcripts. Append and Load are all that
// mirroring, resuming, renaming, tagging and forking need; the optional
// interfaces below unlock the rest. Package storetest has the contract that
// every store must pass.
type SessionStore interface {
	// Append adds entries to a transcript, in order. Entries with a "uuid" that
	// is stored already are not stored again, so that a call can be repeated.
	// Appending nothing does nothing.
	Append(ctx context.Context, key SessionKey, entries []Entry) error
	// Load returns a whole transcript in order, nil if there is none. Entries
	// are equal to what was appended as JSON values; their bytes may differ.
	Load(ctx context.Context, key SessionKey) ([]Entry, error)
}

// SessionLister is a store that can list sessions.
type SessionLister interface {
	// ListSessions returns the sessions of a project that have a transcript of
	// their own, in any order.
	ListSessions(ctx context.Context, projectKey string) ([]SessionStamp, error)
}

// SessionStamp says when a session was last written.
type SessionStamp struct {
	SessionID string `json:"sessionId"`
	MTime     int64  `json:"mtime"` // milliseconds since 1970
}

// SummaryLister is a store that keeps a [SessionSummary] per session with
// [FoldSessionSummary] as entries come, so that listing reads no transcript.
type SummaryLister interface {
	ListSessionSummaries(ctx context.Context, projectKey string) ([]SessionSummary, error)
}

// SessionDeleter is a store that can forget. Deleting a session's transcript
// deletes those of its subagents; deleting an unknown key is no error.
type SessionDeleter interface {
	DeleteSession(ctx context.Context, key SessionKey) error
}

// SubkeyLister is a store that can list the subpaths of a session.
type SubkeyLister interface {
	ListSubkeys(ctx context.Context, projectKey, sessionID string) ([]string, error)
}

// unsupported is the error for a store without an optional interface.
func unsupported(what, method string) error {
	return fmt.Errorf("%w: cannot %s; give the store a method %s", ErrUnsupportedByStore, what, method)
}
