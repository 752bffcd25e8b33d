package push_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/push"
	"github.com/lambae/lambae/internal/push/pushtest"
	"github.com/lambae/lambae/internal/session"
)

func TestTheKeyInSubprotocols(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines   []string
		key     string
		offered bool
	}{
		"none":               {nil, "", false},
		"others":             {[]string{"graphql-ws, mqtt"}, "", false},
		"both":               {[]string{"bae, bearer.k"}, "k", true},
		"two lines":          {[]string{"bearer.k", "bae"}, "k", true},
		"odd case and space": {[]string{" BAE ,\tBearer.K "}, "K", true},
		"the first key":      {[]string{"bearer.a,bearer.b"}, "a", false},
		"an empty key":       {[]string{"bae,bearer."}, "", true},
		"nothing but commas": {[]string{",,"}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key, offered := push.ProtocolKey(http.Header{"Sec-Websocket-Protocol": c.lines})
			require.Equal(t, c.key, key)
			require.Equal(t, c.offered, offered)
		})
	}
}

// recorder is a peer that keeps what it is told.
type recorder struct {
	sent     [][]byte
	followed int
}

func (p *recorder) Send(_ context.Context, m []byte) error {
	p.sent = append(p.sent, m)
	return nil
}

func (p *recorder) Follow(context.Context, session.Subscriber) error {
	p.followed++
	return nil
}

func (p *recorder) CatchUp(context.Context) error { return nil }

// Whatever a client sends, it gets at most one answer, which is one line of valid
// JSON-RPC with the id it gave, and never too long.
func FuzzServe(f *testing.F) {
	for _, frame := range []string{``, `{}`, `[]`, `{"jsonrpc":"2.0","id":1,"method":"session.subscribe","params":{"since_event_id":"evt_0"}}`,
		`{"jsonrpc":"2.0","id":"\u2028","method":"session.ping"}`, `{"jsonrpc":"2.0","id":{"a":1e999},"method":"session.unsubscribe","params":1}`,
		`{"jsonrpc":"2.0","method":"x"}`, `{"jsonrpc":2,"id":1.50}`, "\xff", `{"id":1,"id":2}`} {
		f.Add([]byte(frame))
	}
	table := new(pushtest.Memory)
	log, release, err := session.NewStore(table, nil).Open(f.Context(), session.Opening{
		ID: session.NewID(session.SessionPrefix), Key: session.NewID(session.KeyPrefix), Created: time.Now()})
	require.NoError(f, err)
	f.Cleanup(release)
	f.Fuzz(func(t *testing.T, frame []byte) {
		if len(frame) > push.MaxRequest {
			t.Skip()
		}
		p := &recorder{}
		require.NoError(t, push.Serve(t.Context(), log, "key", frame, p))
		require.LessOrEqual(t, len(p.sent), 1)
		for _, m := range p.sent {
			require.LessOrEqual(t, len(m), push.MaxMessage)
			require.True(t, utf8.Valid(m))
			require.NotContains(t, string(m), "\n")
			require.NotContains(t, string(m), "\u2028")
			var answer struct {
				JSONRPC string          `json:"jsonrpc"`
				ID      json.RawMessage `json:"id"`
				Result  json.RawMessage `json:"result"`
				Error   json.RawMessage `json:"error"`
			}
			require.NoError(t, json.Unmarshal(m, &answer), "%s", m)
			require.Equal(t, "2.0", answer.JSONRPC)
			require.NotEqual(t, answer.Result == nil, answer.Error == nil)
			require.Equal(t, p.followed == 1, string(answer.Result) == `{"subscribed":true}`)
		}
	})
}
