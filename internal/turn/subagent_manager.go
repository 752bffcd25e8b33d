package turn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/session"
)

// ErrNoSubagent is returned for a subagent that the session does not track.
var ErrNoSubagent = errors.New("no such subagent")

// launch starts a subagent in its sandbox and waits for its end in the background.
func (s *Sandboxes) launch(ctx context.Context, sessionID string, a session.Subagent, c sandbox.Command) error {
	if s.o.Driver == nil {
		return errors.New(sandbox.NoDriver)
	}
	done := s.inUse(ctx, a.Sandbox)
	defer done()
	if err := s.o.Driver.Launch(ctx, a.Sandbox, c); err != nil {
		// It may run for all we know. Nobody waits for it.
		_ = s.o.Driver.Kill(context.WithoutCancel(ctx), a.Sandbox, a.ID)
		return err
	}
	s.follow(sessionID, a)
	return nil
}

// Cancel ends a subagent on behalf of a client and reports whether it was still
// running. [ErrNoSubagent] when it is not tracked.
func (s *Sandboxes) Cancel(ctx context.Context, log *session.Log, id string) (was bool, err error) {
	var a session.Subagent
	var tracked bool
	log.View(func(st *session.State) { a, tracked = st.Subagent(id) })
	if !tracked {
		return false, ErrNoSubagent
	}
	// The log first: what the process still says does not count any more.
	was, err = log.EndSubagent(ctx, id, session.SubagentEnd{Cancelled: true, Reason: session.StopExplicit})
	if err != nil || !was || s.o.Driver == nil {
		return was, err
	}
	if err := s.o.Driver.Kill(ctx, a.Sandbox, id); err != nil {
		s.o.Logger.Warn("cancelled subagent not killed; its time-out will", "session", log.ID, "subagent", id, "error", err)
	}
	return was, nil
}

// follow waits for the end of a subagent in the background, once.
func (s *Sandboxes) follow(sessionID string, a session.Subagent) {
	if s.o.Transient {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.following[a.ID] || s.ctx.Err() != nil {
		return
	}
	s.following[a.ID] = true
	s.work.Go(func() {
		defer func() {
			s.mu.Lock()
			delete(s.following, a.ID)
			s.mu.Unlock()
		}()
		s.followToEnd(sessionID, a)
	})
}

// followToEnd tries until the end of the subagent is in the log.
func (s *Sandboxes) followToEnd(sessionID string, a session.Subagent) {
	for wait := 100 * time.Millisecond; s.ctx.Err() == nil; wait = min(2*wait, 10*time.Second) {
		err := s.followOnce(sessionID, a)
		if err == nil || s.ctx.Err() != nil {
			return
		}
		s.o.Logger.Warn("end of a subagent not known yet, trying again", "session", sessionID, "subagent", a.ID, "error", err)
		select {
		case <-time.After(wait):
		case <-s.ctx.Done():
		}
	}
}

func (s *Sandboxes) followOnce(sessionID string, a session.Subagent) error {
	c := sandbox.Command{ID: a.ID, Timeout: time.Duration(a.Timeout) * time.Millisecond, Started: a.Started()}
	res, err := s.o.Driver.Follow(s.ctx, a.Sandbox, c)
	var notRun *sandbox.RunError
	switch {
	case errors.As(err, &notRun):
		return s.ended(s.ctx, sessionID, a.ID, notSpawned(notRun.Detail))
	case errors.Is(err, sandbox.ErrGone):
		return s.Lost(s.ctx, a.Sandbox, err.Error())
	case errors.Is(err, sandbox.ErrNoCommand):
		return s.ended(s.ctx, sessionID, a.ID, notSpawned("the server stopped while the subagent was being launched"))
	case err != nil:
		return err
	}
	return s.ended(s.ctx, sessionID, a.ID, subagentEnd(res))
}

// Ended notes the end of a command that was launched in a sandbox. News of a
// subagent that is not tracked any more is no error.
func (s *Sandboxes) Ended(ctx context.Context, sandboxID, command string, res sandbox.Result) error {
	return s.about(ctx, sandboxID, command, subagentEnd(res))
}

// NotRun notes that a command that was launched in a sandbox could not be run.
func (s *Sandboxes) NotRun(ctx context.Context, sandboxID, command, detail string) error {
	return s.about(ctx, sandboxID, command, notSpawned(detail))
}

// about notes the end of a subagent of the session that a sandbox is of.
func (s *Sandboxes) about(ctx context.Context, sandboxID, id string, end session.SubagentEnd) error {
	row, err := s.o.Store.Sandbox(ctx, sandboxID)
	if errors.Is(err, session.ErrNoSandboxRow) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.ended(ctx, row.Session, id, end)
}

func notSpawned(detail string) session.SubagentEnd {
	return session.SubagentEnd{Reason: session.FailedSpawn, Detail: &detail}
}

func (s *Sandboxes) ended(ctx context.Context, sessionID, id string, end session.SubagentEnd) error {
	log, release, err := s.o.Store.Log(ctx, sessionID)
	if err != nil {
		return err
	}
	defer release()
	if _, err := log.EndSubagent(ctx, id, end); err != nil {
		return fmt.Errorf("note the end of subagent %s: %w", id, err)
	}
	return nil
}

// subagentEnd is what a command's result means for a subagent.
func subagentEnd(res sandbox.Result) session.SubagentEnd {
	if res.TimedOut {
		return session.SubagentEnd{Reason: session.FailedTimeout}
	}
	end := session.SubagentEnd{ExitCode: &res.ExitCode, Output: &session.SubagentOutput{Stdout: res.Stdout, Stderr: res.Stderr, Truncated: res.Truncated}}
	if res.ExitCode != 0 {
		end.Reason = session.FailedExit
	}
	return end
}
