package lambae

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync/atomic"
	"time"

	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// DefaultIdleTimeout is three of a server's keep-alives of 15 s.
const DefaultIdleTimeout = 45 * time.Second

// SubscribeOptions tune a subscription.
type SubscribeOptions struct {
	// Since is the id of the last event already known: the subscription starts
	// with the one after it. [Beginning] replays the whole session. When empty
	// only events from now on come, and "now" moves on to the next connection
	// as long as none has come: give Since where nothing may be missed.
	Since string
	// OnLost is told of every lost connection before it is opened again.
	OnLost func(err error)
	// IdleTimeout is how long a connection may be silent, keep-alives included,
	// before it counts as lost; 0 means [DefaultIdleTimeout], negative no limit.
	IdleTimeout time.Duration
}

// Subscribe yields the session's events, everybody's, in order, each once. A
// connection that is lost, or that the server ends because the reader is slow
// or its time is up, is opened again after the last event that was yielded,
// without limit. The first connection is only retried as any request is.
//
// It ends without an error when the session has ended and all its events were
// yielded, or when somebody calls [Session.Unsubscribe]. Otherwise an error is
// yielded last: that of ctx, an [*APIError] (such as 401 when the key was
// revoked) or an [*RPCError].
func (s *Session) Subscribe(ctx context.Context, opts *SubscribeOptions) iter.Seq2[Event, error] {
	if opts == nil {
		opts = &SubscribeOptions{}
	}
	return func(yield func(Event, error) bool) {
		subscription := &subscription{session: s, opts: *opts, since: opts.Since, yield: yield}
		subscription.seen.add(opts.Since)
		if subscription.opts.IdleTimeout == 0 {
			subscription.opts.IdleTimeout = DefaultIdleTimeout
		}
		if err := subscription.run(ctx); err != nil && !subscription.stopped {
			yield(Event{}, fmt.Errorf("subscribe to %s: %w", s.ID, err))
		}
	}
}

// subscription is one subscription across the connections it takes.
type subscription struct {
	session *Session
	opts    SubscribeOptions
	yield   func(Event, error) bool
	since   string // last event yielded, or where to start
	seen    recent
	stood   bool // some connection was opened
	stopped bool // the consumer wants no more
}

func (s *subscription) run(ctx context.Context) error {
	for losses := 0; ; losses++ {
		position := s.since
		err := s.follow(ctx)
		if s.since != position {
			losses = 0 // it got on
		}
		if err == nil || ctx.Err() != nil || !s.comesBack(err, losses) {
			return err
		}
		if s.opts.OnLost != nil {
			s.opts.OnLost(err)
		}
		if err := rest.Sleep(ctx, s.session.client.rest.Backoff(losses)); err != nil {
			return err
		}
	}
}

// maxMalformed is how often the same line may be malformed: once can be a cut,
// time and again it is the server.
const maxMalformed = 3

// comesBack tells a lost connection from a refusal.
func (s *subscription) comesBack(err error, losses int) bool {
	if problem, ok := errors.AsType[*APIError](err); ok {
		return s.stood && (problem.Status >= 500 || problem.Status == 429 || problem.Status == 408)
	}
	if errors.Is(err, errMalformed) {
		return losses < maxMalformed
	}
	if _, ok := errors.AsType[*RPCError](err); ok {
		return errors.Is(err, ErrLagged)
	}
	return s.stood
}

// follow reads one connection to its end; nil is a clean one.
func (s *subscription) follow(ctx context.Context) error {
	watched, idle := s.watch(ctx)
	defer idle.stop()
	params := `{}`
	if s.since != "" {
		params = fmt.Sprintf(`{"since_event_id":%s}`, quote(s.since))
	}
	stream, err := s.session.stream(watched, rest.Request{
		Body: requestBody("session.subscribe", []byte(params)), Repeatable: true,
	}, idle.reset)
	if err != nil {
		return idle.explain(err)
	}
	defer stream.Close()
	s.stood = true
	for {
		line, err := stream.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return idle.explain(err)
		case line.Error != nil:
			return line.Error
		case line.terminal():
			return nil
		case line.Method != "session.event":
			continue
		}
		event, err := decodeEvent(line.Params)
		if err != nil {
			return err
		}
		if !s.seen.add(event.ID) {
			continue // shown in the replay and live too
		}
		s.since = event.ID
		idle.pause() // the consumer's time is not the server's
		if !s.yield(*event, nil) {
			s.stopped = true
			return nil
		}
		idle.reset()
	}
}

// watch gives a context that ends when the connection is silent for too long.
func (s *subscription) watch(ctx context.Context) (context.Context, *idleTimer) {
	watched, cancel := context.WithCancel(ctx)
	idle := &idleTimer{limit: s.opts.IdleTimeout, cancel: cancel}
	if idle.limit > 0 {
		idle.timer = time.AfterFunc(idle.limit, func() {
			idle.expired.Store(true)
			cancel()
		})
	}
	return watched, idle
}

// idleTimer ends a connection that is silent.
type idleTimer struct {
	limit   time.Duration
	timer   *time.Timer // nil without a limit
	cancel  context.CancelFunc
	expired atomic.Bool
}

func (t *idleTimer) reset() {
	if t.timer != nil {
		t.timer.Reset(t.limit)
	}
}

func (t *idleTimer) pause() {
	if t.timer != nil {
		t.timer.Stop()
	}
}

func (t *idleTimer) stop() {
	t.pause()
	t.cancel()
}

// explain replaces the cancellation that the timer caused by its reason.
func (t *idleTimer) explain(err error) error {
	if t.expired.Load() {
		return fmt.Errorf("%w: silent for %s", errLost, t.limit)
	}
	return err
}

// recent remembers the last ids, enough to cover any seam between replay and
// live events.
type recent struct {
	ids  map[string]bool
	ring [512]string
	next int
}

// add reports whether id is new.
func (r *recent) add(id string) bool {
	if r.ids[id] {
		return false
	}
	if r.ids == nil {
		r.ids = make(map[string]bool, len(r.ring))
	}
	delete(r.ids, r.ring[r.next])
	r.ids[id], r.ring[r.next] = true, id
	r.next = (r.next + 1) % len(r.ring)
	return true
}
