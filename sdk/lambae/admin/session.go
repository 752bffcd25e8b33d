package admin

import (
	"context"
	"iter"
	"time"

	"github.com/lambae/lambae/sdk/lambae"
)

// States of a [Session].
const (
	StateOpen   = "open"
	StateClosed = "closed"
	StateError  = "error"
)

// Session is what an administrator sees of a session in lists.
type Session struct {
	sent
	ID            string     `json:"id"`
	ProfileID     string     `json:"profile_id"`
	State         string     `json:"state"`
	ClientVersion *string    `json:"client_version"`
	CreatedAt     time.Time  `json:"created_at"`
	ClosedAt      *time.Time `json:"closed_at"`
}

// SessionsPage reads one page of the sessions in a state, or in any when state
// is empty, oldest first.
func (c *Client) SessionsPage(ctx context.Context, state, cursor string, limit int) (*lambae.Page[Session], error) {
	query := lambae.PageQuery(cursor, limit)
	if state != "" {
		query.Set("state", state)
	}
	return page[Session](ctx, c, "list sessions", "sessions", query)
}

// Sessions yields all sessions in a state, or in any. An error is yielded last.
func (c *Client) Sessions(ctx context.Context, state string) iter.Seq2[Session, error] {
	return pages(func(cursor string, limit int) (*lambae.Page[Session], error) {
		return c.SessionsPage(ctx, state, cursor, limit)
	})
}

// SessionEventsPage reads one page of a session's events, oldest first.
func (c *Client) SessionEventsPage(ctx context.Context, id, cursor string, limit int) (*lambae.Page[lambae.Event], error) {
	return page[lambae.Event](ctx, c, "read events of "+id, at("sessions", id)+"/events", lambae.PageQuery(cursor, limit))
}

// SessionEvents yields all events of a session. An error is yielded last.
func (c *Client) SessionEvents(ctx context.Context, id string) iter.Seq2[lambae.Event, error] {
	return pages(func(cursor string, limit int) (*lambae.Page[lambae.Event], error) {
		return c.SessionEventsPage(ctx, id, cursor, limit)
	})
}
