package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/provider"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/embedded"
	"github.com/lambae/lambae/internal/turn"
)

// clientServer is the whole client API over an embedded store, with the echo
// model.
type clientServer struct {
	t       testing.TB
	client  *Client
	url     string
	profile string
	stop    context.CancelCauseFunc
}

func newClientServer(t testing.TB, change func(*Client)) *clientServer {
	t.Helper()
	store, err := embedded.Open(filepath.Join(t.TempDir(), "store"), nil)
	require.NoError(t, err)
	return newClientServerOn(t, store, change)
}

func newClientServerOn(t testing.TB, store table.Table, change func(*Client)) *clientServer {
	t.Helper()
	logger := slog.New(slog.DiscardHandler)
	registry, err := provider.NewRegistry([]config.Provider{{Name: "echo", Kind: "echo", Model: "echo", MaxTokens: 1000}}, provider.Options{})
	require.NoError(t, err)
	stopping, stop := context.WithCancelCause(context.Background())
	c := &Client{
		Store: session.NewStore(store, &session.Options{Logger: logger, PollMin: time.Millisecond}), Directory: session.NewDirectory(store, time.Now), Providers: registry,
		Engine: &turn.Engine{Providers: registry, Logger: logger}, Logger: logger, Version: "test", Stopping: stopping,
	}
	c.Engine.Ending = c.Ending
	if change != nil {
		change(c)
	}
	p, err := c.Directory.CreateProfile(t.Context(), session.Profile{Name: "p", PrimaryProvider: "echo"})
	require.NoError(t, err)
	server := httptest.NewServer(c.Handler())
	t.Cleanup(func() {
		stop(ErrShutdown)
		require.Eventually(t, func() bool { return c.OpenSockets() == 0 }, 20*time.Second, 5*time.Millisecond, "a WebSocket does not end")
		server.Close()
		require.NoError(t, store.Close())
	})
	return &clientServer{t: t, client: c, url: server.URL, profile: p.ID, stop: stop}
}

// testSession is an open session, with the keys of the client that opened it.
type testSession struct {
	*clientServer
	id, key       string
	keyID, secret string // of the client key
}

func (s *clientServer) open(t testing.TB) *testSession {
	t.Helper()
	k, secret, err := s.client.Directory.CreateClientKey(t.Context(), "k", s.profile)
	require.NoError(t, err)
	var opened struct {
		ID  string `json:"session_id"`
		Key string `json:"session_key"`
	}
	status := s.call(t, "POST", "/api/v1/sessions", secret, `{}`, &opened)
	require.Equal(t, http.StatusCreated, status)
	return &testSession{clientServer: s, id: opened.ID, key: opened.Key, keyID: k.ID, secret: secret}
}

// call makes a REST call and reads its answer, which is JSON, into v.
func (s *clientServer) call(t testing.TB, method, path, key, body string, v any) (status int) {
	t.Helper()
	status, answer := s.do(t, method, path, key, body)
	if v != nil {
		require.NoError(t, json.Unmarshal(answer, v), string(answer))
	}
	return status
}

// do makes a REST call and reads its whole answer.
func (s *clientServer) do(t testing.TB, method, path, key, body string) (status int, answer []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(body))
	require.NoError(t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	answer, err = io.ReadAll(res.Body)
	require.NoError(t, err)
	return res.StatusCode, answer
}

func (s *testSession) path(resource string) string { return "/api/v1/sessions/" + s.id + resource }

// log is the session's log, for as long as the test runs.
func (s *testSession) log(t testing.TB) *session.Log {
	t.Helper()
	l, release, err := s.client.Store.Log(t.Context(), s.id)
	require.NoError(t, err)
	t.Cleanup(release)
	return l
}

// appendEvents adds a chunk of n events to the log.
func appendEvents(ctx context.Context, l *session.Log, key string, n int, payload string) error {
	entries := make([]session.Entry, n)
	for i := range entries {
		entries[i] = session.Entry{Type: session.SandboxRunning, Key: key, Payload: json.RawMessage(payload)}
	}
	_, err := l.Append(ctx, func(*session.State) (session.Draft, error) { return session.Draft{Entries: entries}, nil })
	return err
}

// eventIDs are the ids of all events by now.
func eventIDs(t require.TestingT, l *session.Log) (ids []string) {
	cursor := ""
	for {
		page, next, err := l.Events(context.Background(), cursor, 200)
		require.NoError(t, err)
		for _, e := range page {
			ids = append(ids, e.ID)
		}
		if next == nil {
			return ids
		}
		cursor = *next
	}
}

// testSocket is a client's end of a WebSocket.
type testSocket struct {
	conn *websocket.Conn
	ctx  context.Context
}

func (s *testSession) dial(header http.Header, protocols ...string) (*testSocket, *http.Response, error) {
	return s.dialWith(http.DefaultClient, header, protocols...)
}

func (s *testSession) dialWith(client *http.Client, header http.Header, protocols ...string) (*testSocket, *http.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	s.t.Cleanup(cancel)
	conn, res, err := websocket.Dial(ctx, s.url+s.path("/ws"), &websocket.DialOptions{HTTPHeader: header, Subprotocols: protocols, HTTPClient: client})
	if err != nil {
		return nil, res, err
	}
	conn.SetReadLimit(1 << 20)
	s.t.Cleanup(func() { _ = conn.CloseNow() })
	return &testSocket{conn, ctx}, res, nil
}

// narrow dials connections whose kernel buffer holds little, so that a client
// that does not read is felt soon.
var narrow = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err == nil {
		err = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	return conn, err
}}}

// connect opens a WebSocket with the session's key.
func (s *testSession) connect(t require.TestingT) *testSocket {
	ws, _, err := s.dial(http.Header{"Authorization": {"Bearer " + s.key}})
	require.NoError(t, err)
	return ws
}

func (s *testSocket) send(t require.TestingT, frame string) {
	require.NoError(t, s.conn.Write(s.ctx, websocket.MessageText, []byte(frame)))
}

// message is any message of the server.
type message struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Result  json.RawMessage `json:"result"`
	Error   *rpcError       `json:"error"`
	Params  struct {
		ID        string          `json:"id"`
		SessionID string          `json:"session_id"`
		EventType string          `json:"event_type"`
		Payload   json.RawMessage `json:"payload"`
		Omitted   bool            `json:"payload_omitted"`
		CreatedAt string          `json:"created_at"`
		Reason    string          `json:"reason"`
	} `json:"params"`
	raw string
}

func (s *testSocket) next(t require.TestingT) message {
	kind, b, err := s.conn.Read(s.ctx)
	require.NoError(t, err)
	require.Equal(t, websocket.MessageText, kind)
	require.LessOrEqual(t, len(b), 128<<10)
	m := message{raw: string(b)}
	require.NoError(t, json.Unmarshal(b, &m), string(b))
	require.Equal(t, "2.0", m.JSONRPC)
	return m
}

// subscribe subscribes and reads the answer.
func (s *testSocket) subscribe(t require.TestingT, since string) {
	params := `{}`
	if since != "" {
		params = fmt.Sprintf(`{"since_event_id":%q}`, since)
	}
	s.send(t, `{"jsonrpc":"2.0","id":"sub","method":"session.subscribe","params":`+params+`}`)
	require.JSONEq(t, `{"jsonrpc":"2.0","id":"sub","result":{"subscribed":true}}`, s.next(t).raw)
}

// rest reads events until the connection is closed. last is the message before
// the close frame that is no event.
func (s *testSocket) rest(t require.TestingT) (ids []string, last message, frame websocket.CloseError) {
	for {
		_, b, err := s.conn.Read(s.ctx)
		if err != nil {
			require.True(t, errors.As(err, &frame), "%v", err)
			return ids, last, frame
		}
		require.Empty(t, last.raw, "nothing may follow %s", last.raw)
		var m message
		require.NoError(t, json.Unmarshal(b, &m))
		m.raw = string(b)
		if m.Method == "session.event" {
			ids = append(ids, m.Params.ID)
			continue
		}
		last = m
	}
}

// until reads events up to the one with the id.
func (s *testSocket) until(t require.TestingT, id string) (ids []string) {
	for {
		m := s.next(t)
		require.Equal(t, "session.event", m.Method, m.raw)
		if ids = append(ids, m.Params.ID); m.Params.ID == id {
			return ids
		}
	}
}

// lambdaWriter is the ResponseWriter of a platform whose answers cannot be
// upgraded.
type lambdaWriter struct{ rec *httptest.ResponseRecorder }

func (w lambdaWriter) Header() http.Header         { return w.rec.Header() }
func (w lambdaWriter) Write(b []byte) (int, error) { return w.rec.Write(b) }
func (w lambdaWriter) WriteHeader(status int)      { w.rec.WriteHeader(status) }

// serverWriter is one of a server whose connections can be taken over.
type serverWriter struct{ lambdaWriter }

func (w serverWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	return nil, nil, errors.New("not in this test")
}
