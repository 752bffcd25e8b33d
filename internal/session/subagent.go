package session

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// Subagent is a remote subagent the session tracks (protocol, "Remote
// subagents"): from its launch until the status tool has reported its end.
type Subagent struct {
	ID      string `json:"id"`
	Sandbox string `json:"sandbox"`
	Harness string `json:"harness"`
	Model   string `json:"model"`
	Key     string `json:"key"`        // client key id of the driver whose turn launched it
	Timeout int64  `json:"timeout_ms"` // of the command
	Wall    int64  `json:"wall"`       // the launcher's clock, Unix ms
	Status  string `json:"status"`
	// Reason and ExitCode are those of the terminal event.
	Reason   *string `json:"reason,omitempty"`
	ExitCode *int    `json:"exit_code,omitempty"`
	Detail   *string `json:"detail,omitempty"`
	// Output is the chunk that has the output's mark, 0 for none.
	Output int64 `json:"output,omitempty"`
}

// Statuses of a subagent, as the status tool tells them.
const (
	SubagentStatusRunning   = "running"
	SubagentStatusCompleted = "completed"
	SubagentStatusFailed    = "failed"
	SubagentStatusTimedOut  = "timed_out"
	SubagentStatusCancelled = "cancelled"
)

// Reasons of a failed subagent.
const (
	FailedExit    = "nonzero_exit"
	FailedSpawn   = "spawn_failed"
	FailedTimeout = "timeout"
)

// SubagentOutput is what a subagent said, as its mark keeps it.
type SubagentOutput struct {
	ID        string `json:"id"`
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	Truncated bool   `json:"truncated,omitempty"`
}

// SubagentEnd is how a subagent ended. The zero Reason is that of exit code 0.
type SubagentEnd struct {
	Cancelled bool
	Reason    string
	ExitCode  *int
	Detail    *string
	Output    *SubagentOutput // nil when there is none to keep
}

// subagentPayload is the payload of a remote subagent's event.
type subagentPayload struct {
	Dispatch   string           `json:"dispatch"`
	SubagentID string           `json:"subagent_id"`
	Harness    string           `json:"harness"`
	Model      string           `json:"model"`
	Detail     *string          `json:"detail"`
	Reason     *string          `json:"reason,omitempty"`
	ExitCode   *json.RawMessage `json:"exit_code,omitempty"`
}

func (a *Subagent) event(kind string, end SubagentEnd) Entry {
	p := subagentPayload{Dispatch: "remote", SubagentID: a.ID, Harness: a.Harness, Model: a.Model, Detail: end.Detail}
	if kind == SubagentFailed || kind == SubagentCancelled {
		p.Reason = &end.Reason
	}
	if kind == SubagentCompleted || kind == SubagentFailed {
		code := MarshalJSON(end.ExitCode)
		p.ExitCode = &code
	}
	return Entry{Type: kind, Key: a.Key, Payload: EscapeLines(MarshalJSON(p))}
}

// ended is the terminal event, with the output before it.
func (a *Subagent) ended(end SubagentEnd) []Entry {
	kind := SubagentCompleted
	switch {
	case end.Cancelled:
		kind = SubagentCancelled
	case end.Reason != "":
		kind = SubagentFailed
	}
	var entries []Entry
	if end.Output != nil {
		end.Output.ID = a.ID
		entries = append(entries, Entry{Type: MarkOutput, Key: a.Key, Payload: MarshalJSON(end.Output)})
	}
	return append(entries, a.event(kind, end))
}

// BeginSubagent is what a launch appends before it does anything.
func BeginSubagent(a Subagent) []Entry {
	return []Entry{
		{Type: MarkSubagent, Key: a.Key, Payload: MarshalJSON(a)},
		a.event(SubagentStart, SubagentEnd{}),
		a.event(SubagentRunning, SubagentEnd{}),
	}
}

// ForgetSubagents is appended with the report of finished subagents.
func ForgetSubagents(key string, ids []string) Entry {
	return Entry{Type: MarkForget, Key: key, Payload: MarshalJSON(ids)}
}

// applySubagent folds what concerns subagents. Entries of Subagents are replaced,
// never changed in place.
func (s *State) applySubagent(c *Chunk, e *Entry) {
	switch e.Type {
	case MarkSubagent:
		var a Subagent
		_ = json.Unmarshal(e.Payload, &a)
		a.Key, a.Status = e.Key, SubagentStatusRunning
		s.Subagents = append(slices.Clip(s.Subagents), a)
		return
	case MarkForget:
		var ids []string
		_ = json.Unmarshal(e.Payload, &ids)
		s.Subagents = slices.DeleteFunc(slices.Clone(s.Subagents), func(a Subagent) bool { return slices.Contains(ids, a.ID) })
		return
	case MarkOutput:
		var out struct {
			ID string `json:"id"`
		}
		_ = json.Unmarshal(e.Payload, &out)
		s.change(out.ID, func(a *Subagent) { a.Output = c.N })
		return
	}
	var p subagentPayload
	if json.Unmarshal(e.Payload, &p) != nil || p.Dispatch != "remote" {
		return
	}
	s.change(p.SubagentID, func(a *Subagent) {
		a.Reason, a.Detail, a.ExitCode = p.Reason, p.Detail, nil
		if p.ExitCode != nil {
			_ = json.Unmarshal(*p.ExitCode, &a.ExitCode)
		}
		switch {
		case e.Type == SubagentCompleted:
			a.Status = SubagentStatusCompleted
		case e.Type == SubagentCancelled:
			a.Status = SubagentStatusCancelled
		case p.Reason != nil && *p.Reason == FailedTimeout:
			a.Status = SubagentStatusTimedOut
		default:
			a.Status = SubagentStatusFailed
		}
	})
}

// change changes a subagent that runs.
func (s *State) change(id string, f func(a *Subagent)) {
	i := slices.IndexFunc(s.Subagents, func(a Subagent) bool { return a.ID == id && a.Status == SubagentStatusRunning })
	if i < 0 {
		return
	}
	s.Subagents = slices.Clone(s.Subagents)
	f(&s.Subagents[i])
}

// RunningSubagents is how many subagents run.
func (s *State) RunningSubagents() (n int) {
	for i := range s.Subagents {
		if s.Subagents[i].Status == SubagentStatusRunning {
			n++
		}
	}
	return n
}

// Subagent returns a tracked subagent.
func (s *State) Subagent(id string) (Subagent, bool) {
	i := slices.IndexFunc(s.Subagents, func(a Subagent) bool { return a.ID == id })
	if i < 0 {
		return Subagent{}, false
	}
	return s.Subagents[i], true
}

// cancelSubagents are the events of all subagents that run in a sandbox, "" for
// any. A stop that a client did not ask for counts as the session's.
func (s *State) cancelSubagents(sandbox, reason string) (entries []Entry) {
	for i := range s.Subagents {
		if a := &s.Subagents[i]; a.Status == SubagentStatusRunning && (sandbox == "" || a.Sandbox == sandbox) {
			entries = append(entries, a.ended(SubagentEnd{Cancelled: true, Reason: reason})...)
		}
	}
	return entries
}

// loseSubagents are the events of the subagents of a sandbox that ended by itself.
func (s *State) loseSubagents(sandbox, detail string) (entries []Entry) {
	for i := range s.Subagents {
		if a := &s.Subagents[i]; a.Status == SubagentStatusRunning && a.Sandbox == sandbox {
			entries = append(entries, a.ended(SubagentEnd{Reason: FailedExit, Detail: &detail})...)
		}
	}
	return entries
}

// EndSubagent appends the end of a subagent and reports whether it was still
// running. The first end stays: later ones fold to nothing.
func (l *Log) EndSubagent(ctx context.Context, id string, end SubagentEnd) (was bool, err error) {
	_, err = l.Append(ctx, func(s *State) (Draft, error) {
		entries := s.EndSubagent(id, end)
		was = len(entries) > 0
		return Draft{Entries: entries}, nil
	})
	return was, err
}

// EndSubagent is what [Log.EndSubagent] appends: nothing for one that has ended.
func (s *State) EndSubagent(id string, end SubagentEnd) []Entry {
	a, ok := s.Subagent(id)
	if !ok || a.Status != SubagentStatusRunning {
		return nil
	}
	return a.ended(end)
}

// Output reads what a subagent said; nil when nothing was kept of it.
func (l *Log) Output(ctx context.Context, a Subagent) (*SubagentOutput, error) {
	if a.Output == 0 {
		return nil, nil
	}
	c, err := l.chunkAt(ctx, a.Output)
	if err != nil {
		return nil, err
	}
	if c != nil {
		for i := range c.Entries {
			var out SubagentOutput
			if e := &c.Entries[i]; e.Type == MarkOutput && json.Unmarshal(e.Payload, &out) == nil && out.ID == a.ID {
				return &out, nil
			}
		}
	}
	return nil, fmt.Errorf("read the output of %s: chunk %d of %s does not have it", a.ID, a.Output, l.ID)
}

// Started is when the subagent was launched, by the launcher's clock.
func (a Subagent) Started() time.Time { return time.UnixMilli(a.Wall) }
