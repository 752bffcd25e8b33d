package api

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
)

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
