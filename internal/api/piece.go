package api

import (
	"context"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

const (
	// largePiece is the size from which what a client does not read is read again
	// from the log rather than held.
	largePiece = 64 << 10
	// stallAfter is how long a client may leave its connection full until then.
	stallAfter = 2 * time.Second
)

// piece is a part of an answer that waits to be written.
type piece struct {
	segments [][]byte // nil once dropped
	size     int
	// at is where the log has the event that the piece shows, or whose payload;
	// nil for a piece that only the answer has.
	at      *session.Position
	payload bool
}

func newPiece(segments ...[]byte) *piece {
	p := &piece{segments: segments}
	for _, s := range segments {
		p.size += len(s)
	}
	return p
}

// eventPiece shows an event of the log.
func eventPiece(r *session.Rendered) *piece {
	p := newPiece(r.Segments...)
	at := r.Pos // a pointer into r would hold what it shows
	p.at = &at
	return p
}

// messagePiece shows the message of a result: the payload of the event that sent
// it, or one that is in no event and small.
func messagePiece(res *turn.Result) *piece {
	p := newPiece(res.Message)
	for i := range res.Events {
		r := &res.Events[i]
		if r.Type == session.ServerMessageSend && len(r.Segments) == 3 && len(r.Segments[1]) == p.size {
			at := r.Pos
			p.at, p.payload = &at, true
		}
	}
	return p
}

// drop lets go of what the log can give again.
func (p *piece) drop() {
	if p.at != nil && p.size >= largePiece {
		p.segments = nil
	}
}

// read copies the piece from an offset on.
func (p *piece) read(buf []byte, offset int) (n int) {
	for _, s := range p.segments {
		if offset >= len(s) {
			offset -= len(s)
			continue
		}
		n += copy(buf[n:], s[offset:])
		offset = 0
		if n == len(buf) {
			break
		}
	}
	return n
}

// source reads an event of a session from its log.
type source func(ctx context.Context, at session.Position) (*session.Rendered, error)

// source of the events of a session. It holds the log only while it reads.
func (c *Client) source(id string) source {
	return func(ctx context.Context, at session.Position) (*session.Rendered, error) {
		log, release, err := c.Store.Log(ctx, id)
		if err != nil {
			return nil, err
		}
		defer release()
		return log.Event(ctx, at)
	}
}

// again reads a dropped piece from the log.
func (s source) again(ctx context.Context, p *piece) ([][]byte, error) {
	r, err := s(ctx, *p.at)
	if err != nil {
		return nil, err
	}
	segments := r.Segments
	if p.payload && len(segments) == 3 {
		segments = segments[1:2]
	}
	if size := newPiece(segments...).size; size != p.size {
		return nil, fmt.Errorf("read %s again: %d bytes, not %d", r.ID, size, p.size)
	}
	return segments, nil
}
