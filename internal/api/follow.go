package api

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/lambae/lambae/internal/session"
)

// A subscriber whose connection was full for so long, and who is so many chunks
// behind by then, is told to come back.
const (
	lagWait   = 10 * time.Second
	lagChunks = 1000
)

// subscribe serves session.subscribe: events until the session ends, somebody
// unsubscribes, the client goes away, or it lags.
func (c *Client) subscribe(w http.ResponseWriter, r *http.Request, who *caller, req rpcRequest) {
	var since *string
	if v := req.Params["since_event_id"]; !isNull(v) {
		id, ok := str(v)
		if !ok {
			c.reply(w, req.ID, nil, c.toRPC(r, badParams(`"since_event_id" must be a string or null`)))
			return
		}
		since = &id
	}
	if req.ID == nil {
		c.reply(w, nil, nil, nil) // a notification has no answer, and nothing else to do
		return
	}
	ctx, cancel := c.limited(r.Context())
	defer cancel()
	sub, err := who.log.Subscribe(ctx, who.key, since)
	if err != nil {
		c.reply(w, req.ID, nil, c.toRPC(r, err))
		return
	}
	defer sub.Close()
	f := follower{client: c, w: w, ctrl: http.NewResponseController(w)}
	w.Header().Set("Content-Type", ndjson)
	w.WriteHeader(http.StatusOK)
	if f.flush() != nil {
		return
	}
	if lagged := f.follow(ctx, sub); lagged {
		_ = f.write(laggedLine)
		_ = f.flush()
	}
}

// follower writes one subscription. It holds no events: a slow client leaves
// them in the log.
type follower struct {
	client *Client
	w      http.ResponseWriter
	ctrl   *http.ResponseController
	sent   int64
}

// follow reports whether the client should be told to reconnect.
func (f *follower) follow(ctx context.Context, sub *session.Subscription) (lagged bool) {
	keepAlive := f.client.KeepAlive
	if keepAlive == 0 {
		keepAlive = 15 * time.Second
	}
	for {
		wait, cancel := context.WithTimeout(ctx, keepAlive)
		events, err := sub.Next(wait)
		cancel()
		switch {
		case ctx.Err() != nil:
			return !errors.Is(ctx.Err(), context.Canceled) || context.Cause(ctx) == ErrShutdown
		case errors.Is(err, context.DeadlineExceeded):
			if f.write([]byte("\n")) != nil || f.flush() != nil {
				return false
			}
			continue
		case errors.Is(err, io.EOF):
			return false
		case err != nil:
			f.client.Logger.Error("subscription ended", "error", err)
			return true
		}
		began := time.Now()
		for i := range events {
			if limit := f.client.StreamLimit; limit > 0 && f.sent+int64(events[i].Size()) > limit {
				return true
			}
			if f.event(&events[i]) != nil {
				return false
			}
		}
		if f.flush() != nil {
			return false
		}
		if time.Since(began) > lagWait && sub.Behind() > lagChunks {
			return true
		}
	}
}

func (f *follower) event(r *session.Rendered) error {
	if err := f.write(eventHead); err != nil {
		return err
	}
	for _, s := range r.Segments {
		if err := f.write(s); err != nil {
			return err
		}
	}
	return f.write(eventTail)
}

func (f *follower) write(b []byte) error {
	n, err := f.w.Write(b)
	f.sent += int64(n)
	return err
}

func (f *follower) flush() error {
	if err := f.ctrl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}
