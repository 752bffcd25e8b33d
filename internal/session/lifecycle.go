package session

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/lambae/lambae/internal/table"
)

// Opening is what a new session starts with.
type Opening struct {
	ID            string
	Key           string // client key id
	SecretHash    string // of the session key minted for it
	ProfileID     string
	ClientVersion *string
	MCP           []Tool
	Declaration   Declaration
	Idem          *Idem
	Shown         json.RawMessage // what the answer shows of the profile, for a repeat with the same Idem
	Created       time.Time
}

// Open writes chunk 0 of a session. It fails with [table.ErrCondition] when a
// session with that id exists.
func (s *Store) Open(ctx context.Context, o Opening) (*Log, func(), error) {
	create := Create{ProfileID: o.ProfileID, ClientVersion: o.ClientVersion, MCP: o.MCP}
	entries := []Entry{
		{Type: MarkCreate, Key: o.Key, Payload: MarshalJSON(create), Wall: o.Created.UnixMilli()},
		{Type: MarkKey, Key: o.Key, Hash: o.SecretHash},
		{Type: MarkDeclare, Key: o.Key, Payload: MarshalJSON(o.Declaration)},
		{Type: SessionOpen, Key: o.Key, Payload: declared(o.ClientVersion, o.Declaration)},
	}
	if o.Idem != nil {
		entries = append(entries, Entry{Type: MarkIdem, Key: o.Key, Idem: o.Idem, Payload: o.Shown})
	}
	return s.Create(ctx, o.ID, entries)
}

// Audit writes a session that never opened: one session.error event, in state
// error from the start (protocol, "REST details").
func (s *Store) Audit(ctx context.Context, id, key, profileID string, version *string, payload json.RawMessage, created time.Time) error {
	_, release, err := s.Create(ctx, id, []Entry{
		{Type: MarkCreate, Key: key, Payload: MarshalJSON(Create{ProfileID: profileID, ClientVersion: version}), Wall: created.UnixMilli()},
		{Type: SessionError, Key: key, Payload: payload},
		{Type: MarkErrState},
	})
	if err == nil {
		release()
	}
	return err
}

// Joining is what a client brings to a session.
type Joining struct {
	Key           string
	SecretHash    string
	ClientVersion *string
	Declaration   Declaration
	Idem          *Idem
	Shown         json.RawMessage // see [Opening]
}

// Join lets a client in. A *[Refusal] with a Status says that the session has
// ended. With an Idem that was spent on the same body it does nothing again.
func (l *Log) Join(ctx context.Context, j Joining) error {
	_, err := l.Append(ctx, func(s *State) (Draft, error) {
		if j.Idem != nil {
			if sp := s.Idem[j.Idem.Key]; sp != nil {
				if sp.Body != j.Idem.Body {
					return Draft{}, ErrIdemMismatch
				}
				return Draft{}, nil
			}
		}
		if !s.Open() {
			return Draft{}, NotOpen(s.Status)
		}
		entries := []Entry{
			{Type: MarkKey, Key: j.Key, Hash: j.SecretHash},
			{Type: MarkDeclare, Key: j.Key, Payload: MarshalJSON(j.Declaration)},
			{Type: SessionJoin, Key: j.Key, Payload: declared(j.ClientVersion, j.Declaration)},
		}
		if j.Idem != nil {
			entries = append(entries, Entry{Type: MarkIdem, Key: j.Key, Idem: j.Idem, Payload: j.Shown})
		}
		return Draft{Entries: entries}, nil
	})
	return err
}

// Spent looks for an open or join that spent an Idempotency-Key before, and
// returns what its answer showed of the profile. It fails with [ErrIdemMismatch]
// when the body was another.
func (l *Log) Spent(ctx context.Context, idem *Idem) (shown json.RawMessage, spent bool, err error) {
	var first Spent
	l.View(func(s *State) {
		if sp := s.Idem[idem.Key]; sp != nil {
			first, spent = *sp, true
		}
	})
	switch {
	case !spent:
		return nil, false, nil
	case first.Body != idem.Body:
		return nil, true, ErrIdemMismatch
	}
	c, err := l.chunkAt(ctx, first.Pos)
	if err != nil || c == nil { // deleted with old events, after its time
		return nil, false, err
	}
	for i := range c.Entries {
		if e := &c.Entries[i]; e.Type == MarkIdem && e.Idem != nil && e.Idem.Key == idem.Key {
			shown = e.Payload
		}
	}
	return shown, true, nil
}

// declared is the payload of session.open and session.join.
func declared(version *string, d Declaration) json.RawMessage {
	names := func(tools []Tool) []string {
		out := make([]string, len(tools))
		for i, t := range tools {
			out[i] = t.Name
		}
		return out
	}
	return MarshalJSON(struct {
		ClientVersion *string  `json:"client_version"`
		Tools         []string `json:"tools"`
		Sandbox       []string `json:"sandbox_tools"`
		Subagent      []string `json:"subagent_tools"`
	}{version, names(d.Tools), names(d.Sandbox), names(d.Subagent)})
}

// Close appends session.close for a client. A *[Refusal] with a Status says
// that the session had ended before.
func (l *Log) Close(ctx context.Context, key string) error {
	_, err := l.Append(ctx, func(s *State) (Draft, error) {
		if !s.Open() {
			return Draft{}, &Refusal{Status: s.Status, Text: "session is already " + s.Status}
		}
		return Draft{Entries: []Entry{closing(key, CloseByClient)}}, nil
	})
	return err
}

func closing(key, reason string) Entry {
	return Entry{Type: SessionClose, Key: key, Payload: json.RawMessage(`{"reason":"` + reason + `"}`)}
}

// Revoke takes a client key's rights on the session and closes it when no other
// client has any left (design-log 5). closed reports whether it did.
func (l *Log) Revoke(ctx context.Context, key string) (closed bool, err error) {
	_, err = l.Append(ctx, func(s *State) (Draft, error) {
		closed = false
		c := s.Clients[key]
		if c == nil || c.Revoked {
			return Draft{}, nil
		}
		entries := []Entry{{Type: MarkRevoked, Key: key}}
		if s.Open() && !s.othersActive(key) {
			entries = append(entries, closing(key, CloseByRevoked))
			closed = true
		}
		return Draft{Entries: entries}, nil
	})
	return closed, err
}

func (s *State) othersActive(key string) bool {
	for id, c := range s.Clients {
		if id != key && !c.Revoked {
			return true
		}
	}
	return false
}

// KeyOf returns the client key id that a session key (by hash) belongs to, ""
// when it opens nothing here.
func (s *State) KeyOf(secretHash string) string {
	ref, ok := s.Hashes[secretHash]
	if !ok || s.Clients[ref.Key] == nil || s.Clients[ref.Key].Revoked {
		return ""
	}
	return ref.Key
}

// Row is the session as the admin API lists it.
func (l *Log) Row() (row SessionRow) {
	l.View(func(s *State) {
		row = SessionRow{ID: s.ID, ProfileID: s.ProfileID, State: s.Status, ClientVersion: s.ClientVersion, CreatedAt: time.UnixMilli(s.Created)}
		if !s.Open() {
			t := time.UnixMilli(s.Ended)
			row.ClosedAt = &t
		}
	})
	return row
}

// Logged is the [StateLookup] of the admin API's session list.
func (s *Store) Logged(ctx context.Context, id string) (LoggedState, error) {
	l, release, err := s.Log(ctx, id)
	if errors.Is(err, ErrNoSession) {
		return LoggedState{}, nil
	}
	if err != nil {
		return LoggedState{}, err
	}
	defer release()
	row := l.Row()
	return LoggedState{Exists: true, State: row.State, CreatedAt: row.CreatedAt, ClosedAt: row.ClosedAt}, nil
}

// Exists reports whether err of [Store.Open] says that the session was there before.
func Exists(err error) bool { return errors.Is(err, table.ErrCondition) }
