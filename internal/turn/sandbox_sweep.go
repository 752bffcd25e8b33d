package turn

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lambae/lambae/internal/session"
)

const (
	// sweepEvery is how often a process looks after its sandboxes.
	sweepEvery = 20 * time.Second
	// defaultIdle is how long a sandbox may idle where the profile does not say.
	defaultIdle = 30 * time.Minute
)

// Watch sweeps at once and then again and again, until ctx ends.
func (s *Sandboxes) Watch(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		if err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.o.Logger.Warn("sandboxes not all looked after, trying again", "error", err)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// Sweep brings all sandboxes and their sessions' logs together: what a dead
// process began is finished, sandboxes that have ended are noted as lost, idle
// ones are stopped, and those nobody owns are ended.
func (s *Sandboxes) Sweep(ctx context.Context) error {
	// What runs is asked for first: a row is written before its sandbox runs, so who
	// runs and has none has been forgotten.
	strays, err := s.all(ctx)
	if err != nil {
		return err
	}
	rows, err := s.o.Store.Sandboxes(ctx)
	for _, r := range rows {
		delete(strays, r.ID)
	}
	if err == nil {
		err = s.endStrays(ctx, strays)
	}
	if err != nil || len(rows) == 0 {
		return err
	}
	running := map[string]bool{}
	if s.o.Driver != nil {
		var ids []string
		for _, r := range rows {
			if r.Driver == s.driver() {
				ids = append(ids, r.ID)
			}
		}
		if running, err = s.o.Driver.Running(ctx, ids); err != nil {
			return fmt.Errorf("ask the %s driver for its sandboxes: %w", s.driver(), err)
		}
	}
	var g errgroup.Group // without a context: one failure must not keep the others from being looked after
	g.SetLimit(8)
	failed := make([]error, len(rows))
	for i, r := range rows {
		g.Go(func() error {
			if err := s.reconcile(ctx, r, running[r.ID]); err != nil {
				failed[i] = fmt.Errorf("sandbox %s of %s: %w", r.ID, r.Session, err)
			}
			return nil
		})
	}
	_ = g.Wait()
	return errors.Join(failed...)
}

// all is what the driver runs, where that is this server's alone.
func (s *Sandboxes) all(ctx context.Context) (map[string]bool, error) {
	driver, ok := s.o.Driver.(interface {
		All(ctx context.Context) (map[string]bool, error)
	})
	if !ok {
		return nil, nil
	}
	all, err := driver.All(ctx)
	if err != nil {
		return nil, fmt.Errorf("ask the %s driver for what it runs: %w", s.driver(), err)
	}
	return all, nil
}

func (s *Sandboxes) endStrays(ctx context.Context, ids map[string]bool) error {
	for id := range ids {
		s.o.Logger.Warn("a sandbox without a session is ended", "sandbox", id)
		if err := s.o.Driver.Stop(ctx, id); err != nil {
			return fmt.Errorf("end sandbox %s, which no session has: %w", id, err)
		}
	}
	return nil
}

// reconcile looks after one sandbox. runs is what the driver said of it before
// the log was read.
func (s *Sandboxes) reconcile(ctx context.Context, row session.SandboxRow, runs bool) error {
	log, release, err := s.o.Store.Log(ctx, row.Session)
	if errors.Is(err, session.ErrNoSession) {
		return s.discard(ctx, row)
	}
	if err != nil {
		return err
	}
	defer release()
	var current, stopping *session.Sandbox
	var open bool
	var agents []session.Subagent
	log.View(func(st *session.State) {
		open, agents = st.Open(), st.Subagents
		if b := st.Sandbox; b != nil && b.ID == row.ID {
			current = b
		}
		for i := range st.Stopping {
			if b := st.Stopping[i]; b.ID == row.ID {
				stopping = &b
			}
		}
	})
	switch {
	case current == nil && stopping == nil:
		// Its row is written before the log knows of it, by whoever is just starting it.
		if s.o.Now().Sub(row.Created) < time.Minute {
			return nil
		}
		return s.discard(ctx, row)
	case !open:
		return s.CleanUp(ctx, log)
	case stopping != nil:
		return s.end(ctx, log, *stopping)
	case !current.Running:
		if !log.StartLost(row.ID) {
			return nil
		}
		return s.lost(ctx, log, row.ID, "the server stopped while the sandbox was starting")
	case row.Driver != s.driver():
		return s.lost(ctx, log, row.ID, fmt.Sprintf("it was started by the driver %q, which this server does not use any more", row.Driver))
	case !runs:
		return s.lost(ctx, log, row.ID, "the sandbox has ended by itself")
	}
	busy := false
	for _, a := range agents {
		if a.Sandbox == row.ID && a.Status == session.SubagentStatusRunning {
			busy = true
			s.follow(log.ID, a)
		}
	}
	if busy {
		return nil
	}
	return s.stopIdle(ctx, log, row)
}

// discard ends a sandbox that no session has.
func (s *Sandboxes) discard(ctx context.Context, row session.SandboxRow) error {
	if s.o.Driver != nil && row.Driver == s.driver() {
		if err := s.o.Driver.Stop(ctx, row.ID); err != nil {
			return err
		}
	}
	return s.drop(ctx, row.ID)
}

// stopIdle stops a sandbox that was not used for as long as its profile says.
func (s *Sandboxes) stopIdle(ctx context.Context, log *session.Log, row session.SandboxRow) error {
	idle := defaultIdle
	p, err := s.o.Directory.Profile(ctx, row.Profile)
	switch {
	case err == nil && p.SandboxIdleMinutes != nil:
		idle = time.Duration(*p.SandboxIdleMinutes) * time.Minute
	case err != nil && !errors.Is(err, session.ErrNotFound):
		return err
	}
	if s.o.Now().Sub(row.Used) < idle {
		return nil
	}
	b, err := log.StopSandbox(ctx, session.StopIdle, func(st *session.State) bool {
		return st.Sandbox.ID != row.ID || st.RunningSubagents() > 0
	})
	if errors.Is(err, session.ErrNoSandbox) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.end(ctx, log, b)
}
