package lambae

import (
	"context"
	"encoding/json"
	"time"
)

// RemoteSandbox is the session's one remote sandbox.
type RemoteSandbox struct {
	SandboxID string     `json:"sandbox_id"`
	Image     string     `json:"image"`
	StartedAt *time.Time `json:"started_at"` // nil when the server could not record it
}

// StartRemoteSandbox starts the session's sandbox from an image that the
// profile offers. A session has one at a time. A lost answer is not retried;
// the session's events tell whether it started.
func (s *Session) StartRemoteSandbox(ctx context.Context, image string) (*RemoteSandbox, error) {
	result := new(RemoteSandbox)
	if err := s.call(ctx, "session.startRemoteSandbox", map[string]string{"image": image}, result, once); err != nil {
		return nil, err
	}
	return result, nil
}

// StopRemoteSandbox stops the session's sandbox and says which one it was.
// Even when stopping fails the session has none afterwards.
func (s *Session) StopRemoteSandbox(ctx context.Context) (*RemoteSandbox, error) {
	result := new(RemoteSandbox)
	if err := s.call(ctx, "session.stopRemoteSandbox", nil, result, once); err != nil {
		return nil, err
	}
	return result, nil
}

// ExecResult is what a command in a sandbox printed and returned.
type ExecResult struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	ExitCode int    `json:"exit_code"`
	// Truncated says that a stream was longer than what is kept of one, 65,536 bytes.
	Truncated bool `json:"truncated,omitempty"`
}

// ExecRemoteSandbox runs a shell command in the session's sandbox. An exit code
// other than 0 is a result, not an error.
func (s *Session) ExecRemoteSandbox(ctx context.Context, command string) (*ExecResult, error) {
	result := new(ExecResult)
	if err := s.call(ctx, "session.execRemoteSandbox", map[string]string{"command": command}, result, once); err != nil {
		return nil, err
	}
	return result, nil
}

// WatchRemoteSandbox is [Session.ExecRemoteSandbox] that passes on what the command
// prints while it runs: pieces of text, in order, of the streams "stdout" and
// "stderr". A server that is busy may leave
// pieces out; the result has what is kept of all.
func (s *Session) WatchRemoteSandbox(ctx context.Context, command string, output func(stream, text string)) (*ExecResult, error) {
	result := new(ExecResult)
	params := map[string]any{"command": command, "stream": true}
	err := s.callWatched(ctx, "session.execRemoteSandbox", params, result, once, func(line *envelope) {
		var piece struct{ Stream, Text string }
		if line.Method == "session.sandbox.output" && json.Unmarshal(line.Params, &piece) == nil {
			output(piece.Stream, piece.Text)
		}
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// States of a [LocalSandbox] report.
const (
	SandboxRunning = "running"
	SandboxStopped = "stopped"
	SandboxError   = "error"
)

// LocalSandbox reports a change of a sandbox that this client runs itself. An
// unsandboxed one runs on the bare machine and has no Image.
type LocalSandbox struct {
	State       string // [SandboxRunning], [SandboxStopped] or [SandboxError]
	Image       string
	Unsandboxed bool
	ContainerID string // optional
	Detail      string // what went wrong
}

// ReportLocalSandbox records a change of a local sandbox for all to see.
func (s *Session) ReportLocalSandbox(ctx context.Context, report LocalSandbox) error {
	params := map[string]any{
		"state": report.State, "image": orNull(report.Image),
		"container_id": orNull(report.ContainerID), "detail": orNull(report.Detail),
	}
	if report.Unsandboxed { // left out otherwise: old servers do not know it
		params["unsandboxed"] = true
	}
	return s.call(ctx, "session.reportLocalSandbox", params, nil, once)
}

// States of a [LocalSubagent] report.
const (
	SubagentStart     = "start"
	SubagentRunning   = "running"
	SubagentCompleted = "completed"
	SubagentFailed    = "failed"
	SubagentCancelled = "cancelled"
)

// LocalSubagent reports a change of a subagent that this client runs itself.
type LocalSubagent struct {
	State      string // [SubagentStart] and so on
	SubagentID string
	Harness    string
	Model      string
	Detail     string // optional
	Reason     string // of a failure: nonzero_exit, spawn_failed, timeout; of a cancellation: explicit, session_close
	ExitCode   *int   // of an ended process
}

// ReportLocalSubagent records a change of a local subagent for all to see.
func (s *Session) ReportLocalSubagent(ctx context.Context, report LocalSubagent) error {
	params := map[string]any{
		"state": report.State, "subagent_id": report.SubagentID, "harness": report.Harness,
		"model": report.Model, "detail": orNull(report.Detail), "reason": orNull(report.Reason),
	}
	if report.ExitCode != nil { // left out otherwise: old servers refuse null
		params["exit_code"] = *report.ExitCode
	}
	return s.call(ctx, "session.reportLocalSubagent", params, nil, once)
}

// CancelSubagent cancels a remote subagent. wasRunning is false for one that
// had already ended, which is no error.
func (s *Session) CancelSubagent(ctx context.Context, subagentID string) (wasRunning bool, err error) {
	var result struct {
		WasRunning bool `json:"was_running"`
	}
	params := map[string]string{"subagent_id": subagentID}
	err = s.call(ctx, "session.cancelSubagent", params, &result, repeatable)
	return result.WasRunning, err
}

func orNull(text string) any {
	if text == "" {
		return nil
	}
	return text
}
