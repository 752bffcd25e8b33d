package wsstream

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// Options tune a subscription. The zero value, and nil, are good for most.
type Options struct {
	lambae.SubscribeOptions
	// HTTPClient makes the connection; default [http.DefaultClient]. Its Timeout
	// must be zero.
	HTTPClient *http.Client
	// Backoff is the wait before retry number attempt, counted from 0; default
	// doubles from 100 ms to 10 s, with jitter.
	Backoff func(attempt int) time.Duration
}

// Subscribe yields the session's events, everybody's, in order, each once, as
// [lambae.Session.Subscribe] does and with the same errors and endings. url is
// the server's websocket_url, in which {session_id} stands for the session. An
// event whose payload was too large for a WebSocket is read anew over HTTP.
func Subscribe(ctx context.Context, session *lambae.Session, url string, opts *Options) iter.Seq2[lambae.Event, error] {
	s := &subscription{session: session, url: url}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.IdleTimeout == 0 {
		s.opts.IdleTimeout = lambae.DefaultIdleTimeout
	}
	if s.opts.Backoff == nil {
		s.opts.Backoff = rest.Jitter
	}
	return func(yield func(lambae.Event, error) bool) {
		run := *s // the sequence may be ranged over again
		run.yield, run.since, run.seen = yield, run.opts.Since, recent{}
		run.seen.add(run.since)
		if err := run.run(ctx); err != nil && !run.stopped {
			yield(lambae.Event{}, fmt.Errorf("subscribe to %s: %w", session.ID, err))
		}
	}
}

// subscription is one subscription across the connections it takes.
type subscription struct {
	session *lambae.Session
	url     string
	opts    Options
	yield   func(lambae.Event, error) bool
	since   string // last event yielded, or where to start
	seen    recent
	stood   bool // some connection was opened
	stopped bool // the consumer wants no more
}

// firstTries is how often the first connection is tried.
const firstTries = 4

// maxMalformed is how often the same message may be malformed: time and again it
// is the server.
const maxMalformed = 3

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
		if err := rest.Sleep(ctx, s.opts.Backoff(losses)); err != nil {
			return err
		}
	}
}

// comesBack tells a lost connection from a refusal.
func (s *subscription) comesBack(err error, losses int) bool {
	again := s.stood || losses < firstTries-1
	if problem, ok := errors.AsType[*lambae.APIError](err); ok {
		return again && (problem.Status >= 500 || problem.Status == http.StatusTooManyRequests || problem.Status == http.StatusRequestTimeout)
	}
	if errors.Is(err, errMalformed) {
		return losses < maxMalformed
	}
	if _, ok := errors.AsType[*lambae.RPCError](err); ok {
		return errors.Is(err, lambae.ErrLagged)
	}
	return again
}

// follow reads one connection to its end; nil is a clean one.
func (s *subscription) follow(ctx context.Context) error {
	conn, err := dial(ctx, s)
	if err != nil {
		return err
	}
	defer conn.close()
	s.stood = true
	if err := conn.subscribe(s.since); err != nil {
		return err
	}
	for {
		m, err := conn.next()
		switch {
		case err != nil:
			return err
		case m.Error != nil:
			return m.Error
		case m.Method == "session.ended":
			return m.ended()
		case m.Method != "session.event":
			continue // an answer, or what a later release sends
		}
		event, err := m.event()
		if err != nil {
			return err
		}
		if !s.seen.add(event.ID) {
			continue // shown before, in the replay or because the server was not sure
		}
		resume := conn.pause()
		if m.omitted() {
			if event, err = s.whole(ctx, event); err != nil {
				return err
			}
		}
		s.since = event.ID
		if !s.yield(event, nil) {
			s.stopped = true
			return nil
		}
		resume()
	}
}

// whole reads an event over HTTP that came without its payload.
func (s *subscription) whole(ctx context.Context, short lambae.Event) (lambae.Event, error) {
	if s.since != "" {
		for event, err := range s.session.Subscribe(ctx, &lambae.SubscribeOptions{Since: s.since}) {
			if err == nil && event.ID == short.ID {
				return event, nil
			}
			break // whatever else it is: look through the list
		}
	}
	for event, err := range s.session.Events(ctx) {
		if err != nil {
			return short, err
		}
		if event.ID == short.ID {
			return event, nil
		}
	}
	return short, nil // its retention has ended meanwhile
}

// recent remembers the last ids, enough to cover what a server may send again.
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
