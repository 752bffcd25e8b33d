package api

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/wsstream"
)

// The same events come over a WebSocket as over NDJSON, large ones and those
// around lost connections included.
func TestTheClientGetsTheSameOverBothWays(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, func(c *Client) { c.socketLimits.lagWait, c.socketLimits.lagChunks = time.Nanosecond, 6 }).open(t)
	client, err := lambae.New(s.url, s.secret, nil)
	require.NoError(t, err)
	session, err := client.Session(s.id, s.key)
	require.NoError(t, err)
	require.NoError(t, session.RegisterDriver(t.Context()))
	_, err = session.Run(t.Context(), lambae.UserMessage("hello "+strings.Repeat("x", 150<<10)), nil)
	require.NoError(t, err)
	log := s.log(t)
	for range 10 {
		require.NoError(t, appendEvents(t.Context(), log, s.keyID, 1, `{"n":1}`))
	}
	require.NoError(t, session.Close(t.Context()))

	var meta struct {
		URL string `json:"websocket_url"`
	}
	require.Equal(t, http.StatusOK, s.call(t, "GET", "/api/v1/meta", "", "", &meta))
	read := func(subscribe func(context.Context, *lambae.SubscribeOptions) func(func(lambae.Event, error) bool)) (raw []string, lost int) {
		opts := &lambae.SubscribeOptions{Since: lambae.Beginning, OnLost: func(err error) {
			require.ErrorIs(t, err, lambae.ErrLagged)
			lost++
		}}
		for event, err := range subscribe(t.Context(), opts) {
			require.NoError(t, err)
			require.True(t, json.Valid(event.Payload) && string(event.Payload) != "null")
			raw = append(raw, string(event.Raw()))
		}
		return raw, lost
	}
	stream, _ := read(func(ctx context.Context, o *lambae.SubscribeOptions) func(func(lambae.Event, error) bool) {
		return session.Subscribe(ctx, o)
	})
	socket, lost := read(func(ctx context.Context, o *lambae.SubscribeOptions) func(func(lambae.Event, error) bool) {
		return wsstream.Subscribe(ctx, session, meta.URL, &wsstream.Options{SubscribeOptions: *o, Backoff: func(int) time.Duration { return time.Millisecond }})
	})
	require.Len(t, stream, len(eventIDs(t, log)))
	require.Equal(t, stream, socket)
	require.Positive(t, lost)
}
