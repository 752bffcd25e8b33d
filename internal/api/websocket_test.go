package api

import (
	"context"
	"fmt"
	"net/http"
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
	server, start := newClientServerOn(t, shared, nil), time.Now()
	rapid.Check(t, func(r *rapid.T) {
		if time.Since(start) > 5*time.Second {
			return // every run is a connection: a slow machine does fewer
		}
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
