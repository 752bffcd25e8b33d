package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/provider"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

const (
	ndjson = "application/x-ndjson"
	// openAfter is when a silent answer is opened: its status and headers go out,
	// with no byte of body yet.
	openAfter = 100 * time.Millisecond
)

var (
	eventHead  = []byte(`{"jsonrpc":"2.0","method":"session.event","params":`)
	eventTail  = []byte("}\n")
	laggedLine = []byte(`{"jsonrpc":"2.0","error":{"code":-32000,"message":"lagged; reconnect with since_event_id"}}` + "\n")
)

// lines writes the NDJSON answer of one call. Lines are handed over and written
// by a goroutine of their own, so that a client that does not read holds up
// nobody's turn. What waits is only references to what the turn holds anyway, and
// when a client stalls not even those: it comes from the log again.
type lines struct {
	w    http.ResponseWriter
	ctrl *http.ResponseController
	ctx  context.Context // of the request
	sid  string
	log  source

	stall *time.Timer // runs while a write does
	buf   []byte      // what is written of a large piece

	mu      sync.Mutex // guards what follows, the segments of the pieces too
	queue   []*piece
	writing []*piece
	closed  bool
	wake    chan struct{}
	done    chan struct{}
}

var _ turn.Sink = (*lines)(nil)

func newLines(w http.ResponseWriter, r *http.Request, sid string, log source) *lines {
	l := &lines{w: w, ctrl: http.NewResponseController(w), ctx: r.Context(), sid: sid, log: log, wake: make(chan struct{}, 1), done: make(chan struct{})}
	l.stall = time.AfterFunc(stallAfter, l.drop)
	l.stall.Stop()
	w.Header().Set("Content-Type", ndjson)
	go l.write()
	return l
}

// write drains the queue until it is closed, flushing when it is empty.
func (l *lines) write() {
	defer close(l.done)
	opened, gone := false, false
	open := time.NewTimer(openAfter)
	defer open.Stop()
	for {
		l.mu.Lock()
		batch, closed := l.queue, l.closed
		l.queue, l.writing = nil, batch
		l.mu.Unlock()
		if len(batch) == 0 {
			if closed {
				return
			}
			select {
			case <-l.wake:
			case <-open.C:
				if !opened {
					opened = true
					l.w.WriteHeader(http.StatusOK)
					gone = l.flush() != nil
				}
			}
			continue
		}
		if gone {
			continue
		}
		opened = true
		for i, p := range batch {
			if gone = l.send(p) != nil; gone {
				break
			}
			l.mu.Lock()
			batch[i] = nil // it is no use any more
			l.mu.Unlock()
		}
		if !gone && !closed {
			gone = l.flush() != nil
		}
	}
}

// send writes a piece. A large one goes through a buffer, so that a write that
// does not come back holds no more than that.
func (l *lines) send(p *piece) error {
	if p.at == nil || p.size < largePiece {
		for _, s := range p.segments {
			if _, err := l.w.Write(s); err != nil {
				return err
			}
		}
		return nil
	}
	if l.buf == nil {
		l.buf = make([]byte, largePiece)
	}
	for sent := 0; sent < p.size; {
		n, err := l.read(p, sent)
		if err != nil {
			return err
		}
		l.stall.Reset(stallAfter)
		_, err = l.w.Write(l.buf[:n])
		l.stall.Stop()
		if err != nil {
			return err
		}
		sent += n
	}
	return nil
}

// read fills the buffer with a piece from an offset on.
func (l *lines) read(p *piece, offset int) (int, error) {
	l.mu.Lock()
	dropped := p.segments == nil
	l.mu.Unlock()
	var segments [][]byte
	if dropped {
		var err error
		if segments, err = l.log.again(l.ctx, p); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if dropped {
		p.segments = segments
	}
	return p.read(l.buf, offset), nil
}

// drop is called when the client has stalled.
func (l *lines) drop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, pieces := range [][]*piece{l.writing, l.queue} {
		for _, p := range pieces {
			if p != nil {
				p.drop()
			}
		}
	}
}

// flush sends what is buffered. A server that streams every write has no flush.
func (l *lines) flush() error {
	if err := l.ctrl.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	return nil
}

func (l *lines) put(pieces ...*piece) {
	l.mu.Lock()
	l.queue = append(l.queue, pieces...)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// close waits until everything is written, or the client is gone.
func (l *lines) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	<-l.done
}

// Event implements [turn.Sink].
func (l *lines) Event(r *session.Rendered) {
	l.put(newPiece(eventHead), eventPiece(r), newPiece(eventTail))
}

// Delta implements [turn.Sink].
func (l *lines) Delta(d provider.Delta) {
	type params struct {
		SessionID string `json:"session_id"`
		Index     int    `json:"index"`
		Type      string `json:"type"`
		Text      string `json:"text"`
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"session.delta","params":`), session.EscapeLines(session.MarshalJSON(params{l.sid, d.Index, d.Type, d.Text}))...)
	l.put(newPiece(append(b, eventTail...)))
}

// answer writes the terminal line of a call; none for a notification.
func (l *lines) answer(id json.RawMessage, result any, err *rpcError) {
	if id == nil {
		return
	}
	l.put(newPiece(answerLine(id, result, err)))
}

func answerLine(id json.RawMessage, result any, err *rpcError) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), session.CompactJSON(id)...)
	if err != nil {
		b = append(append(b, `,"error":`...), session.MarshalJSON(err)...)
	} else {
		b = append(append(b, `,"result":`...), session.MarshalJSON(result)...)
	}
	return append(session.EscapeLines(b), eventTail...)
}

// turnResult writes the terminal line of a sendMessage without copying the
// message, nor the events, which show the whole history: a client that does not
// read holds up what the log holds anyway, and no more.
func (l *lines) turnResult(id json.RawMessage, res *turn.Result) {
	if id == nil {
		return
	}
	head := append([]byte(`{"jsonrpc":"2.0","id":`), session.EscapeLines(session.CompactJSON(id))...)
	pieces := make([]*piece, 0, 4+2*len(res.Events))
	pieces = append(pieces, newPiece(append(head, `,"result":{"message":`...)), messagePiece(res), newPiece(resultEvents))
	for i := range res.Events {
		if i > 0 {
			pieces = append(pieces, newPiece(comma))
		}
		pieces = append(pieces, eventPiece(&res.Events[i]))
	}
	l.put(append(pieces, newPiece(resultTail))...)
}

var (
	comma        = []byte{','}
	resultEvents = []byte(`,"events":[`)
	resultTail   = []byte("]}}\n")
)

// muted is the sink of a notification.
type muted struct{}

func (muted) Event(*session.Rendered) {}
func (muted) Delta(provider.Delta)    {}
