package apigateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/push/apigateway"
	"github.com/lambae/lambae/internal/session"
)

var discard = slog.New(slog.DiscardHandler)

func TestWhoMayConnect(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	otherSession, otherKey, _ := w.open(t)
	for name, c := range map[string]struct {
		session string
		headers map[string]string
		status  int
		detail  string // of a refusal, or the subprotocol answered
	}{
		"a key in the header":                     {w.session, map[string]string{"Authorization": "Bearer " + w.key}, 200, ""},
		"a header in small letters":               {w.session, map[string]string{"authorization": "bearer " + w.key}, 200, ""},
		"a browser":                               {w.session, map[string]string{"Sec-WebSocket-Protocol": "bae, bearer." + w.key}, 200, "bae"},
		"a browser, in small letters":             {w.session, map[string]string{"sec-websocket-protocol": "bearer." + w.key + ",bae"}, 200, "bae"},
		"a key as protocol alone is not answered": {w.session, map[string]string{"Sec-WebSocket-Protocol": "bearer." + w.key}, 200, ""},
		"no key":                     {w.session, nil, 401, "missing Authorization header"},
		"the protocol without a key": {w.session, map[string]string{"Sec-WebSocket-Protocol": "bae"}, 401, "missing Authorization header"},
		"a key of another session":   {w.session, map[string]string{"Authorization": "Bearer " + otherKey}, 401, "invalid session key"},
		"a key for another session":  {otherSession, map[string]string{"Authorization": "Bearer " + w.key}, 401, "invalid session key"},
		"another scheme":             {w.session, map[string]string{"Authorization": "Basic " + w.key}, 401, "invalid session key"},
		"a session that is not":      {session.NewID(session.SessionPrefix), map[string]string{"Authorization": "Bearer " + w.key}, 401, "invalid session key"},
		"a session that cannot be":   {"x#y", map[string]string{"Authorization": "Bearer " + w.key}, 401, "invalid session key"},
		"no session":                 {"", map[string]string{"Authorization": "Bearer " + w.key}, 400, "name the session in the query: ?session=ses_…"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			id := "conn-" + session.NewID("")
			r := event("CONNECT", id)
			r.Headers, r.QueryStringParameters = c.headers, map[string]string{"session": c.session}
			answer, err := p.Handle(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, c.status, answer.StatusCode)
			require.Equal(t, c.status == 200, w.known(t, id))
			if c.status == 200 {
				require.Equal(t, c.detail, answer.Headers["Sec-WebSocket-Protocol"])
				return
			}
			require.Contains(t, answer.Body, fmt.Sprintf(`"status":%d,"detail":%q`, c.status, c.detail))
		})
	}
}

func TestARevokedKeysConnectionsEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	following, silent, asking := p.subscribe(t, ""), p.connect(t, w.session, w.key), p.connect(t, w.session, w.key)
	store := session.NewStore(w.table, nil)
	require.NoError(t, w.directory.RevokeClientKey(t.Context(), w.client.ID, func(ctx context.Context, id, key string) error {
		// The key's own item decides before its sessions are told.
		p.say(t, asking, subscribeFrame(never))
		log, release, err := store.Log(ctx, id)
		if err != nil {
			return err
		}
		defer release()
		_, err = log.Revoke(ctx, key)
		return err
	}))
	require.Empty(t, p.stream(t, w.take()...))
	require.Equal(t, ids(t, w.log)[1:], w.gateway.Events(following), "the session.close that it caused is the last event")
	require.Empty(t, w.gateway.Events(asking))
	for _, id := range []string{following, silent, asking} {
		m := w.gateway.Messages(id)
		require.Equal(t, "key_revoked", m[len(m)-1].Params.Reason)
		require.True(t, w.gateway.Closed(id))
		require.False(t, w.known(t, id))
	}
	r := event("CONNECT", "late")
	r.Headers, r.QueryStringParameters = map[string]string{"Authorization": "Bearer " + w.key}, map[string]string{"session": w.session}
	answer, err := p.Handle(t.Context(), r)
	require.NoError(t, err)
	require.Equal(t, 401, answer.StatusCode)
}

func TestUnsubscribeEndsAllSubscriptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	one, two := p.subscribe(t, ""), p.subscribe(t, never)
	p.say(t, one, `{"jsonrpc":"2.0","id":9,"method":"session.unsubscribe"}`)
	require.Empty(t, p.stream(t, w.take()...))
	for _, id := range []string{one, two} {
		m := w.gateway.Messages(id)
		require.Equal(t, "unsubscribed", m[len(m)-1].Params.Reason)
		require.True(t, w.gateway.Closed(id))
	}
	require.JSONEq(t, `{"jsonrpc":"2.0","id":9,"result":{"unsubscribed":true}}`, w.gateway.Messages(one)[1].Raw)
	w.append(1)
	later := p.subscribe(t, never)
	require.Equal(t, ids(t, w.log), w.gateway.Events(later), "a later subscription reads past it")
}

func TestAnotherSubscribeTakesThePlaceOfTheFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	w.append(3)
	all := ids(t, w.log)
	id := p.subscribe(t, all[2])
	p.say(t, id, subscribeFrame(all[0]))
	w.append(1)
	require.Empty(t, p.stream(t, w.take()...))
	require.Equal(t, append(append([]string{all[3]}, all[1:]...), ids(t, w.log)[4]), w.gateway.Events(id))
}

func TestAClientThatLeavesIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	id := p.subscribe(t, "")
	require.True(t, w.known(t, id))
	for range 2 { // the gateway may tell twice
		answer, err := p.Handle(t.Context(), event("DISCONNECT", id))
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode)
		require.False(t, w.known(t, id))
	}
	posts := w.gateway.Posts()
	w.append(1)
	require.Empty(t, p.stream(t, w.take()...))
	require.Equal(t, posts, w.gateway.Posts())
}

func TestBadFramesAreAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	id := p.connect(t, w.session, w.key)
	for i, c := range []struct{ frame, want string }{
		{`{`, `"id":null,"error":{"code":-32700,"message":"Parse error"}`},
		{``, `"id":null,"error":{"code":-32700,"message":"Parse error"}`},
		{"\xff", `"id":null,"error":{"code":-32700,"message":"Parse error"}`},
		{`{"jsonrpc":"2.0","id":1,"method":"x"}`, `"id":1,"error":{"code":-32601,"message":"Method not found: x"}`},
		{`{"jsonrpc":"2.0","id":1,"method":"session.subscribe","params":{"since_event_id":[]}}`, `"id":1,"error":{"code":-32602,"message":"Invalid params: \"since_event_id\" must be a string or null"}`},
		{`{"jsonrpc":"2.0","id":2,"method":"session.ping"}`, `"id":2,"result":{"pong":true}`},
	} {
		p.say(t, id, c.frame)
		require.JSONEq(t, `{"jsonrpc":"2.0",`+c.want+`}`, w.gateway.Messages(id)[i].Raw, c.frame)
	}
	r := event("MESSAGE", id)
	r.Body, r.IsBase64Encoded = "AAAA", true
	_, err := p.Handle(t.Context(), r)
	require.NoError(t, err)
	require.True(t, w.gateway.Closed(id), "binary frames end the connection")
}

func TestAClientThatLeavesWhileItIsServedIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.process(t)
	id := p.connect(t, w.session, w.key)
	w.gateway.HangUp(id)
	p.say(t, id, subscribeFrame(never))
	require.False(t, w.known(t, id))
	require.Empty(t, w.gateway.Messages(id))
}

// One line an event, which tells what happened where, and never a key, or what a
// client wrote.
func TestALogLineTellsTheSessionAndNoSecret(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var lines bytes.Buffer
	w.logger = slog.New(slog.NewJSONHandler(&lines, nil))
	p := w.process(t)
	id := p.connect(t, w.session, w.key)
	p.say(t, id, `{"jsonrpc":"2.0","id":1,"method":"secret words"}`)
	refused := event("CONNECT", "c-2")
	refused.Headers = map[string]string{"Sec-WebSocket-Protocol": "bae, bearer." + w.key}
	refused.QueryStringParameters = map[string]string{"session": "secret words"}
	_, err := p.Handle(t.Context(), refused)
	require.NoError(t, err)
	_, err = p.Handle(t.Context(), event("DISCONNECT", id))
	require.NoError(t, err)

	var got []string
	for line := range strings.Lines(lines.String()) {
		var l struct {
			Level, Type, Session string
			Status               int
			MS                   *int
		}
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		require.NotNil(t, l.MS)
		got = append(got, fmt.Sprint(l.Level, " ", l.Type, " ", l.Session, " ", l.Status))
	}
	require.Equal(t, []string{
		"INFO CONNECT " + w.session + " 200", "INFO MESSAGE " + w.session + " 200", "INFO CONNECT  401", "INFO DISCONNECT " + w.session + " 200",
	}, got)
	require.NotContains(t, lines.String(), w.key)
	require.NotContains(t, lines.String(), "secret words")
}

func TestAnUnknownEventSaysWhatTheFunctionIsFor(t *testing.T) {
	t.Parallel()
	_, err := newWorld(t).process(t).Handle(t.Context(), events.APIGatewayWebsocketProxyRequest{})
	require.ErrorContains(t, err, "$connect, $default and $disconnect")
}

func TestWiringSaysWhatToSet(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"no table":       {map[string]string{}, "BAE_STORE"},
		"a local table":  {map[string]string{"BAE_STORE": "embedded:x"}, "dynamodb:<table>"},
		"no endpoint":    {map[string]string{"BAE_STORE": "dynamodb:sessions"}, "BAE_WEBSOCKET_ENDPOINT"},
		"a wss endpoint": {map[string]string{"BAE_STORE": "dynamodb:sessions", "BAE_WEBSOCKET_ENDPOINT": "wss://x/prod"}, "https://"},
		"all there is":   {map[string]string{"BAE_STORE": "dynamodb:sessions", "BAE_WEBSOCKET_ENDPOINT": "https://x/prod"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lookup := func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }
			pusher, directory, err := apigateway.Wire(lookup, newWorld(t).cfg, discard)
			if c.want == "" {
				require.NoError(t, err)
				require.NotNil(t, pusher.Store)
				require.NotNil(t, directory)
				return
			}
			require.ErrorContains(t, err, c.want)
		})
	}
}
