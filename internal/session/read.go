package session

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// Rendered is one event as clients see it: a JSON object in segments, so that a
// message history of megabytes is written from where it lies and never copied.
type Rendered struct {
	ID       string
	Type     string
	Key      string // client key id
	Pos      Position
	Segments [][]byte
}

// Position is where an event stands in the log.
type Position struct {
	Chunk int64
	Index int // among the chunk's events
}

// Size is the length of the JSON object in bytes.
func (r *Rendered) Size() (n int) {
	for _, s := range r.Segments {
		n += len(s)
	}
	return n
}

// WriteTo writes the JSON object, without a line end.
func (r *Rendered) WriteTo(w io.Writer) (n int64, err error) {
	for _, s := range r.Segments {
		k, err := w.Write(s)
		n += int64(k)
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// JSON returns the object in one piece.
func (r *Rendered) JSON() []byte {
	out := make([]byte, 0, r.Size())
	for _, s := range r.Segments {
		out = append(out, s...)
	}
	return out
}

// Render returns the events among a folded chunk's entries from index first on.
func (l *Log) Render(ctx context.Context, c *Chunk, first int) ([]Rendered, error) {
	var out []Rendered
	index := 0
	at := FormatTime(time.UnixMilli(c.At))
	for i := range c.Entries {
		e := &c.Entries[i]
		if !e.IsEvent() {
			continue
		}
		if i >= first {
			r := Rendered{ID: EventID(c.N, index, c.Nonce), Type: e.Type, Key: e.Key, Pos: Position{c.N, index}}
			if err := l.render(ctx, &r, e, at); err != nil {
				return nil, err
			}
			out = append(out, r)
		}
		index++
	}
	return out, nil
}

// Event returns the event at a position.
func (l *Log) Event(ctx context.Context, at Position) (*Rendered, error) {
	c, err := l.chunkAt(ctx, at.Chunk)
	if err != nil {
		return nil, err
	}
	if c == nil {
		return nil, fmt.Errorf("read %s: chunk %d is missing", l.ID, at.Chunk)
	}
	events, err := l.Render(ctx, c, 0)
	if err != nil {
		return nil, err
	}
	if at.Index >= len(events) {
		return nil, fmt.Errorf("read %s: chunk %d has no event %d", l.ID, at.Chunk, at.Index)
	}
	return &events[at.Index], nil
}

func (l *Log) render(ctx context.Context, r *Rendered, e *Entry, at string) error {
	b := make([]byte, 0, 256+min(len(e.Payload), shareFrom))
	b = append(b, `{"id":"`...)
	b = append(b, r.ID...)
	b = append(b, `","session_id":"`...)
	b = append(b, l.ID...)
	b = append(b, `","client_key_id":`...)
	b = appendString(b, e.Key)
	b = append(b, `,"event_type":"`...)
	b = append(b, e.Type...)
	b = append(b, `","payload":`...)
	tail := append(append([]byte(`,"created_at":"`), at...), '"', '}')
	switch {
	case e.Type == ProviderRequest:
		h, err := l.History(ctx)
		if err != nil {
			return err
		}
		tools, err := l.toolList(ctx, e.Hash)
		if err != nil {
			return err
		}
		l.mu.Lock()
		view := h.View(e.Reach)
		l.mu.Unlock()
		b = append(b, EscapeLines(e.Payload[:len(e.Payload)-1])...)
		b = append(b, `,"messages":[`...)
		tail = append(append(append([]byte(`],"tools":`), EscapeLines(tools)...), '}'), tail...)
		r.Segments = [][]byte{b, view[0], view[1], tail}
		return nil
	case e.Type == ServerMessageSend && len(e.Payload) == 0:
		h, err := l.History(ctx)
		if err != nil {
			return err
		}
		l.mu.Lock()
		m := h.Message(e.Reach)
		l.mu.Unlock()
		r.wrap(b, m, tail)
	default:
		r.wrap(b, EscapeLines(e.Payload), tail)
	}
	return nil
}

// shareFrom is the size from which a payload is shown from where it lies: what a
// thousand subscribers that do not read hold of it is then one copy.
const shareFrom = 4 << 10

// wrap sets the segments to head, payload and tail.
func (r *Rendered) wrap(head, payload, tail []byte) {
	if len(payload) >= shareFrom {
		r.Segments = [][]byte{head, payload, tail}
		return
	}
	r.Segments = [][]byte{append(append(head, payload...), tail...)}
}

// Limits of a page of events (design-log 9).
const (
	pageBytes = 4 << 20
	// maxEvent is the largest event a page shows whole.
	maxEvent = pageBytes
)

// Events returns a page of at most limit events after cursor ("" for the first
// page) and the cursor of the next one, nil on the last. A page ends early at
// 4 MB.
func (l *Log) Events(ctx context.Context, cursor string, limit int) (page []Rendered, next *string, err error) {
	from := Position{}
	if cursor != "" {
		if from, err = l.parseCursor(ctx, cursor); err != nil {
			return nil, nil, err
		}
	}
	size := 0
	for c, err := range l.walk(ctx, from.Chunk) {
		if err != nil {
			return nil, nil, err
		}
		events, err := l.Render(ctx, c, 0)
		if err != nil {
			return nil, nil, err
		}
		if c.N == from.Chunk {
			events = events[min(from.Index, len(events)):]
		}
		for i := range events {
			r := &events[i]
			if r.Size() > maxEvent {
				r.omitMessages()
			}
			if len(page) == limit || len(page) > 0 && size+r.Size() > pageBytes {
				cur := EncodeCursor(eventCursors, page[len(page)-1].ID)
				return page, &cur, nil
			}
			size += r.Size()
			page = append(page, *r)
		}
	}
	return page, nil, nil
}

// omitMessages shows a provider.request that is too large for a page without
// its messages.
func (r *Rendered) omitMessages() {
	if r.Type != ProviderRequest {
		return
	}
	head, tail := r.Segments[0], r.Segments[len(r.Segments)-1]
	out := append(slices.Clone(head), `],"messages_omitted":true`...)
	r.Segments = [][]byte{append(out, tail[1:]...)}
}

// eventCursors names the list in the cursors of event pages.
const eventCursors = "events"

// parseCursor returns the position after the event a cursor names.
func (l *Log) parseCursor(ctx context.Context, cursor string) (Position, error) {
	id, err := DecodeCursor(eventCursors, cursor)
	if err != nil {
		return Position{}, err
	}
	p, ok, err := l.Find(ctx, id)
	if err != nil {
		return Position{}, err
	}
	if !ok {
		n, _, _, ours := ParseEventID(id)
		l.mu.Lock()
		first := l.kept(n)
		l.mu.Unlock()
		if ours && n < first {
			return Position{Chunk: first}, nil // its event is past its retention
		}
		return Position{}, ErrInvalidCursor{cursor} // of another session
	}
	return Position{p.Chunk, p.Index + 1}, nil
}

// Find returns the position of an event of this session by its id.
func (l *Log) Find(ctx context.Context, eventID string) (Position, bool, error) {
	n, i, nonce, ok := ParseEventID(eventID)
	if !ok {
		return Position{}, false, nil
	}
	if next, _ := l.Changed(); n >= next {
		return Position{}, false, nil
	}
	c, err := l.chunkAt(ctx, n)
	if err != nil {
		return Position{}, false, err
	}
	if c == nil || c.Nonce != nonce || i >= c.events() {
		return Position{}, false, nil
	}
	return Position{n, i}, true, nil
}
