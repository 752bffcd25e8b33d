package api

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/push/pushtest"
	"github.com/lambae/lambae/internal/session"
)

const never = "evt_00000000000000000000000000000000"

func TestAWebSocketFollowsATurn(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	ws := s.connect(t)
	ws.subscribe(t, "")
	s.call(t, "POST", s.path("/rpc"), s.key, `{"jsonrpc":"2.0","id":1,"method":"session.registerDriver"}`, nil)
	s.call(t, "POST", s.path("/rpc"), s.key, `{"jsonrpc":"2.0","id":2,"method":"session.sendMessage","params":{"message":{"content":"hello"}}}`, nil)
	require.Equal(t, http.StatusOK, s.call(t, "DELETE", s.path(""), s.key, "", nil))
	ids, last, frame := ws.rest(t)
	require.Equal(t, eventIDs(t, s.log(t))[1:], ids, "everything after session.open")
	require.JSONEq(t, `{"jsonrpc":"2.0","method":"session.ended","params":{"session_id":"`+s.id+`","reason":"session_closed"}}`, last.raw)
	require.Equal(t, websocket.CloseError{Code: websocket.StatusNormalClosure, Reason: "the session is closed"}, frame)
}

func TestAFrameIsTheSameAsALineOfTheStream(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	require.NoError(t, appendEvents(t.Context(), s.log(t), s.keyID, 1, `{"text":"a\u2028b","n":12345678901234567890}`))
	ws := s.connect(t)
	ws.subscribe(t, never)
	s.call(t, "DELETE", s.path(""), s.key, "", nil)
	_, stream := s.do(t, "POST", s.path("/rpc"), s.key, `{"jsonrpc":"2.0","id":1,"method":"session.subscribe","params":{"since_event_id":"`+never+`"}}`)
	lines := strings.Split(strings.TrimSuffix(string(stream), "\n"), "\n")
	require.Len(t, lines, 3)
	for _, line := range lines {
		require.Equal(t, line, ws.next(t).raw)
	}
}

func TestReplayJoinsTheLivePartWithoutGapOrDuplicate(t *testing.T) {
	t.Parallel()
	shared := new(pushtest.Memory)
	server := newClientServerOn(t, shared, nil)
	rapid.Check(t, func(r *rapid.T) {
		s := server.open(t)
		elsewhere := session.NewStore(shared, nil) // another process
		var logs [2]*session.Log
		for i, store := range []*session.Store{s.client.Store, elsewhere} {
			log, release, err := store.Log(context.Background(), s.id)
			require.NoError(r, err)
			defer release()
			logs[i] = log
		}
		log := logs[0]
		chunk := rapid.IntRange(0, 3)
		put := func(log *session.Log, n int) error {
			if n == 0 { // a chunk of marks alone
				_, err := log.Append(context.Background(), func(*session.State) (session.Draft, error) {
					return session.Draft{Entries: []session.Entry{{Type: session.MarkTools, Key: s.keyID, Payload: []byte(`[]`)}}}, nil
				})
				return err
			}
			return appendEvents(context.Background(), log, s.keyID, n, `{}`)
		}
		for _, n := range rapid.SliceOfN(chunk, 0, 100).Draw(r, "before") {
			require.NoError(r, put(log, n))
		}
		before := eventIDs(r, log)
		from, since := len(before), ""
		switch rapid.SampledFrom([]string{"live", "known", "unknown"}).Draw(r, "since") {
		case "known":
			from = rapid.IntRange(1, len(before)).Draw(r, "from")
			since = before[from-1]
		case "unknown":
			from, since = 0, never
		}
		var writers errgroup.Group
		for w := range 2 {
			chunks := rapid.SliceOfN(chunk, 0, 30).Draw(r, fmt.Sprint("during", w))
			pause := time.Duration(rapid.IntRange(0, 300).Draw(r, "pause")) * time.Microsecond
			writers.Go(func() error {
				for _, n := range chunks {
					time.Sleep(pause) // spreads the writes over the subscription's start
					if err := put(logs[w], n); err != nil {
						return err
					}
				}
				return nil
			})
		}
		ws := s.connect(r)
		ws.subscribe(r, since)
		answered := eventIDs(r, log)
		require.NoError(r, writers.Wait())
		require.NoError(r, logs[rapid.IntRange(0, 1).Draw(r, "closer")].Close(context.Background(), s.keyID))
		got, _, _ := ws.rest(r)
		require.NoError(r, log.Refresh(context.Background()))
		all := eventIDs(r, log)
		if since != "" {
			require.Equal(r, all[from:], got)
			return
		}
		// Live only: a suffix that starts somewhere between the request and the answer.
		require.LessOrEqual(r, len(all)-len(answered), len(got))
		require.LessOrEqual(r, len(got), len(all)-len(before))
		require.Equal(r, all[len(all)-len(got):], got)
	})
}

func TestAnotherSubscribeTakesThePlaceOfTheFirst(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	log := s.log(t)
	require.NoError(t, appendEvents(t.Context(), log, s.keyID, 3, `{}`))
	ids := eventIDs(t, log)
	ws := s.connect(t)
	ws.subscribe(t, ids[0])
	require.Equal(t, ids[1:], ws.until(t, ids[3]))
	ws.subscribe(t, ids[2])
	require.Equal(t, ids[3:], ws.until(t, ids[3]))
}

func TestALargeMessageComesWithoutItsPayload(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	log := s.log(t)
	text := func(n int) string { return `{"text":"` + strings.Repeat("x", n) + `"}` }
	require.NoError(t, appendEvents(t.Context(), log, s.keyID, 1, text(200<<10)))
	require.NoError(t, appendEvents(t.Context(), log, s.keyID, 1, text(120<<10)))
	ids := eventIDs(t, log)
	ws := s.connect(t)
	ws.subscribe(t, ids[0])
	large := ws.next(t)
	require.True(t, large.Params.Omitted)
	require.Equal(t, "null", string(large.Params.Payload))
	require.Equal(t, ids[1], large.Params.ID)
	require.Equal(t, session.SandboxRunning, large.Params.EventType)
	_, err := time.Parse(session.TimeFormat, large.Params.CreatedAt)
	require.NoError(t, err)
	small := ws.next(t)
	require.False(t, small.Params.Omitted)
	require.Equal(t, text(120<<10), string(small.Params.Payload))
}

// The longest message that keeps its payload has exactly the limit's length.
func TestTheLimitOfAMessageIsExact(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	log := s.log(t)
	require.NoError(t, appendEvents(t.Context(), log, s.keyID, 1, `""`))
	ids := eventIDs(t, log)
	ws := s.connect(t)
	ws.subscribe(t, ids[0])
	fill := 128<<10 - len(ws.next(t).raw)
	for _, more := range []int{0, 1} {
		require.NoError(t, appendEvents(t.Context(), log, s.keyID, 1, `"`+strings.Repeat("x", fill+more)+`"`))
		require.Equal(t, more == 1, ws.next(t).Params.Omitted)
	}
}

func TestAuthenticationComesBeforeTheUpgrade(t *testing.T) {
	t.Parallel()
	server := newClientServer(t, nil)
	s, other := server.open(t), server.open(t)
	bearer := func(key string) http.Header { return http.Header{"Authorization": {key}} }
	for name, c := range map[string]struct {
		header    http.Header
		protocols []string
		status    int
		detail    string
	}{
		"no key":                                    {nil, nil, 401, "missing Authorization header"},
		"only the protocol's name":                  {nil, []string{"bae"}, 401, "missing Authorization header"},
		"the key of another session":                {bearer("Bearer " + other.key), nil, 401, "invalid session key"},
		"a client key":                              {bearer("Bearer " + s.secret), nil, 401, "invalid session key"},
		"a wrong scheme":                            {bearer("Basic " + s.key), nil, 401, "invalid session key"},
		"a made-up key as protocol":                 {nil, []string{"bae", "bearer.bae_ses_0"}, 401, "invalid session key"},
		"a bad header and a good protocol":          {bearer("Bearer x"), []string{"bae", "bearer." + s.key}, 401, "invalid session key"},
		"the header":                                {bearer("bearer " + s.key), nil, 101, ""},
		"the header and the name of the protocol":   {bearer("Bearer " + s.key), []string{"bae"}, 101, "bae"},
		"the protocol":                              {nil, []string{"bae", "bearer." + s.key}, 101, "bae"},
		"the protocol, the key first":               {nil, []string{"bearer." + s.key, "other", "bae"}, 101, "bae"},
		"the protocol's key alone is never an echo": {nil, []string{"bearer." + s.key}, 101, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, res, err := s.dial(c.header, c.protocols...)
			require.Equal(t, c.status, res.StatusCode)
			if c.status == http.StatusSwitchingProtocols {
				require.NoError(t, err)
				require.Equal(t, c.detail, res.Header.Get("Sec-WebSocket-Protocol"))
				return
			}
			b, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.JSONEq(t, problemJSON(c.status, "unauthorized", c.detail), string(b))
		})
	}
	t.Run("a page of another origin", func(t *testing.T) {
		t.Parallel()
		_, _, err := s.dial(http.Header{"Origin": {"https://dashboard.example"}}, "bae", "bearer."+s.key)
		require.NoError(t, err)
	})
	t.Run("a request that asks for no upgrade", func(t *testing.T) {
		t.Parallel()
		var p problem
		require.Equal(t, http.StatusUpgradeRequired, s.call(t, "GET", s.path("/ws"), s.key, "", &p))
		require.Equal(t, "upgrade_required", p.Type)
	})
}

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

func TestBadFramesAreAnsweredAsErrors(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	ws := s.connect(t)
	for frame, want := range map[string]string{
		`{`:                                `"id":null,"error":{"code":-32700,"message":"Parse error"}`,
		``:                                 `"id":null,"error":{"code":-32700,"message":"Parse error"}`,
		`[{"jsonrpc":"2.0"}]`:              `"id":null,"error":{"code":-32600,"message":"Invalid Request: batch requests are not supported"}`,
		`"x"`:                              `"id":null,"error":{"code":-32600,"message":"Invalid Request"}`,
		`{"id":1,"method":"session.ping"}`: `"id":1,"error":{"code":-32600,"message":"Invalid Request: missing or wrong \"jsonrpc\" version"}`,
		`{"jsonrpc":"2.0","id":1}`:         `"id":1,"error":{"code":-32600,"message":"Invalid Request: missing \"method\""}`,
		`{"jsonrpc":"2.0","id":1,"method":"session.sendMessage"}`:                             `"id":1,"error":{"code":-32601,"message":"Method not found: session.sendMessage"}`,
		`{"jsonrpc":"2.0","id":1,"method":"session.subscribe","params":{"since_event_id":1}}`: `"id":1,"error":{"code":-32602,"message":"Invalid params: \"since_event_id\" must be a string or null"}`,
		`{"jsonrpc":"2.0","id":null,"method":"session.ping"}`:                                 `"id":null,"result":{"pong":true}`,
		`{"jsonrpc":"2.0","id":{"a":[1, 2]},"method":"session.ping","params":[]}`:             `"id":{"a":[1,2]},"result":{"pong":true}`,
		strings.Repeat(`[`, 20000): `"id":null,"error":{"code":-32700,"message":"Parse error"}`,
	} {
		ws.send(t, frame)
		require.JSONEq(t, `{"jsonrpc":"2.0",`+want+`}`, ws.next(t).raw, frame)
	}
	ws.send(t, `{"jsonrpc":"2.0","method":"no.such.notification"}`)
	ws.send(t, `{"jsonrpc":"2.0","method":"session.subscribe","params":{"since_event_id":"`+never+`"}}`)
	require.Equal(t, "session.event", ws.next(t).Method, "notifications are done and not answered")
}

func TestFramesThatAreNoMessagesCloseTheConnection(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	binary := s.connect(t)
	require.NoError(t, binary.conn.Write(t.Context(), websocket.MessageBinary, []byte(`{}`)))
	_, _, frame := binary.rest(t)
	require.Equal(t, websocket.StatusUnsupportedData, frame.Code)
	long := s.connect(t)
	long.send(t, strings.Repeat(" ", 40<<10))
	_, _, frame = long.rest(t)
	require.Equal(t, websocket.StatusMessageTooBig, frame.Code)
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

func TestAFloodIsAnsweredInOrder(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	ws := s.connect(t)
	const n = 500
	var sender sync.WaitGroup
	sender.Go(func() {
		for i := range n {
			if ws.conn.Write(ws.ctx, websocket.MessageText, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"session.ping"}`, i)) != nil {
				return
			}
		}
	})
	for i := range n {
		require.JSONEq(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"pong":true}}`, i), ws.next(t).raw)
	}
	sender.Wait()
}

// A client that does not read costs nothing but its connection, holds up nobody,
// and is dropped.
func TestASlowReaderIsDroppedAndHoldsUpNobody(t *testing.T) {
	t.Parallel()
	s := newClientServerOn(t, new(pushtest.Memory), func(c *Client) { c.socketLimits.write = 500 * time.Millisecond }).open(t)
	log := s.log(t)
	slow, _, err := s.dialWith(narrow, http.Header{"Authorization": {"Bearer " + s.key}})
	require.NoError(t, err)
	quick := s.connect(t)
	slow.subscribe(t, "")
	quick.subscribe(t, "")
	large := `"` + strings.Repeat("x", 100<<10) + `"`
	var sent []string
	for len(sent) < 500 && s.client.OpenSockets() == 2 {
		require.NoError(t, appendEvents(t.Context(), log, s.keyID, 1, large))
		sent = append(sent, quick.next(t).Params.ID)
	}
	require.Equal(t, eventIDs(t, log)[1:], sent)
	require.EqualValues(t, 1, s.client.OpenSockets(), "the slow one is still there")
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

func TestMetaGivesTheWebSocketURL(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	var meta struct {
		URL string `json:"websocket_url"`
	}
	require.Equal(t, http.StatusOK, s.call(t, "GET", "/api/v1/meta", "", "", &meta))
	conn, _, err := websocket.Dial(t.Context(), strings.ReplaceAll(meta.URL, "{session_id}", s.id), &websocket.DialOptions{Subprotocols: []string{"bae", "bearer." + s.key}})
	require.NoError(t, err)
	require.NoError(t, conn.CloseNow())

	for name, c := range map[string]struct {
		url  string
		set  func(*http.Request)
		want any
	}{
		"behind a proxy that ends TLS":  {"", func(r *http.Request) { r.Header.Set("X-Forwarded-Proto", "https") }, "wss://example.com/api/v1/sessions/{session_id}/ws"},
		"a gateway's":                   {"wss://gw.example/prod?session={session_id}", nil, "wss://gw.example/prod?session={session_id}"},
		"none where there is no socket": {"", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1/meta", nil)
			var w http.ResponseWriter = lambdaWriter{rec}
			if c.set != nil {
				c.set(r)
				w = serverWriter{lambdaWriter{rec}}
			}
			(&Client{WebSocketURL: c.url}).meta(w, r)
			var meta map[string]any
			require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &meta))
			require.Equal(t, c.want, meta["websocket_url"])
		})
	}
}

func TestAnAnswerThatCannotBeUpgradedSaysWhereToGo(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil).open(t)
	rec := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(t.Context(), "GET", s.path("/ws"), nil)
	r.Header = http.Header{"Authorization": {"Bearer " + s.key}, "Upgrade": {"websocket"}, "Connection": {"Upgrade"}}
	s.client.Handler().ServeHTTP(lambdaWriter{rec}, r)
	require.Equal(t, http.StatusNotImplemented, rec.Code)
	require.Contains(t, rec.Body.String(), "websocket_url")
}
