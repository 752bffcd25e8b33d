package apigateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lambae/lambae/internal/push"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
)

// Pusher brings connections up to date with the logs of their sessions. It is
// safe for concurrent use, and for use by any number of processes.
type Pusher struct {
	Store   *session.Store
	Gateway *Gateway
	Logger  *slog.Logger
	// Budget is how long one connection may take at a time; 20 s when 0. One that
	// is not up to date by then is told to come back, and goes on from where it is.
	Budget time.Duration
}

const (
	defaultBudget = 20 * time.Second
	// parallel is how many connections of a session are served at once.
	parallel = 64
	// closingTime bounds what is done for a connection after its time is over.
	closingTime = 5 * time.Second
)

// Push sends what is due to all connections of a session. A connection that
// fails is closed and holds up no other; an error is one of the table's, and the
// push is to be repeated.
func (p *Pusher) Push(ctx context.Context, sessionID string) error {
	conns, err := p.Store.Connections(ctx, sessionID, func(id string, err error) {
		p.Logger.Error("connection cannot be read", "connection", id, "session", sessionID, "error", err)
	})
	if err != nil || len(conns) == 0 {
		return err
	}
	log, release, err := p.Store.Log(ctx, sessionID)
	if err != nil {
		return err
	}
	defer release()
	var (
		mu     sync.Mutex
		failed []error
		g      errgroup.Group
	)
	g.SetLimit(parallel)
	for _, c := range conns {
		g.Go(func() error {
			if err := p.catchUp(ctx, log, c); err != nil {
				mu.Lock()
				failed = append(failed, err)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = g.Wait() // never fails: see failed
	return errors.Join(failed...)
}

// catchUp sends what is due to one connection. log is fresh. An error is one of
// the table's.
func (p *Pusher) catchUp(ctx context.Context, log *session.Log, c *session.Connection) (err error) {
	ctx, cancel := context.WithDeadline(ctx, p.until(ctx))
	defer cancel()
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("push to connection %s of %s: panic: %v", c.ID, c.Session, cause)
		}
	}()
	for {
		if c.Subscriber == nil {
			p.checkIdle(ctx, log, c)
			return nil
		}
		s := *c.Subscriber
		page, err := log.Read(ctx, &s)
		switch {
		case ctx.Err() != nil:
			p.finish(ctx, c, []byte(push.Lagged))
			return nil
		case err != nil:
			return err
		case len(page) == 0:
			if s.Ended != "" {
				p.finish(ctx, c, push.Ended(c.Session, s.Ended))
			}
			return nil
		}
		for i := range page {
			if err := p.Gateway.Post(ctx, c.ID, push.Event(&page[i])); err != nil {
				p.lost(ctx, c, err)
				return nil
			}
		}
		c.Subscriber = &s
		if c, err = p.move(ctx, c); err != nil || c == nil {
			return err
		}
	}
}

// until is when the time for one connection is over: early enough to close it
// before the invocation's own end.
func (p *Pusher) until(ctx context.Context) time.Time {
	budget := p.Budget
	if budget == 0 {
		budget = defaultBudget
	}
	end := time.Now().Add(budget)
	if limit, ok := ctx.Deadline(); ok && limit.Add(-closingTime).Before(end) {
		return limit.Add(-closingTime)
	}
	return end
}

// move writes the position of a connection. When another process wrote it
// meanwhile, what that one wrote counts, and is returned: a position further
// back costs messages that come twice, one further on might be of a newer
// subscription. It returns nil for a connection that is gone.
func (p *Pusher) move(ctx context.Context, c *session.Connection) (*session.Connection, error) {
	// Posted is posted: this must be noted even when the time is over.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	err := p.Store.SaveConnection(ctx, c)
	if !errors.Is(err, table.ErrCondition) {
		return c, err
	}
	c, err = p.Store.Connection(ctx, c.ID)
	if errors.Is(err, session.ErrNoConnection) {
		return nil, nil
	}
	return c, err
}

// checkIdle ends a connection whose key was revoked before it asked for anything.
func (p *Pusher) checkIdle(ctx context.Context, log *session.Log, c *session.Connection) {
	var revoked bool
	log.View(func(s *session.State) { revoked = s.Clients[c.Key] == nil || s.Clients[c.Key].Revoked })
	if revoked {
		p.finish(ctx, c, push.Ended(c.Session, session.EndRevoked))
	}
}

// lost ends a connection that could not be posted to.
func (p *Pusher) lost(ctx context.Context, c *session.Connection, err error) {
	switch {
	case errors.Is(err, ErrGone):
		p.drop(ctx, c)
	case ctx.Err() != nil:
		p.finish(ctx, c, []byte(push.Lagged))
	default:
		p.Logger.Warn("connection closed: it cannot be posted to", "connection", c.ID, "session", c.Session, "error", err)
		p.finish(ctx, c, nil)
	}
}

// finish sends the last message, if there is one, closes the connection and
// forgets it. Failures are only logged: a connection without its items is closed
// when its client sends the next ping.
func (p *Pusher) finish(ctx context.Context, c *session.Connection, last []byte) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	if last != nil {
		if err := p.Gateway.Post(ctx, c.ID, last); err != nil && !errors.Is(err, ErrGone) {
			p.Logger.Warn("last message not sent", "connection", c.ID, "session", c.Session, "error", err)
		}
	}
	if err := p.Gateway.Close(ctx, c.ID); err != nil {
		p.Logger.Warn("connection not closed", "connection", c.ID, "session", c.Session, "error", err)
	}
	p.drop(ctx, c)
}

func (p *Pusher) drop(ctx context.Context, c *session.Connection) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closingTime)
	defer cancel()
	if err := p.Store.DropConnection(ctx, c); err != nil {
		p.Logger.Warn("connection not forgotten; the next push does it", "connection", c.ID, "session", c.Session, "error", err)
	}
}
