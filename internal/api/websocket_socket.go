package api

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/lambae/lambae/internal/push"
	"github.com/lambae/lambae/internal/session"
)

// socket is one WebSocket. One goroutine reads and answers requests, one sends
// events, one sees to it that the client is alive. None holds events: a slow
// client leaves them in the log.
type socket struct {
	client *Client
	conn   *websocket.Conn
	log    *session.Log
	key    string
	id     string // of the request, in the server's log
	limits socketLimits

	// serving is held while a request is answered, so that the answer comes before
	// the end it may cause.
	serving sync.Mutex

	mu     sync.Mutex
	wanted *session.Subscriber // asked for and not begun
	wake   chan struct{}

	sending context.Context // bounds what is sent
}

var _ push.Peer = (*socket)(nil)

func newSocket(c *Client, conn *websocket.Conn, who *caller, id string) *socket {
	return &socket{client: c, conn: conn, log: who.log, key: who.key, id: id, limits: c.socketLimits.orDefaults(), wake: make(chan struct{}, 1)}
}

// errGone ends a connection that there is nobody to tell about.
var errGone = errors.New("the connection is gone")

// run serves the connection until it is closed.
func (s *socket) run(ctx context.Context) {
	// Reads and writes must not end with ctx: the library would cut the connection
	// before it can be closed in order.
	var cut context.CancelFunc
	s.sending, cut = context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	ctx, done := s.client.limited(ctx)
	defer done()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(s.limits.closing, cut) })
	defer stop()

	var work sync.WaitGroup
	work.Go(func() { end(s.guard(func() error { return s.read(ctx) })) })
	work.Go(func() { end(s.guard(func() error { return s.ping(ctx) })) })
	err := s.guard(func() error { return s.events(ctx) })
	end(err)
	s.close(err)
	work.Wait()
}

// guard makes an error of a panic, which would end the process outside of a
// handler's own goroutine.
func (s *socket) guard(f func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			s.client.Logger.Error("WebSocket panicked", "request_id", s.id, "session", s.log.ID, "panic", cause, "stack", string(debug.Stack()))
			err = errors.New("panic")
		}
	}()
	return f()
}

// endedError is the end of a subscription that is over.
type endedError struct{ why session.End }

func (e *endedError) Error() string { return string(e.why) }

func (c closing) Error() string { return c.reason }

// close says why it ends, and closes.
func (s *socket) close(err error) {
	var (
		ended *endedError
		frame closing
		last  []byte
	)
	switch {
	case errors.Is(err, errGone):
		_ = s.conn.CloseNow()
		return
	case errors.As(err, &ended):
		frame, last = endings[ended.why], push.Ended(s.log.ID, ended.why)
	case errors.Is(err, ErrShutdown), errors.Is(err, errTimeLimit):
		frame, last = closeShutdown, []byte(push.Lagged)
	case errors.As(err, &frame):
		if frame == closeLagged {
			last = []byte(push.Lagged)
		}
	default:
		s.client.Logger.Error("WebSocket failed", "request_id", s.id, "session", s.log.ID, "error", err)
		frame, last = closeFailed, []byte(push.Lagged)
	}
	s.serving.Lock()
	defer s.serving.Unlock()
	if last != nil && s.Send(s.sending, last) != nil {
		_ = s.conn.CloseNow()
		return
	}
	_ = s.conn.Close(frame.code, frame.reason) // the client may be gone by now
}

// read answers requests until the connection is closed.
func (s *socket) read(ctx context.Context) error {
	for {
		kind, frame, err := s.conn.Read(s.sending)
		switch {
		case err != nil:
			return errGone // too long a frame, too: the library has told the client
		case kind != websocket.MessageText:
			return closeBinary
		}
		if err := s.request(ctx, frame); err != nil {
			return err
		}
	}
}

func (s *socket) request(ctx context.Context, frame []byte) error {
	s.serving.Lock()
	defer s.serving.Unlock()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if err := s.authorized(ctx); err != nil {
		return err
	}
	return push.Serve(ctx, s.log, s.key, frame, s)
}

// authorized looks at the client key itself, which decides a revocation at once,
// and folds what is new.
func (s *socket) authorized(ctx context.Context) error {
	if err := s.log.Refresh(ctx); err != nil {
		return err
	}
	var profile string
	s.log.View(func(st *session.State) { profile = st.ProfileID })
	_, _, err := s.client.Directory.KeyWithProfile(ctx, s.key, profile)
	switch {
	case errors.Is(err, session.ErrKeyRevoked), errors.Is(err, session.ErrNotFound):
		return &endedError{session.EndRevoked}
	case err != nil && !errors.Is(err, session.ErrProfileUnavailable):
		return err
	}
	return nil
}

// Send implements [push.Peer].
func (s *socket) Send(_ context.Context, message []byte) error {
	ctx, cancel := context.WithTimeout(s.sending, s.limits.write)
	defer cancel()
	if err := s.conn.Write(ctx, websocket.MessageText, message); err != nil {
		return errGone
	}
	return nil
}

// Follow implements [push.Peer].
func (s *socket) Follow(_ context.Context, sub session.Subscriber) error {
	s.mu.Lock()
	s.wanted = &sub
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return nil
}

// CatchUp implements [push.Peer]: here events go out by themselves.
func (s *socket) CatchUp(context.Context) error { return nil }

// events sends events as they come until the subscription, or ctx, ends.
func (s *socket) events(ctx context.Context) error {
	defer s.log.Watch()()
	unused := time.NewTimer(s.limits.subscribe)
	defer unused.Stop()
	var sub *session.Subscriber
	for {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		s.mu.Lock()
		if s.wanted != nil {
			sub, s.wanted = s.wanted, nil
		}
		s.mu.Unlock()
		_, more := s.log.Changed()
		sent, err := s.due(ctx, sub)
		if err != nil {
			return err
		}
		if sent {
			continue
		}
		select {
		case <-more:
		case <-s.wake:
		case <-ctx.Done():
		case <-unused.C:
			if sub == nil {
				return closeUnused
			}
		}
	}
}

// due sends the next page of events, if there is one.
func (s *socket) due(ctx context.Context, sub *session.Subscriber) (sent bool, err error) {
	if sub == nil {
		var revoked bool
		s.log.View(func(st *session.State) { revoked = st.Clients[s.key] == nil || st.Clients[s.key].Revoked })
		if revoked {
			err = &endedError{session.EndRevoked}
		}
		return false, err
	}
	page, err := s.log.Read(ctx, sub)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case err != nil:
		return false, fmt.Errorf("read events: %w", err)
	case len(page) == 0 && sub.Ended != "":
		return false, &endedError{sub.Ended}
	}
	for i := range page {
		began := time.Now()
		if err := s.Send(ctx, push.Event(&page[i])); err != nil {
			return false, err
		}
		next, _ := s.log.Changed()
		if time.Since(began) > s.limits.lagWait && next-page[i].Pos.Chunk > s.limits.lagChunks {
			return false, closeLagged
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
	}
	return len(page) > 0, nil
}

// ping keeps proxies from closing a silent connection, and finds clients that are
// gone without a word.
func (s *socket) ping(ctx context.Context) error {
	every := s.client.KeepAlive
	if every == 0 {
		every = 15 * time.Second
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
		wait, cancel := context.WithTimeout(s.sending, s.limits.write)
		err := s.conn.Ping(wait)
		cancel()
		if err != nil {
			return errGone
		}
	}
}
