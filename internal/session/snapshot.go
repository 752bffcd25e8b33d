package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lambae/lambae/internal/table"
)

// snapshotEvery is how many chunks lie between two snapshots at least.
const snapshotEvery = 64

// foldVersion changes with every change of what [State.Apply] makes of the same
// log. A snapshot of another version is ignored: the log has it all.
const foldVersion = 1

// snapshot is the SNAP item: the fold up to State.Next, and where the message
// history up to there is. The history is kept in segments that never change
// once written; only its last message, which may still grow, is in the snapshot.
type snapshot struct {
	Fold     int             `json:"fold"`
	State    *State          `json:"state"`
	Segments []segment       `json:"segments"`
	Last     json.RawMessage `json:"last,omitempty"`
	Ops      int64           `json:"ops"`
	Replaced []replacement   `json:"replaced,omitempty"`
	// First is the lowest chunk after chunk 0 that is still there, see [Log.Retain].
	First int64 `json:"first,omitempty"`
}

// segment names messages [From, To) of the history.
type segment struct {
	From int `json:"from"`
	To   int `json:"to"`
}

func (g segment) key(session string) table.Key {
	return table.Key{PK: logKey(session), SK: fmt.Sprintf("H#%08d-%08d", g.From, g.To)}
}

// sealed is what a Log knows of its snapshot in store.
type sealed struct {
	snap   *snapshot // nil when there is none; its State has been handed over
	thread thread
	next   int64
}

// readSnapshot returns the snapshot in store, nil when there is none that this
// release can use.
func (s *Store) readSnapshot(ctx context.Context, session string) (*snapshot, int64, error) {
	items, err := s.table.Get(ctx, table.Key{PK: logKey(session), SK: "SNAP"})
	if err != nil {
		return nil, 0, fmt.Errorf("read the snapshot of %s: %w", session, err)
	}
	if !items[0].Exists() {
		return nil, 0, nil
	}
	version := items[0].Version
	body, err := s.openValue(ctx, session, items[0].Body)
	if err != nil {
		return nil, version, fmt.Errorf("read the snapshot of %s: %w", session, err)
	}
	var snap snapshot
	if err := json.Unmarshal(body, &snap); err != nil {
		return nil, version, fmt.Errorf("read the snapshot of %s: %w", session, err)
	}
	if snap.Fold != foldVersion || snap.State == nil {
		if snap.First > 0 {
			// Below First there is no log to fold anew.
			return nil, version, fmt.Errorf("read the snapshot of %s: %w", session, ErrUnknownFormat)
		}
		s.opts.Logger.Warn("snapshot of another release, folding the whole log", "session", session)
		return nil, version, nil
	}
	return &snap, version, nil
}

func (l *Log) loadSnapshot(ctx context.Context) error {
	snap, version, err := l.store.readSnapshot(ctx, l.ID)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.snapVer = version
	if snap == nil || l.state.Next >= snap.State.Next {
		return nil
	}
	l.state = snap.State
	if l.state.Clients == nil {
		l.state.Clients = map[string]*Client{}
	}
	if l.state.Hashes == nil {
		l.state.Hashes = map[string]SecretRef{}
	}
	l.history = nil
	l.recent, l.recentSz = nil, 0
	l.sealed = sealed{snap: snap, thread: snap.State.Thread, next: snap.State.Next}
	l.snapAt = snap.State.Next + snapshotEvery
	return nil
}

// History returns the message history, building it from the snapshot's segments
// and the chunks after it when this process has only needed the state so far.
func (l *Log) History(ctx context.Context) (*History, error) {
	l.mu.Lock()
	h, seal := l.history, l.sealed
	l.mu.Unlock()
	if h != nil {
		return h, nil
	}
	h, err := l.store.readHistory(ctx, l.ID, seal.snap)
	if err != nil {
		return nil, err
	}
	t, at := seal.thread, seal.next
	for {
		l.mu.Lock()
		if l.history != nil {
			h = l.history
			l.mu.Unlock()
			return h, nil
		}
		if at == l.state.Next {
			l.history = h
			l.mu.Unlock()
			return h, nil
		}
		l.mu.Unlock()
		chunks, err := l.Chunks(ctx, at)
		if err != nil {
			return nil, err
		}
		for _, c := range chunks {
			for i := range c.Entries {
				for _, m := range t.apply(&c.Entries[i]) {
					h.add(m)
				}
			}
		}
		at += int64(len(chunks))
	}
}

func (s *Store) readHistory(ctx context.Context, session string, snap *snapshot) (*History, error) {
	h := &History{}
	if snap == nil {
		return h, nil
	}
	keys := make([]table.Key, len(snap.Segments))
	for i, g := range snap.Segments {
		keys[i] = g.key(session)
	}
	items, err := s.table.Get(ctx, keys...)
	if err != nil {
		return nil, fmt.Errorf("read the history of %s: %w", session, err)
	}
	for i, it := range items {
		if !it.Exists() {
			return nil, fmt.Errorf("read the history of %s: segment %s is missing", session, keys[i].SK)
		}
		body, err := s.openValue(ctx, session, it.Body)
		if err != nil {
			return nil, err
		}
		var messages []json.RawMessage
		if err := json.Unmarshal(body, &messages); err != nil {
			return nil, fmt.Errorf("read the history of %s: segment %s: %w", session, keys[i].SK, err)
		}
		for _, m := range messages {
			h.restore(m)
		}
	}
	if len(snap.Last) > 0 {
		h.restore(snap.Last)
	}
	h.ops, h.replaced = snap.Ops, snap.Replaced
	return h, nil
}

// restore appends a message that was taken from a history before.
func (h *History) restore(m json.RawMessage) {
	if len(h.ends) > 0 {
		h.buf = append(h.buf, ',')
	}
	h.buf = append(h.buf, m...)
	h.ends = append(h.ends, len(h.buf))
	h.roles = append(h.roles, messageRole(m)[0])
}

// Snapshot writes a snapshot when one is due. It is called at the end of a
// turn, before the handler returns; a failure costs later readers time, nothing
// else, and is only logged.
func (l *Log) Snapshot(ctx context.Context) {
	l.mu.Lock()
	due := l.state.Next >= max(l.snapAt, snapshotEvery)
	l.mu.Unlock()
	if !due {
		return
	}
	if err := l.writeSnapshot(context.WithoutCancel(ctx), 0); err != nil && !errors.Is(err, table.ErrCondition) {
		l.store.opts.Logger.Warn("snapshot not written", "session", l.ID, "error", err)
	}
}

// writeSnapshot writes one that says that the log is kept from first on; 0 leaves
// that as it is.
func (l *Log) writeSnapshot(ctx context.Context, first int64) error {
	h, err := l.History(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	if first == 0 && l.state.Next < l.snapAt { // somebody else in this process was first
		l.mu.Unlock()
		return nil
	}
	l.snapAt = l.state.Next + snapshotEvery
	var segments []segment
	if l.sealed.snap != nil {
		segments = l.sealed.snap.Segments
	}
	from := 0
	if n := len(segments); n > 0 {
		from = segments[n-1].To
	}
	next := segment{From: from, To: h.Stable()}
	var sealedNow json.RawMessage
	if next.To > next.From {
		sealedNow = append(append([]byte{'['}, h.buf[h.start(next.From):h.ends[next.To-1]]...), ']')
		segments = append(segments[:len(segments):len(segments)], next)
	}
	snap := &snapshot{Fold: foldVersion, State: l.state, Segments: segments, Ops: h.ops, Replaced: h.replaced, First: max(first, l.sealed.first())}
	if n := h.Len(); n > 0 {
		snap.Last = h.message(n - 1)
	}
	body := MarshalJSON(snap)
	snap.State = nil
	seal := sealed{snap: snap, thread: l.state.Thread, next: l.state.Next}
	version := l.snapVer
	l.mu.Unlock()

	if sealedNow != nil {
		if _, err := l.store.putValue(ctx, l.ID, table.Op{Key: next.key(l.ID), Body: sealedNow}); err != nil {
			return err
		}
	}
	cond := table.IfAbsent()
	if version != 0 {
		cond = table.IfVersion(version)
	}
	v, err := l.store.putValue(ctx, l.ID, table.Op{Key: table.Key{PK: logKey(l.ID), SK: "SNAP"}, Body: body, If: cond})
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.snapVer, l.sealed = v, seal
	l.forgetDeleted()
	l.mu.Unlock()
	return nil
}
