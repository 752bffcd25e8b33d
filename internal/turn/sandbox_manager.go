package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/session"
)

// SandboxOptions are what a [Sandboxes] is made of.
type SandboxOptions struct {
	Driver    sandbox.Driver // nil when the server has none
	Store     *session.Store
	Directory *session.Directory
	Logger    *slog.Logger
	Now       func() time.Time // time.Now when nil
	// MaxSubagents is how many subagents of a session may run at once
	// (BAE_MAX_SUBAGENTS_PER_SESSION); SubagentTimeout is for declarations without
	// one (BAE_SUBAGENT_TIMEOUT).
	MaxSubagents    int
	SubagentTimeout time.Duration
	// ExecTimeout is the longest command; 10 minutes when 0.
	ExecTimeout time.Duration
	// Expel has the server refuse a sandbox that has ended, whichever driver started
	// it; nil where no sandbox calls the server.
	Expel func(ctx context.Context, id string) error
	// Transient is set where the process does not outlive its requests: then the
	// ends of subagents come as requests of their own, or are found by a sweep.
	Transient bool
}

// Sandboxes joins the sandboxes of a driver to the logs of their sessions: what
// is done to one is an event of the other. A session's log decides what is so;
// the driver is told before it or after it, and told again when a process died in
// between. It is safe for concurrent use.
type Sandboxes struct {
	o SandboxOptions

	ctx  context.Context // of what outlives a call
	stop context.CancelFunc
	work sync.WaitGroup

	mu        sync.Mutex
	following map[string]bool // subagents whose end this process waits for
}

// startTimeout is how long a driver may take to start a sandbox. It is within
// [session.StartLease].
const startTimeout = session.StartLease - time.Minute

// NewSandboxes returns the sandboxes of o.Driver. [Sandboxes.Sweep] finds those
// that run already.
func NewSandboxes(o SandboxOptions) *Sandboxes {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.ExecTimeout == 0 {
		o.ExecTimeout = 10 * time.Minute
	}
	s := &Sandboxes{o: o, following: map[string]bool{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Close lets go of all sandboxes. They run on, and are found again.
func (s *Sandboxes) Close() error {
	s.stop()
	s.work.Wait()
	if s.o.Driver == nil {
		return nil
	}
	return s.o.Driver.Close()
}

// Images says which of the images can be started.
func (s *Sandboxes) Images(ctx context.Context, images []string) []ImageStatus {
	if s.o.Driver != nil {
		return s.o.Driver.Images(ctx, images)
	}
	out := make([]ImageStatus, len(images))
	for i, name := range images {
		out[i] = ImageStatus{Name: name, Status: sandbox.ImageError, Detail: sandbox.NoDriver}
	}
	return out
}

// SandboxError says that the driver failed. The log has an event of it.
type SandboxError struct {
	Phase  string // [session.PhaseStart] and so on
	Detail string
}

func (e *SandboxError) Error() string { return "sandbox " + e.Phase + " failed: " + e.Detail }

// Wanted is a sandbox that a client asks for.
type Wanted struct {
	Key     string // client key id
	Profile string // id of the session's
	Image   string // one of the profile's
	Server  string // URL at which the client reached the server
}

// Start starts a sandbox for the session and returns its id and when it ran.
// Errors are refusals of the session, or a [*SandboxError].
func (s *Sandboxes) Start(ctx context.Context, log *session.Log, w Wanted) (id string, at time.Time, err error) {
	id = session.NewID(session.SandboxPrefix)
	now := s.o.Now()
	row := session.SandboxRow{ID: id, Session: log.ID, Profile: w.Profile, Image: w.Image, Driver: s.driver(), Created: now, Used: now}
	if err := s.o.Store.AddSandbox(ctx, row); err != nil {
		return "", at, err
	}
	if err := log.BeginSandbox(ctx, w.Key, id, w.Image); err != nil {
		return "", at, errors.Join(err, s.drop(ctx, id))
	}
	detail := sandbox.NoDriver
	if s.o.Driver != nil {
		limited, cancel := context.WithTimeout(ctx, startTimeout)
		err = s.o.Driver.Start(limited, sandbox.Spec{ID: id, Image: w.Image, Session: log.ID, Server: w.Server})
		cancel()
		if err == nil {
			return s.started(ctx, log, id)
		}
		detail = err.Error()
	}
	if err := log.SandboxNotStarted(ctx, id, detail); err != nil {
		return "", at, err
	}
	return "", at, errors.Join(&SandboxError{session.PhaseStart, detail}, s.drop(ctx, id))
}

func (s *Sandboxes) driver() string {
	if s.o.Driver == nil {
		return ""
	}
	return s.o.Driver.Name()
}

// started notes that the sandbox runs, or ends it when the session was closed
// meanwhile.
func (s *Sandboxes) started(ctx context.Context, log *session.Log, id string) (string, time.Time, error) {
	at, err := log.SandboxStarted(ctx, id)
	if err == nil {
		return id, at, nil
	}
	if stopErr := s.o.Driver.Stop(ctx, id); stopErr != nil {
		return "", at, errors.Join(err, stopErr) // its row stays, for the sweep
	}
	if errors.Is(err, session.ErrNoSandbox) {
		log.View(func(st *session.State) {
			err = &SandboxError{session.PhaseStart, "the sandbox was not wanted any more when it had started"}
			if !st.Open() {
				err = session.NotOpen(st.Status)
			}
		})
	}
	return "", at, errors.Join(err, s.drop(ctx, id))
}

// Stop stops the session's sandbox. [session.ErrNoSandbox] when none is running,
// a [*SandboxError] when the driver fails; the session has none either way.
func (s *Sandboxes) Stop(ctx context.Context, log *session.Log) (session.Sandbox, error) {
	b, err := log.StopSandbox(ctx, session.StopExplicit, nil)
	if err != nil {
		return b, err
	}
	return b, s.end(ctx, log, b)
}

// end ends a sandbox whose stop is in the log already.
func (s *Sandboxes) end(ctx context.Context, log *session.Log, b session.Sandbox) error {
	failure := ""
	if s.o.Driver != nil {
		if err := s.o.Driver.Stop(ctx, b.ID); err != nil {
			failure = err.Error()
		}
	}
	if err := log.SandboxStopped(ctx, b.ID, failure); err != nil {
		return err
	}
	if failure != "" {
		// The row stays: the sweep tries again to end what nobody has a use for.
		return &SandboxError{session.PhaseStop, failure}
	}
	return s.drop(ctx, b.ID)
}

// Exec runs a command in the session's sandbox and returns its id. output may be
// nil, see [sandbox.Command]. [session.ErrNoSandbox] when none is running; any
// other error says why nobody knows how the command ended.
func (s *Sandboxes) Exec(ctx context.Context, log *session.Log, command string, output func(stream, text string)) (id string, res sandbox.Result, err error) {
	log.View(func(st *session.State) {
		if b := st.Sandbox; b != nil && b.Running {
			id = b.ID
		}
	})
	if id == "" {
		return "", res, session.ErrNoSandbox
	}
	if s.o.Driver == nil {
		return id, res, errors.New(sandbox.NoDriver)
	}
	defer s.inUse(ctx, id)()
	res, err = s.o.Driver.Exec(ctx, id, sandbox.Command{Command: command, Timeout: s.o.ExecTimeout, Output: output})
	switch {
	case errors.Is(err, sandbox.ErrGone):
		if lost := s.Lost(context.WithoutCancel(ctx), id, err.Error()); lost != nil {
			s.o.Logger.Warn("end of a sandbox not noted", "session", log.ID, "sandbox", id, "error", lost)
		}
	case err == nil && res.TimedOut:
		err = sandbox.TimeoutError(s.o.ExecTimeout)
	}
	return id, res, err
}

// inUse keeps a sandbox from being taken for idle until the function it returns
// is called.
func (s *Sandboxes) inUse(ctx context.Context, id string) (done func()) {
	note := func() {
		if err := s.o.Store.UseSandbox(context.WithoutCancel(ctx), id); err != nil {
			s.o.Logger.Warn("use of a sandbox not noted", "sandbox", id, "error", err)
		}
	}
	ended := make(chan struct{})
	s.work.Go(func() {
		note()
		t := time.NewTicker(time.Minute)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				note()
			case <-ended:
				return
			case <-s.ctx.Done():
				return
			}
		}
	})
	return func() { close(ended) }
}

// CleanUp ends what a session that has ended left running: its subagents are
// cancelled, its sandbox stops (protocol, "REST details"). It may be repeated.
func (s *Sandboxes) CleanUp(ctx context.Context, log *session.Log) error {
	stop, err := log.EndSandbox(ctx)
	if err != nil {
		return err
	}
	var failed []error
	for _, b := range stop {
		if b.Running {
			failed = append(failed, s.end(ctx, log, b))
			continue
		}
		// It was starting: the log knows of its end already.
		if s.o.Driver != nil {
			if err := s.o.Driver.Stop(ctx, b.ID); err != nil {
				failed = append(failed, fmt.Errorf("stop sandbox %s: %w", b.ID, err))
				continue
			}
		}
		failed = append(failed, s.drop(ctx, b.ID))
	}
	return errors.Join(failed...)
}

// drop forgets a sandbox that has ended. What may be left of it, under a driver
// that this server has not got, is not let in any more and ends by itself.
func (s *Sandboxes) drop(ctx context.Context, id string) error {
	if s.o.Expel != nil {
		if err := s.o.Expel(ctx, id); err != nil {
			return fmt.Errorf("expel sandbox %s: %w", id, err)
		}
	}
	return s.o.Store.DropSandbox(ctx, id)
}

// Lost notes that a sandbox ended by itself, and why. What is known already is no
// error.
func (s *Sandboxes) Lost(ctx context.Context, id, detail string) error {
	row, err := s.o.Store.Sandbox(ctx, id)
	if errors.Is(err, session.ErrNoSandboxRow) {
		return nil
	}
	if err != nil {
		return err
	}
	log, release, err := s.o.Store.Log(ctx, row.Session)
	if err != nil {
		return err
	}
	defer release()
	return s.lost(ctx, log, id, detail)
}

func (s *Sandboxes) lost(ctx context.Context, log *session.Log, id, detail string) error {
	over, err := log.SandboxLost(ctx, id, detail)
	if err != nil || !over {
		return err
	}
	if s.o.Driver != nil {
		if err := s.o.Driver.Stop(ctx, id); err != nil { // of what may be left of it
			return fmt.Errorf("clear away sandbox %s: %w", id, err)
		}
	}
	return s.drop(ctx, id)
}
