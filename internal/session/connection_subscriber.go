package session

import "context"

// Subscriber is somebody who follows a session's events, and how far it has got.
// It is plain data, so that a connection of this process keeps it in memory and
// one that a gateway holds keeps it in its item, and both get the same events.
type Subscriber struct {
	Key string `json:"key"` // client key id
	// Start is the chunk the subscription began at: only an unsubscribe after it
	// ends it.
	Start int64 `json:"start"`
	// Chunk and Index name the first event that has not been read.
	Chunk int64 `json:"chunk"`
	Index int   `json:"index,omitempty"`
	// Ended is set when nothing will follow.
	Ended End `json:"ended,omitempty"`
}

// End is why a subscription ended, "" while it has not.
type End string

// Why subscriptions end. The names are what WebSocket clients are told.
const (
	EndClosed       End = "session_closed"
	EndError        End = "session_error"
	EndUnsubscribed End = "unsubscribed"
	EndRevoked      End = "key_revoked"
)

// Subscriber starts after the event with id since, or at the end of the log when
// since is nil. An unknown id, the empty one too, starts at the beginning
// (protocol, "Subscriptions"). key is the subscriber's client key id.
func (l *Log) Subscriber(ctx context.Context, key string, since *string) (Subscriber, error) {
	next, _ := l.Changed()
	s := Subscriber{Key: key, Start: next, Chunk: next}
	if since == nil {
		return s, nil
	}
	p, ok, err := l.Find(ctx, *since)
	if err != nil {
		return Subscriber{}, err
	}
	s.Chunk = 0
	if ok {
		s.Chunk, s.Index = p.Chunk, p.Index+1
	}
	return s, nil
}

// Read returns the next events of a folded log, at most a page of them, and
// moves s behind them. With no event s has either read all there is or Ended.
// On an error s has not moved.
func (l *Log) Read(ctx context.Context, s *Subscriber) ([]Rendered, error) {
	at := *s
	for at.Ended == "" {
		chunks, err := l.Chunks(ctx, at.Chunk)
		if err != nil {
			return nil, err
		}
		if len(chunks) == 0 {
			if l.behind(&at) {
				continue
			}
			break
		}
		events, err := l.readChunks(ctx, &at, chunks)
		if err != nil {
			return nil, err
		}
		if len(events) > 0 {
			*s = at
			return events, nil
		}
	}
	*s = at
	return nil, nil
}

// behind reports whether there is more by now. If not, it notes whether the
// session or the key has ended: one look at one state, so that no last event can
// come in between.
func (l *Log) behind(s *Subscriber) (more bool) {
	l.View(func(st *State) {
		if more = s.Chunk < st.Next; more {
			return
		}
		c := st.Clients[s.Key]
		switch {
		case c == nil || c.Revoked:
			s.Ended = EndRevoked
		case st.Unclean():
			// Events follow the end of a session whose sandbox has yet to end.
		case st.Status == StateError:
			s.Ended = EndError
		case !st.Open():
			s.Ended = EndClosed
		}
	})
	return more
}

func (l *Log) readChunks(ctx context.Context, s *Subscriber, chunks []*Chunk) (out []Rendered, err error) {
	for _, c := range chunks {
		end := s.endIn(c)
		if end == EndUnsubscribed {
			s.Ended = end
			break
		}
		events, err := l.Render(ctx, c, 0)
		if err != nil {
			return nil, err
		}
		if c.N == s.Chunk {
			events = events[min(s.Index, len(events)):]
		}
		out = append(out, events...)
		s.Chunk, s.Index = c.N+1, 0
		if s.Ended = end; end != "" {
			break
		}
	}
	return out, nil
}

// endIn looks for a mark that ends the subscription. A revocation shares its
// chunk with the session.close it causes, which its client still gets.
func (s *Subscriber) endIn(c *Chunk) End {
	for i := range c.Entries {
		switch e := &c.Entries[i]; {
		case e.Type == MarkUnsubs && c.N >= s.Start:
			return EndUnsubscribed
		case e.Type == MarkRevoked && e.Key == s.Key:
			return EndRevoked
		}
	}
	return ""
}

// Unsubscribe ends every subscription of the session that began before, in every
// process (protocol, "Gates and messages").
func (l *Log) Unsubscribe(ctx context.Context, key string) error {
	_, err := l.Append(ctx, func(*State) (Draft, error) {
		return Draft{Entries: []Entry{{Type: MarkUnsubs, Key: key}}}, nil
	})
	return err
}
