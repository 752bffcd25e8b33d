package session

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"
)

// Sandbox is the session's one remote sandbox: what its events and marks say of
// it (protocol, "Gates and messages", session.startRemoteSandbox).
type Sandbox struct {
	ID    string `json:"id"`
	Image string `json:"image"`
	Key   string `json:"key"` // client key id of the driver that started it
	// Running is false while it starts.
	Running bool `json:"running,omitempty"`
	// Boot and Wall are the lease of the start: the process that does it, and its
	// clock when it began, Unix ms.
	Boot string `json:"boot"`
	Wall int64  `json:"wall"`
	// Reason is that of its stop.
	Reason string `json:"reason,omitempty"`
}

// Reasons of a remote sandbox's stop. The last two are ours.
const (
	StopExplicit = "explicit"
	StopClose    = "session_close"
	StopIdle     = "idle"
	StopLost     = "lost" // it ended by itself
)

// Phases of a session.sandbox.error event.
const (
	PhaseStart = "start"
	PhaseStop  = "stop"
	PhaseExec  = "exec"
)

// StartLease is how long a start may take. After it anyone may append its error.
const StartLease = 10 * time.Minute

var (
	// ErrSandboxRunning refuses a second sandbox.
	ErrSandboxRunning = &Refusal{Text: "a remote sandbox is already running for this session; call session.stopRemoteSandbox first"}
	// ErrNoSandbox is returned when the session has no running sandbox, or not the
	// one that is meant.
	ErrNoSandbox = errors.New("no remote sandbox is running for this session")
)

// sandboxPayload is the payload of a remote sandbox's event.
type sandboxPayload struct {
	Image       string `json:"image"`
	SandboxID   string `json:"sandbox_id,omitempty"`
	Reason      string `json:"reason,omitempty"`
	Phase       string `json:"phase,omitempty"`
	Detail      string `json:"detail,omitempty"`
	Dispatch    string `json:"dispatch"`
	Unsandboxed *bool  `json:"unsandboxed,omitempty"`
}

// event is an event of the sandbox, attributed to whoever started it.
func (b *Sandbox) event(kind string, p sandboxPayload) Entry {
	p.Image, p.Dispatch = b.Image, "remote"
	if kind != SandboxStart {
		p.Unsandboxed = new(bool)
	}
	return Entry{Type: kind, Key: b.Key, Payload: EscapeLines(MarshalJSON(p))}
}

func (b *Sandbox) failed(phase, detail string) Entry {
	p := sandboxPayload{Phase: phase, Detail: detail}
	if b.Running || phase != PhaseStart {
		p.SandboxID = b.ID
	}
	return b.event(SandboxError, p)
}

// applySandbox folds what concerns the sandbox. Events of local sandboxes, which
// clients report, change nothing.
func (s *State) applySandbox(e *Entry) {
	if e.Type == MarkSandbox {
		var b Sandbox
		_ = json.Unmarshal(e.Payload, &b)
		b.Key, b.Boot, b.Wall = e.Key, e.Boot, e.Wall
		s.Sandbox = &b
		return
	}
	var p sandboxPayload
	if json.Unmarshal(e.Payload, &p) != nil || p.Dispatch != "remote" {
		return
	}
	switch e.Type {
	case SandboxRunning:
		if b := s.Sandbox; b != nil && b.ID == p.SandboxID {
			running := *b // never changed in place: callers keep copies of the pointer
			running.Running = true
			s.Sandbox = &running
		}
	case SandboxStop:
		if b := s.Sandbox; b != nil && b.ID == p.SandboxID {
			stopping := *b
			stopping.Reason = p.Reason
			s.Stopping, s.Sandbox = append(slices.Clip(s.Stopping), stopping), nil
		}
	case SandboxStopped:
		s.forgetSandbox(p.SandboxID)
	case SandboxError:
		switch p.Phase {
		case PhaseStart:
			if b := s.Sandbox; b != nil && !b.Running {
				s.Sandbox = nil
			}
		case PhaseStop:
			s.forgetSandbox(p.SandboxID)
		}
	}
}

// forgetSandbox takes a sandbox that has ended, however, out of the state.
func (s *State) forgetSandbox(id string) {
	s.Stopping = slices.DeleteFunc(slices.Clone(s.Stopping), func(b Sandbox) bool { return b.ID == id })
	if s.Sandbox != nil && s.Sandbox.ID == id {
		s.Sandbox = nil
	}
}

// Unclean reports whether a session that has ended still has something running:
// events will follow its end.
func (s *State) Unclean() bool {
	return s.Sandbox != nil || len(s.Stopping) > 0 || s.RunningSubagents() > 0
}

// startDead reports whether the start under way has lost its process.
func (l *Log) startDead(b *Sandbox) bool {
	if b.Boot == l.store.boot {
		return false // whoever starts it appends the outcome
	}
	return l.store.table.Exclusive() || l.store.now().Sub(time.UnixMilli(b.Wall)) > StartLease+clockSkew
}

// StartLost reports whether the start of the sandbox has lost its process. It is
// false for one that runs.
func (l *Log) StartLost(id string) (lost bool) {
	l.View(func(s *State) {
		b := s.Sandbox
		lost = b != nil && b.ID == id && !b.Running && l.startDead(b)
	})
	return lost
}

// BeginSandbox appends the start of a sandbox. A start whose process died is
// closed first. It fails with [ErrSandboxRunning] or a refusal of a session that
// has ended.
func (l *Log) BeginSandbox(ctx context.Context, key, id, image string) error {
	_, err := l.Append(ctx, func(s *State) (Draft, error) {
		if !s.Open() {
			return Draft{}, NotOpen(s.Status)
		}
		var d Draft
		if b := s.Sandbox; b != nil {
			if b.Running || !l.startDead(b) {
				return Draft{}, ErrSandboxRunning
			}
			d.Entries = append(d.Entries, b.failed(PhaseStart, lostStart))
		}
		b := Sandbox{ID: id, Image: image, Key: key}
		d.Entries = append(d.Entries,
			Entry{Type: MarkSandbox, Key: key, Payload: MarshalJSON(b), Boot: l.store.boot, Wall: l.store.now().UnixMilli()},
			b.event(SandboxStart, sandboxPayload{}))
		return d, nil
	})
	return err
}

const lostStart = "the server stopped while the sandbox was starting"

// SandboxStarted appends that the sandbox runs and returns when. It fails with
// [ErrNoSandbox] when it is not wanted any more: the session was closed meanwhile.
func (l *Log) SandboxStarted(ctx context.Context, id string) (time.Time, error) {
	c, err := l.Append(ctx, func(s *State) (Draft, error) {
		b := s.Sandbox
		if b == nil || b.ID != id || b.Running || !s.Open() {
			return Draft{}, ErrNoSandbox
		}
		return Draft{Entries: []Entry{b.event(SandboxRunning, sandboxPayload{SandboxID: id})}}, nil
	})
	if err != nil {
		return time.Time{}, err
	}
	return c.Time(), nil
}

// SandboxNotStarted appends the error of a start. A start that somebody else has
// closed already is no error.
func (l *Log) SandboxNotStarted(ctx context.Context, id, detail string) error {
	_, err := l.Append(ctx, func(s *State) (Draft, error) {
		b := s.Sandbox
		if b == nil || b.ID != id || b.Running {
			return Draft{}, nil
		}
		return Draft{Entries: []Entry{b.failed(PhaseStart, detail)}}, nil
	})
	return err
}

// StopSandbox appends the beginning of a stop: the session has no sandbox from
// here on, and the subagents in it are cancelled. It returns the sandbox, for the
// driver to stop. unless may refuse, at the moment of the decision; it may be nil.
func (l *Log) StopSandbox(ctx context.Context, reason string, unless func(s *State) bool) (Sandbox, error) {
	var stopped Sandbox
	_, err := l.Append(ctx, func(s *State) (Draft, error) {
		b := s.Sandbox
		if b == nil || !b.Running || unless != nil && unless(s) {
			return Draft{}, ErrNoSandbox
		}
		stopped = *b
		d := Draft{Entries: s.cancelSubagents(b.ID, reason)}
		d.Entries = append(d.Entries, b.event(SandboxStop, sandboxPayload{SandboxID: b.ID, Reason: reason}))
		return d, nil
	})
	return stopped, err
}

// SandboxStopped appends the end of a stop, or, with a detail, its failure. Either
// way the sandbox is forgotten.
func (l *Log) SandboxStopped(ctx context.Context, id, failure string) error {
	_, err := l.Append(ctx, func(s *State) (Draft, error) {
		i := slices.IndexFunc(s.Stopping, func(b Sandbox) bool { return b.ID == id })
		if i < 0 {
			return Draft{}, nil
		}
		b := &s.Stopping[i]
		if failure != "" {
			return Draft{Entries: []Entry{b.failed(PhaseStop, failure)}}, nil
		}
		return Draft{Entries: []Entry{b.event(SandboxStopped, sandboxPayload{SandboxID: id, Reason: b.Reason})}}, nil
	})
	return err
}

// SandboxFailed appends that a command could not be run in the sandbox. The
// sandbox stays.
func (l *Log) SandboxFailed(ctx context.Context, key, id, detail string) error {
	_, err := l.Append(ctx, func(s *State) (Draft, error) {
		if !s.Open() || s.Sandbox == nil || s.Sandbox.ID != id {
			return Draft{}, nil // it ended, which has an event of its own
		}
		b := *s.Sandbox
		b.Key = key
		return Draft{Entries: []Entry{b.failed(PhaseExec, detail)}}, nil
	})
	return err
}

// SandboxLost appends that a sandbox ended by itself, and its subagents with it.
// What is known already is no error: such news come more than once. over is false
// while somebody stops the sandbox, who appends its end.
func (l *Log) SandboxLost(ctx context.Context, id, detail string) (over bool, err error) {
	_, err = l.Append(ctx, func(s *State) (Draft, error) {
		over = !slices.ContainsFunc(s.Stopping, func(b Sandbox) bool { return b.ID == id })
		b := s.Sandbox
		switch {
		case b == nil || b.ID != id:
			return Draft{}, nil
		case !b.Running:
			return Draft{Entries: []Entry{b.failed(PhaseStart, detail)}}, nil
		}
		d := Draft{Entries: []Entry{b.failed(PhaseExec, detail)}}
		d.Entries = append(d.Entries, s.loseSubagents(id, detail)...)
		d.Entries = append(d.Entries, b.event(SandboxStopped, sandboxPayload{SandboxID: id, Reason: StopLost}))
		return d, nil
	})
	return over, err
}

// EndSandbox appends what follows the end of a session: its subagents are
// cancelled, its sandbox begins to stop. It returns the sandboxes for the driver
// to stop, those included whose stop somebody else began.
func (l *Log) EndSandbox(ctx context.Context) (stop []Sandbox, err error) {
	_, err = l.Append(ctx, func(s *State) (Draft, error) {
		stop = nil
		if s.Open() {
			return Draft{}, nil
		}
		stop = slices.Clone(s.Stopping)
		d := Draft{Entries: s.cancelSubagents("", StopClose)}
		switch b := s.Sandbox; {
		case b == nil:
		case b.Running:
			d.Entries = append(d.Entries, b.event(SandboxStop, sandboxPayload{SandboxID: b.ID, Reason: StopClose}))
			stop = append(stop, *b)
		default:
			// Its starter stops what it started when it sees this.
			d.Entries = append(d.Entries, b.failed(PhaseStart, "the session was closed while the sandbox was starting"))
			stop = append(stop, *b)
		}
		return d, nil
	})
	return stop, err
}
