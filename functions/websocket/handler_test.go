package main

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table/embedded"
)

// world is a handler, and a sandbox whose sandboxd has enrolled.
func world(t *testing.T) (h *handler, q *queue.Queue, id, token string) {
	tbl, err := embedded.Open(filepath.Join(t.TempDir(), "db"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tbl.Close()) })
	q = queue.New(tbl, nil)
	id, token = enroll(t, q)
	elsewhere := func(context.Context, request) (response, error) { return response{}, errors.New("a subscriber's") }
	return &handler{q, elsewhere, slog.New(slog.DiscardHandler)}, q, id, token
}

func enroll(t *testing.T, q *queue.Queue) (id, token string) {
	t.Helper()
	id, token = session.NewID(session.SandboxPrefix), queue.NewToken()
	code, err := q.Prepare(t.Context(), id)
	require.NoError(t, err)
	require.NoError(t, q.Enroll(t.Context(), id, code, session.HashSecret(token)))
	return id, token
}

func connect(id, authorization string) request {
	return request{
		Headers:               map[string]string{"authorization": authorization},
		QueryStringParameters: map[string]string{"sandbox": id},
		RequestContext:        events.APIGatewayWebsocketProxyRequestContext{EventType: "CONNECT", ConnectionID: "c1"},
	}
}

func TestASandboxListensWithItsOwnTokenOnly(t *testing.T) {
	t.Parallel()
	h, q, id, token := world(t)
	other, others := enroll(t, q)
	for name, c := range map[string]struct {
		id, authorization string
		status            int
	}{
		"its own":          {id, "Bearer " + token, 200},
		"again":            {id, "bearer  " + token, 200},
		"another's":        {id, "Bearer " + others, 401},
		"for another":      {other, "Bearer " + token, 401},
		"none":             {id, "", 401},
		"another scheme":   {id, "Basic " + token, 401},
		"no such sandbox":  {session.NewID(session.SandboxPrefix), "Bearer " + token, 401},
		"not even an id":   {"sbx_", "Bearer " + token, 401},
		"a session's name": {session.NewID(session.SessionPrefix), "Bearer " + token, 401},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			answer, err := h.handle(t.Context(), connect(c.id, c.authorization))
			require.NoError(t, err)
			require.Equal(t, c.status, answer.StatusCode)
		})
	}
}

func TestASandboxThatHasEndedIsSentAway(t *testing.T) {
	t.Parallel()
	h, q, id, token := world(t)
	require.NoError(t, q.End(t.Context(), id))
	answer, err := h.handle(t.Context(), connect(id, "Bearer "+token))
	require.NoError(t, err)
	require.Equal(t, 410, answer.StatusCode)
}

func TestTheLogHoldsNothingThatAStrangerWrites(t *testing.T) {
	t.Parallel()
	h, _, id, token := world(t)
	var lines bytes.Buffer
	h.logger = slog.New(slog.NewJSONHandler(&lines, nil))
	for _, r := range []request{connect(id, "Bearer "+token), connect("made up", "Bearer "+token)} {
		_, err := h.handle(t.Context(), r)
		require.NoError(t, err)
	}
	require.Contains(t, lines.String(), `"sandbox":"`+id+`","connection":"c1","status":200,"ms":`)
	require.Contains(t, lines.String(), `"sandbox":"","connection":"c1","status":401,"ms":`)
	require.NotContains(t, lines.String(), "made up")
	require.NotContains(t, lines.String(), token)
}

func TestEverythingElseIsASubscribers(t *testing.T) {
	t.Parallel()
	h, _, id, token := world(t)
	message := connect(id, "Bearer "+token)
	message.RequestContext.EventType = "MESSAGE"
	for _, r := range []request{message, connect("", "Bearer "+token)} {
		_, err := h.handle(t.Context(), r)
		require.EqualError(t, err, "a subscriber's")
	}
}
