package claude

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
)

const (
	// A drain starts when what is pending exceeds one of these. They are
	// thresholds, not bounds: one frame may hold more.
	mirrorMaxEntries = 500
	mirrorMaxUnits   = 1 << 20 // UTF-16 units of the serialised entries

	mirrorAppendTimeout = 60 * time.Second
	mirrorFirstRetry    = 200 * time.Millisecond
	mirrorSecondRetry   = 800 * time.Millisecond
)

// mirror copies what claude writes to its transcripts into a store. Entries
// arrive in frames, are gathered by file, and go out one drain after the other,
// so that the store sees every transcript in order.
type mirror struct {
	store    SessionStore
	projects string // the folder that frames' paths are relative to
	eager    bool
	report   func(Message) // takes mirror_error messages

	mu       sync.Mutex
	pending  []*mirrorBatch // in order of arrival
	entries  int
	units    int
	draining bool
	idle     chan struct{} // closed when no drain runs
}

type mirrorBatch struct {
	key     SessionKey
	entries []Entry
}

func newMirror(store SessionStore, configDir string, eager bool, report func(Message)) *mirror {
	idle := make(chan struct{})
	close(idle)
	return &mirror{store: store, projects: filepath.Join(configDir, "projects"), eager: eager, report: report, idle: idle}
}

// frame takes one transcript_mirror line. Frames of files that belong to no
// session are dropped: that happens when parent and child disagree on the
// config folder.
func (m *mirror) frame(line []byte) {
	var f struct {
		FilePath string  `json:"filePath"`
		Entries  []Entry `json:"entries"`
	}
	if json.Unmarshal(line, &f) != nil || len(f.Entries) == 0 {
		return
	}
	key, ok := keyOfFile(m.projects, f.FilePath)
	if !ok {
		return
	}
	m.add(key, f.Entries)
}

// keyOfFile finds the session that a transcript file belongs to.
func keyOfFile(projects, path string) (SessionKey, bool) {
	rel, err := filepath.Rel(projects, path)
	if err != nil {
		return SessionKey{}, false
	}
	rel, ok := strings.CutSuffix(filepath.ToSlash(rel), ".jsonl")
	if !ok {
		return SessionKey{}, false
	}
	project, rest, _ := strings.Cut(rel, "/")
	session, subpath, _ := strings.Cut(rest, "/")
	if project == ".." || session == "" {
		return SessionKey{}, false
	}
	return SessionKey{ProjectKey: project, SessionID: session, Subpath: subpath}, true
}

func (m *mirror) add(key SessionKey, entries []Entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries += len(entries)
	for _, e := range entries {
		m.units += utf16Len(e)
	}
	if batch := m.batchOf(key); batch != nil && !m.eager {
		batch.entries = append(batch.entries, entries...)
	} else {
		m.pending = append(m.pending, &mirrorBatch{key: key, entries: entries})
	}
	if m.eager || m.entries > mirrorMaxEntries || m.units > mirrorMaxUnits {
		m.startDrain()
	}
}

func (m *mirror) batchOf(key SessionKey) *mirrorBatch {
	for _, b := range m.pending {
		if b.key == key {
			return b
		}
	}
	return nil
}

// startDrain lets a goroutine send what is pending, unless one does already.
// It is called with the lock held.
func (m *mirror) startDrain() {
	if m.draining || len(m.pending) == 0 {
		return
	}
	m.draining = true
	m.idle = make(chan struct{})
	go m.drain()
}

func (m *mirror) drain() {
	for {
		m.mu.Lock()
		batches := m.pending
		m.pending, m.entries, m.units = nil, 0, 0
		if len(batches) == 0 {
			m.draining = false
			close(m.idle)
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		for _, b := range batches {
			if err := m.append(b); err != nil {
				if message, encErr := newMirrorError(uuid.NewString(), b.key, err); encErr == nil {
					m.report(message)
				}
			}
		}
	}
}

// append hands a batch to the store. A failure is tried twice more; a time-out
// is not, since that call may still succeed.
func (m *mirror) append(b *mirrorBatch) error {
	var err error
	for _, pause := range []time.Duration{0, mirrorFirstRetry, mirrorSecondRetry} {
		time.Sleep(pause)
		err = m.appendOnce(b)
		var timeout *MirrorTimeoutError
		if err == nil || errors.As(err, &timeout) {
			return err
		}
	}
	return err
}

func (m *mirror) appendOnce(b *mirrorBatch) error {
	timeout := &MirrorTimeoutError{Key: b.key}
	ctx, cancel := context.WithTimeoutCause(context.Background(), mirrorAppendTimeout, timeout)
	defer cancel()
	result := make(chan error, 1)
	go func() { result <- m.store.Append(ctx, b.key, b.entries) }()
	select {
	case err := <-result:
		if err != nil && context.Cause(ctx) == timeout {
			return timeout
		}
		return err
	case <-ctx.Done(): // a store that ignores its context must not hold up the rest
		return timeout
	}
}

// flush sends what is pending and waits until nothing is, or ctx is done.
func (m *mirror) flush(ctx context.Context) {
	m.mu.Lock()
	m.startDrain()
	idle := m.idle
	m.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// finish flushes for as long as it takes.
func (m *mirror) finish() { m.flush(context.Background()) }

// utf16Len is the length of b in UTF-16 units, which is how the limits are
// given. Bytes that are not UTF-8 count as one unit.
func utf16Len(b []byte) int {
	n := 0
	for i := 0; i < len(b); {
		if b[i] < utf8.RuneSelf {
			n++
			i++
			continue
		}
		r, size := utf8.DecodeRune(b[i:])
		if r > 0xFFFF {
			n++
		}
		n++
		i += size
	}
	return n
}
