package api

import (
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
// nobody's turn: what waits is only references to what the turn holds anyway.
type lines struct {
	w    http.ResponseWriter
	ctrl *http.ResponseController
	sid  string

	mu     sync.Mutex
	queue  [][]byte
	closed bool
	wake   chan struct{}
	done   chan struct{}
}

var _ turn.Sink = (*lines)(nil)

func newLines(w http.ResponseWriter, sid string) *lines {
	l := &lines{w: w, ctrl: http.NewResponseController(w), sid: sid, wake: make(chan struct{}, 1), done: make(chan struct{})}
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
		l.queue = nil
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
		for _, b := range batch {
			if _, err := l.w.Write(b); err != nil {
				gone = true
				break
			}
		}
		if !gone && !closed {
			gone = l.flush() != nil
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

func (l *lines) put(segments ...[]byte) {
	l.mu.Lock()
	l.queue = append(l.queue, segments...)
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
	segments := append(make([][]byte, 0, 6), eventHead)
	segments = append(segments, r.Segments...)
	l.put(append(segments, eventTail)...)
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
	l.put(append(b, eventTail...))
}

// answer writes the terminal line of a call; none for a notification.
func (l *lines) answer(id json.RawMessage, result any, err *rpcError) {
	if id == nil {
		return
	}
	l.put(answerLine(id, result, err))
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
	segments := make([][]byte, 0, 4+4*len(res.Events))
	segments = append(segments, append(head, `,"result":{"message":`...), res.Message, resultEvents)
	for i := range res.Events {
		if i > 0 {
			segments = append(segments, comma)
		}
		segments = append(segments, res.Events[i].Segments...)
	}
	l.put(append(segments, resultTail)...)
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
