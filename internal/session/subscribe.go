package session

import (
	"context"
	"io"
)

// Subscription is a [Subscriber] that waits for more. It reads the log, so that
// whoever is slow costs no memory and misses nothing.
type Subscription struct {
	log  *Log
	at   Subscriber
	stop func()
}

// Subscribe starts a subscription, see [Log.Subscriber]. Close must be called.
func (l *Log) Subscribe(ctx context.Context, key string, since *string) (*Subscription, error) {
	at, err := l.Subscriber(ctx, key, since)
	if err != nil {
		return nil, err
	}
	return &Subscription{log: l, at: at, stop: l.Watch()}, nil
}

// Close ends the subscription.
func (s *Subscription) Close() { s.stop() }

// Behind is how many chunks the subscription has not read yet.
func (s *Subscription) Behind() int64 {
	next, _ := s.log.Changed()
	return next - s.at.Chunk
}

// Next returns the next events, waiting for them. io.EOF ends the subscription:
// the session has ended and all its events were returned, somebody called
// session.unsubscribe, or the subscriber's key was revoked.
func (s *Subscription) Next(ctx context.Context) ([]Rendered, error) {
	for {
		_, more := s.log.Changed()
		events, err := s.log.Read(ctx, &s.at)
		switch {
		case err != nil || len(events) > 0:
			return events, err
		case s.at.Ended != "":
			return nil, io.EOF
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}
