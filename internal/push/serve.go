package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lambae/lambae/internal/session"
)

// Peer is the connection that a frame came in on.
type Peer interface {
	// Send sends one message. Its error means that the connection is of no use
	// any more.
	Send(ctx context.Context, message []byte) error
	// Follow makes s the connection's subscription, after the answer was sent.
	Follow(ctx context.Context, s session.Subscriber) error
	// CatchUp sends what is due, where nothing else does.
	CatchUp(ctx context.Context) error
}

// Serve does what one frame of a client asks, on the session that log is,
// freshly folded, and key the client key id of. A bad frame is answered. An error
// is one of the server's or the connection's: then it should be closed.
func Serve(ctx context.Context, log *session.Log, key string, frame []byte, p Peer) error {
	req, fault := parse(frame)
	if fault != nil {
		return reply(ctx, p, req.id, nil, fault)
	}
	switch req.method {
	case "session.subscribe":
		return subscribe(ctx, log, key, req, p)
	case "session.unsubscribe":
		if err := log.Unsubscribe(context.WithoutCancel(ctx), key); err != nil {
			return fail(ctx, p, req.id, err)
		}
		if err := reply(ctx, p, req.id, map[string]bool{"unsubscribed": true}, nil); err != nil {
			return err
		}
		return p.CatchUp(ctx)
	case "session.ping":
		if err := reply(ctx, p, req.id, map[string]bool{"pong": true}, nil); err != nil {
			return err
		}
		return p.CatchUp(ctx)
	}
	return reply(ctx, p, req.id, nil, &rpcError{codeMethodNotFound, "Method not found: " + req.method})
}

func subscribe(ctx context.Context, log *session.Log, key string, req request, p Peer) error {
	since, fault := req.since()
	if fault != nil {
		return reply(ctx, p, req.id, nil, fault)
	}
	s, err := log.Subscriber(ctx, key, since)
	if err != nil {
		return fail(ctx, p, req.id, err)
	}
	if err := reply(ctx, p, req.id, map[string]bool{"subscribed": true}, nil); err != nil {
		return err
	}
	return p.Follow(ctx, s)
}

// reply answers a request; a notification gets no answer, not even an error.
func reply(ctx context.Context, p Peer, id json.RawMessage, result any, fault *rpcError) error {
	if id == nil {
		return nil
	}
	return p.Send(ctx, answer(id, result, fault))
}

// fail answers a request that ended in err, and returns err if it is one of the
// server's, which the client is not told.
func fail(ctx context.Context, p Peer, id json.RawMessage, err error) error {
	if errors.Is(err, session.ErrUnknownFormat) {
		return reply(ctx, p, id, nil, &rpcError{codeRefused, err.Error()})
	}
	_ = reply(ctx, p, id, nil, &rpcError{codeInternal, "Internal error; try again"}) // the connection ends anyway
	return fmt.Errorf("serve a frame: %w", err)
}
