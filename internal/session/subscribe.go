package session

import (
	"context"
	"io"
)

// Subscription follows a session's events from a position on. It reads the log,
// so that whoever is slow costs no memory and misses nothing.
type Subscription struct {
	log   *Log
	key   string
	pos   Position
	start int64 // chunk it began at: only an unsubscribe after it ends it
	stop  func()
}

// Subscribe starts after the event with id since, or at the end of the log when
// since is empty. An unknown id starts at the beginning (protocol,
// "Subscriptions"). key is the subscriber's client key id.
func (l *Log) Subscribe(ctx context.Context, key, since string) (*Subscription, error) {
	next, _ := l.Changed()
	s := &Subscription{log: l, key: key, pos: Position{Chunk: next}, start: next}
	if since != "" {
		s.pos = Position{}
		p, ok, err := l.Find(ctx, since)
		if err != nil {
			return nil, err
		}
		if ok {
			s.pos = Position{p.Chunk, p.Index + 1}
		}
	}
	s.stop = l.Watch()
	return s, nil
}

// Close ends the subscription.
func (s *Subscription) Close() { s.stop() }

// Behind is how many chunks the subscription has not read yet.
func (s *Subscription) Behind() int64 {
	next, _ := s.log.Changed()
	return next - s.pos.Chunk
}

// Next returns the next events, waiting for them. io.EOF ends the subscription:
// the session has ended and all its events were returned, somebody called
// session.unsubscribe, or the subscriber's key was revoked.
func (s *Subscription) Next(ctx context.Context) ([]Rendered, error) {
	for {
		_, more := s.log.Changed()
		chunks, err := s.log.Chunks(ctx, s.pos.Chunk)
		if err != nil {
			return nil, err
		}
		var out []Rendered
		for _, c := range chunks {
			if s.endsAt(c) {
				if len(out) > 0 {
					return out, nil // the next call ends it
				}
				return nil, io.EOF
			}
			events, err := s.log.Render(ctx, c, 0)
			if err != nil {
				return nil, err
			}
			if c.N == s.pos.Chunk {
				events = events[min(s.pos.Index, len(events)):]
			}
			out = append(out, events...)
			s.pos = Position{Chunk: c.N + 1}
		}
		if len(out) > 0 {
			return out, nil
		}
		if len(chunks) > 0 {
			continue
		}
		if s.over() {
			return nil, io.EOF
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// endsAt reports whether a chunk ends the subscription by a mark. Events of the
// same chunk are not sent.
func (s *Subscription) endsAt(c *Chunk) bool {
	for i := range c.Entries {
		switch e := &c.Entries[i]; e.Type {
		case MarkUnsubs:
			if c.N >= s.start {
				return true
			}
		case MarkRevoked:
			if e.Key == s.key && c.events() == 0 {
				return true
			}
		}
	}
	return false
}

// over reports whether nothing will follow. Events do follow the end of a session
// whose sandbox and subagents have yet to end.
func (s *Subscription) over() (over bool) {
	s.log.View(func(st *State) {
		c := st.Clients[s.key]
		over = !st.Open() && !st.Unclean() || c == nil || c.Revoked
	})
	return over
}
