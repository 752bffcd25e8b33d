package claude

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// Spec: ParseDirectConnectURL
func TestParseDirectConnectURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]DirectConnectTarget{
		"cc://host:8080/secret": {URL: "http://host:8080", Token: "secret"},
		"cc://host:8080":        {URL: "http://host:8080"},
		"cc://[::1]:9/a%2Fb":    {URL: "http://[::1]:9", Token: "a/b"},
	} {
		got, err := ParseDirectConnectURL(raw)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for raw, want := range map[string]string{
		"cc+unix:///run/claude.sock": "not supported",
		"http://host:1/x":            `scheme "http"`,
		"cc:///token":                "names no host",
		"cc://host:\x01":             "not a direct connect URL",
	} {
		_, err := ParseDirectConnectURL(raw)
		require.ErrorContains(t, err, want)
	}
	_, err := ParseDirectConnectURL("cc+unix:///x")
	require.ErrorIs(t, err, errors.ErrUnsupported)
}

// directServer is a server that plays claude over a socket.
type directServer struct {
	*httptest.Server
	mu      sync.Mutex
	created []string
	deleted []string
	sockets int

	create       func(w http.ResponseWriter) // nil answers well
	deleteStatus int
	serve        func(ctx context.Context, n int, c *websocket.Conn) // n counts sockets
}

func newDirectServer(t *testing.T) *directServer {
	s := &directServer{serve: playDirect}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /sessions", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.created = append(s.created, r.Header.Get("Authorization")+" "+string(body))
		s.mu.Unlock()
		if s.create != nil {
			s.create(w)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{
			"session_id": "ses/1", "ws_url": "ws" + strings.TrimPrefix(s.URL, "http") + "/ws", "work_dir": "/srv", "session_key": "kept",
		})
	})
	mux.HandleFunc("DELETE /sessions/{id}", func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.deleted = append(s.deleted, r.PathValue("id"))
		s.mu.Unlock()
		if s.deleteStatus != 0 {
			http.Error(w, "no", s.deleteStatus)
		}
	})
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		s.mu.Lock()
		s.sockets++
		n := s.sockets
		s.mu.Unlock()
		s.serve(r.Context(), n, c)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func send(ctx context.Context, c *websocket.Conn, text string) {
	_ = c.Write(ctx, websocket.MessageText, []byte(text))
}

func answerControl(ctx context.Context, c *websocket.Conn, request gjson.Result) {
	send(ctx, c, `{"type":"control_response","response":{"subtype":"success","request_id":"`+request.Get("request_id").Str+`","response":{}}}`+"\n")
}

// playDirect answers the handshake and every message, in pieces that do not
// end where lines do.
func playDirect(ctx context.Context, _ int, c *websocket.Conn) {
	for {
		_, data, err := c.Read(ctx)
		if err != nil {
			return
		}
		line := gjson.ParseBytes(data)
		switch line.Get("type").Str {
		case "control_request":
			answerControl(ctx, c, line)
		case "user":
			send(ctx, c, "{broken\n\n"+`{"type":"assistant","message":{"content":`)
			send(ctx, c, `"over the wire"}}`+"\n"+`{"type":"result","subtype":"success","result":"done"}`+"\n"+`{"type":"assistant","message":`)
		}
	}
}

func (s *directServer) target() DirectConnectTarget {
	return DirectConnectTarget{URL: s.URL, Token: "tok"}
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// Spec: DirectConnect
func TestDirectConnectQuery(t *testing.T) {
	t.Parallel()
	s := newDirectServer(t)
	var logged strings.Builder
	c, err := DirectConnect(t.Context(), s.target(), &DirectConnectOptions{
		Cwd: "/w", SessionKey: "mine", PermissionMode: PermissionPlan, DeleteSessionOnClose: true,
		Logger: slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	require.NoError(t, err)
	require.Equal(t, "ses/1", c.SessionID)
	require.Equal(t, "/srv", c.WorkDir)
	require.Equal(t, "kept", c.SessionKey)
	all := collect(t, QueryOver(t.Context(), c, Text("hi"), nil))
	require.Len(t, all, 2, "a fragment without its newline is not a message")
	require.Equal(t, "over the wire", all[0].(*AssistantMessage).Text())
	require.Contains(t, logged.String(), "not JSON")
	require.Equal(t, []string{`Bearer tok {"cwd":"/w","session_key":"mine","permission_mode":"plan"}`}, s.created)
	require.Equal(t, []string{"ses/1"}, s.deleted)
}

// Spec: DeleteSessionOnClose
func TestDirectConnectDelete(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		onClose bool
		status  int
		want    string
		deletes int
	}{
		"only when asked for":  {},
		"on close":             {onClose: true, deletes: 1},
		"failure is told":      {onClose: true, status: 500, deletes: 1, want: "delete session: server answered 500"},
		"not found is told as": {onClose: true, status: 404, deletes: 1, want: "404"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDirectServer(t)
			s.deleteStatus = tc.status
			c, err := DirectConnect(t.Context(), s.target(), &DirectConnectOptions{DeleteSessionOnClose: tc.onClose, Logger: quiet()})
			require.NoError(t, err)
			st := QueryOver(t.Context(), c, Conversation(), nil)
			_, err = st.Initialization(t.Context())
			require.NoError(t, err)
			err = st.Close()
			if tc.want == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tc.want)
			}
			<-st.Done()
			require.Len(t, s.deleted, tc.deletes)
		})
	}
}

// The peer closes right behind its answer to the handshake, which counts.
//
// Spec: DeleteSessionOnClose; initialize
func TestDirectConnectPeerThatClosesIsLeftAlone(t *testing.T) {
	t.Parallel()
	s := newDirectServer(t)
	s.serve = func(ctx context.Context, _ int, c *websocket.Conn) {
		if _, data, err := c.Read(ctx); err == nil {
			answerControl(ctx, c, gjson.ParseBytes(data))
		}
		_ = c.Close(websocket.StatusNormalClosure, "bye")
	}
	c, err := DirectConnect(t.Context(), s.target(), &DirectConnectOptions{DeleteSessionOnClose: true, Logger: quiet()})
	require.NoError(t, err)
	require.Empty(t, collect(t, QueryOver(t.Context(), c, Conversation(), nil)))
	require.Empty(t, s.deleted)
}

// Spec: DirectConnect
func TestDirectConnectFailuresAreTyped(t *testing.T) {
	t.Parallel()
	answer := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, tc := range map[string]struct {
		create func(http.ResponseWriter)
		op     string
		status int
	}{
		"refused":         {create: answer(401, "who are you"), op: "create session", status: 401},
		"not JSON":        {create: answer(200, "<html>"), op: "create session"},
		"no socket":       {create: answer(200, `{"session_id":"s"}`), op: "create session"},
		"no session":      {create: answer(200, `{"ws_url":"ws://x"}`), op: "create session"},
		"nobody at ws":    {create: answer(200, `{"session_id":"s","ws_url":"ws://127.0.0.1:1/"}`), op: "open socket"},
		"ws is no socket": {create: answer(200, `{"session_id":"s","ws_url":"ftp://x"}`), op: "open socket"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newDirectServer(t)
			s.create = tc.create
			_, err := DirectConnect(t.Context(), s.target(), nil)
			var failed *DirectConnectError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, tc.op, failed.Op)
			require.Equal(t, tc.status, failed.Status)
		})
	}
	t.Run("abnormal close", func(t *testing.T) {
		t.Parallel()
		s := newDirectServer(t)
		s.serve = func(_ context.Context, _ int, c *websocket.Conn) { _ = c.CloseNow() }
		c, err := DirectConnect(t.Context(), s.target(), nil)
		require.NoError(t, err)
		st := QueryOver(t.Context(), c, Text("x"), nil)
		_, err = st.Result()
		var failed *DirectConnectError
		require.ErrorAs(t, err, &failed)
		<-st.Done()
	})
}

// Spec: reconnects
func TestDirectConnectReconnectsWhenAskedTo(t *testing.T) {
	t.Parallel()
	s := newDirectServer(t)
	s.serve = func(ctx context.Context, n int, c *websocket.Conn) {
		if n < 3 {
			_ = c.CloseNow()
			return
		}
		send(ctx, c, `{"type":"assistant","message":{"content":"back"}}`+"\n")
		_ = c.Close(websocket.StatusNormalClosure, "")
	}
	var attempts []int
	c, err := DirectConnect(t.Context(), s.target(), &DirectConnectOptions{Logger: quiet(), Reconnect: func(n int, cause error) (time.Duration, bool) {
		require.Error(t, cause)
		attempts = append(attempts, n)
		return time.Millisecond, n < 5
	}})
	require.NoError(t, err)
	line, err := c.ReadLine()
	require.NoError(t, err)
	require.Contains(t, string(line), "back")
	_, err = c.ReadLine()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, c.Wait())
	require.Equal(t, []int{1, 1}, attempts, "attempts count per break")
}
