package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

// stalling is the connection of a client that reads when it is told to.
type stalling struct {
	*httptest.ResponseRecorder
	began, read chan struct{}
}

func (s *stalling) Write(b []byte) (int, error) {
	s.began <- struct{}{}
	<-s.read
	return s.ResponseRecorder.Write(b)
}

// answerOf is a result of one event that sent a message of so many bytes.
func answerOf(size int) (*turn.Result, map[session.Position]*session.Rendered) {
	message := session.NewMessage("assistant", session.Quote(strings.Repeat("long ", size/5)))
	head, tail := []byte(`{"id":"evt_1","payload":`), []byte(`}`)
	sent := session.Rendered{ID: "evt_1", Type: session.ServerMessageSend, Pos: session.Position{Chunk: 3, Index: 1}, Segments: [][]byte{head, message, tail}}
	stored := session.Rendered{ID: sent.ID, Type: sent.Type, Pos: sent.Pos, Segments: [][]byte{head, bytes.Clone(message), tail}}
	return &turn.Result{Message: message, Events: []session.Rendered{sent}}, map[session.Position]*session.Rendered{sent.Pos: &stored}
}

// An answer of megabytes that nobody reads must not be in memory once more for
// each line that shows it.
func TestAResultIsWrittenFromWhereItLies(t *testing.T) {
	t.Parallel()
	res, _ := answerOf(100)
	l := &lines{wake: make(chan struct{}, 1)}
	l.turnResult(json.RawMessage(`1`), res)
	shared := 0
	for _, p := range l.queue {
		for _, segment := range p.segments {
			if &segment[0] == &res.Message[0] {
				shared++
			}
		}
	}
	require.Equal(t, 2, shared)
}

// Whenever a client stalls, it gets the same bytes as one that does not, and in
// between nothing large is held.
func TestAStalledClientIsServedFromTheLog(t *testing.T) {
	t.Parallel()
	for _, size := range []int{100, largePiece, 3*largePiece + 7} {
		res, stored := answerOf(size)
		want := `{"jsonrpc":"2.0","id":1,"result":{"message":` + string(res.Message) + `,"events":[` + string(res.Events[0].JSON()) + "]}}\n"
		reads := 0
		log := func(_ context.Context, at session.Position) (*session.Rendered, error) {
			reads++
			return stored[at], nil
		}
		w := &stalling{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
		l := newLines(w, httptest.NewRequest("POST", "/", nil), "ses_1", log)
		l.turnResult(json.RawMessage(`1`), res)
		go l.close()
		for ended := false; !ended; {
			select {
			case <-w.began:
				l.drop()
				l.mu.Lock()
				for _, p := range append(append([]*piece{}, l.writing...), l.queue...) {
					if p != nil && p.size >= largePiece {
						require.Nil(t, p.segments)
					}
				}
				l.mu.Unlock()
				w.read <- struct{}{}
			case <-l.done:
				ended = true
			}
		}
		require.Equal(t, want, w.Body.String())
		require.Equal(t, size >= largePiece, reads > 0, "small answers are kept")
	}
}

func TestAnAnswerEndsWhenTheLogCannotGiveItAgain(t *testing.T) {
	t.Parallel()
	res, _ := answerOf(3 * largePiece)
	w := &stalling{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	l := newLines(w, httptest.NewRequest("POST", "/", nil), "ses_1", func(context.Context, session.Position) (*session.Rendered, error) {
		return nil, errors.New("its events were deleted")
	})
	l.turnResult(json.RawMessage(`1`), res)
	<-w.began
	l.drop()
	w.read <- struct{}{}
	l.close()
	require.NotContains(t, w.Body.String(), `"events"`)
}
