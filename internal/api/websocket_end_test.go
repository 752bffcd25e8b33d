package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/push/pushtest"
)

func TestRevokedKeysConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	server := newClientServer(t, nil)
	for name, subscribe := range map[string]bool{"subscribed": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server.open(t)
			ws := s.connect(t)
			if subscribe {
				ws.subscribe(t, "")
			} else {
				ws.send(t, `{"jsonrpc":"2.0","id":1,"method":"session.ping"}`)
				ws.next(t)
			}
			require.NoError(t, s.client.Directory.RevokeClientKey(t.Context(), s.keyID, s.client.RevokeIn))
			ids, last, frame := ws.rest(t)
			require.Equal(t, "key_revoked", last.Params.Reason)
			require.Equal(t, websocket.StatusPolicyViolation, frame.Code)
			if subscribe {
				require.Equal(t, eventIDs(t, s.log(t))[1:], ids, "the session.close it caused comes too")
			}
			_, res, err := s.dial(http.Header{"Authorization": {"Bearer " + s.key}})
			require.Error(t, err)
			require.Equal(t, http.StatusUnauthorized, res.StatusCode)
		})
	}
}

// The key's own item decides at once, before the session is told.
func TestARevocationIsObeyedBeforeItsCascade(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	ws := s.connect(t)
	failed := fmt.Errorf("the cascade fails")
	require.ErrorIs(t, s.client.Directory.RevokeClientKey(t.Context(), s.keyID, func(context.Context, string, string) error { return failed }), failed)
	ws.send(t, `{"jsonrpc":"2.0","id":1,"method":"session.subscribe","params":{"since_event_id":"`+never+`"}}`)
	ids, last, _ := ws.rest(t)
	require.Empty(t, ids)
	require.Equal(t, "key_revoked", last.Params.Reason)
}

func TestUnsubscribeEndsEverySubscriptionOfTheSession(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	all := []*testSocket{s.connect(t), s.connect(t), s.connect(t)}
	for _, ws := range all {
		ws.subscribe(t, "")
	}
	require.NoError(t, appendEvents(t.Context(), s.log(t), s.keyID, 2, `{}`))
	all[0].until(t, eventIDs(t, s.log(t))[2])
	all[0].send(t, `{"jsonrpc":"2.0","id":7,"method":"session.unsubscribe"}`)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":7,"result":{"unsubscribed":true}}`, all[0].next(t).raw, "the answer comes before the end")
	for _, ws := range all {
		_, last, frame := ws.rest(t)
		require.Equal(t, "unsubscribed", last.Params.Reason)
		require.Equal(t, websocket.StatusNormalClosure, frame.Code)
	}
	later := s.connect(t)
	later.subscribe(t, never)
	require.Equal(t, eventIDs(t, s.log(t)), later.until(t, eventIDs(t, s.log(t))[2]), "a later subscription reads past it")
}

func TestASubscriptionOfAnEndedSessionReplaysAndEnds(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	s.call(t, "DELETE", s.path(""), s.key, "", nil)
	ws := s.connect(t)
	ws.subscribe(t, never)
	ids, last, _ := ws.rest(t)
	require.Equal(t, eventIDs(t, s.log(t)), ids)
	require.Equal(t, "session_closed", last.Params.Reason)
}

func TestAStopEndsWebSocketsInOrder(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	ws, idle := s.connect(t), s.connect(t)
	ws.subscribe(t, "")
	s.stop(ErrShutdown)
	for _, ws := range []*testSocket{ws, idle} {
		_, last, frame := ws.rest(t)
		require.Equal(t, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"lagged; reconnect with since_event_id"}}`, last.raw)
		require.Equal(t, websocket.StatusGoingAway, frame.Code)
	}
}

func TestAConnectionThatNeverSubscribesIsClosed(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, func(c *Client) { c.socketLimits.subscribe = 50 * time.Millisecond }).open(t)
	_, last, frame := s.connect(t).rest(t)
	require.Empty(t, last.raw)
	require.Equal(t, websocket.StatusPolicyViolation, frame.Code)
	ws := s.connect(t)
	ws.subscribe(t, "")
	require.Never(t, func() bool { return s.client.OpenSockets() == 0 }, 150*time.Millisecond, 10*time.Millisecond)
}

// A client that does not read costs nothing but its connection, holds up nobody,
// and is dropped.
func TestASlowReaderIsDroppedAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := newClientServerOn(t, new(pushtest.Memory), func(c *Client) { c.socketLimits.write = 3 * time.Second }).open(t)
	log := s.log(t)
	slow, _, err := s.dialWith(narrow, http.Header{"Authorization": {"Bearer " + s.key}})
	require.NoError(t, err)
	quick := s.connect(t)
	slow.subscribe(t, "")
	quick.subscribe(t, "")
	large := `"` + strings.Repeat("x", 100<<10) + `"`
	var sent []string
	for len(sent) < 150 { // more than the slow one's connection holds
		require.NoError(t, appendEvents(t.Context(), log, s.keyID, 1, large))
		sent = append(sent, quick.next(t).Params.ID)
	}
	require.Equal(t, eventIDs(t, log)[1:], sent)
	require.Eventually(t, func() bool { return s.client.OpenSockets() == 1 }, 30*time.Second, 5*time.Millisecond, "the slow one is still there")
}

func TestAReaderThatFallsFarBehindIsToldToComeBack(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, func(c *Client) { c.socketLimits.lagWait, c.socketLimits.lagChunks = time.Nanosecond, 5 }).open(t)
	log := s.log(t)
	for range 20 {
		require.NoError(t, appendEvents(t.Context(), log, s.keyID, 1, `{}`))
	}
	ws := s.connect(t)
	ws.subscribe(t, never)
	ids, last, frame := ws.rest(t)
	require.Equal(t, codeRefused, last.Error.Code)
	require.Equal(t, websocket.StatusTryAgainLater, frame.Code)
	all := eventIDs(t, log)
	require.Equal(t, all[:len(ids)], ids)
	again := s.connect(t)
	again.subscribe(t, all[17])
	require.Equal(t, all[18:], again.until(t, all[20]))
}

func TestAClientThatIsGoneIsNoticed(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, func(c *Client) { c.KeepAlive, c.socketLimits.write = 10*time.Millisecond, 50*time.Millisecond }).open(t)
	for _, gone := range []func(*testSocket){
		func(ws *testSocket) { _ = ws.conn.CloseNow() },
		func(ws *testSocket) { _ = ws.conn.Close(websocket.StatusNormalClosure, "") },
		func(*testSocket) {}, // answers no ping, since nobody reads
	} {
		ws := s.connect(t)
		require.Eventually(t, func() bool { return s.client.OpenSockets() == 1 }, 20*time.Second, time.Millisecond)
		gone(ws)
		require.Eventually(t, func() bool { return s.client.OpenSockets() == 0 }, 20*time.Second, time.Millisecond)
	}
}
