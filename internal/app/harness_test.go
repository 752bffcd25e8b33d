package app_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/modeltest"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/embedded"
	"github.com/lambae/lambae/internal/telemetry"
)

// server is a whole server on real ports, with a scripted model behind it.
type server struct {
	t     testing.TB
	app   *app.App
	model *modeltest.Server
	url   string
	admin string
	file  *config.File
}

type setup struct {
	table table.Table // a new embedded one when nil
	turn  time.Duration
	mcp   []config.MCPServer
	trace *telemetry.Telemetry
	boxes app.SandboxMaker
}

func start(t testing.TB, o setup) *server {
	t.Helper()
	if o.table == nil {
		var err error
		o.table, err = embedded.Open(filepath.Join(t.TempDir(), "db"), nil)
		require.NoError(t, err)
	}
	if o.turn == 0 {
		o.turn = time.Minute
	}
	model := modeltest.New(t)
	entry := func(name, path, token string) config.Provider {
		return config.Provider{Name: name, Kind: "anthropic", Model: "scripted", AuthToken: token, MaxTokens: 4096, BaseURL: model.URL + path}
	}
	file := &config.File{Providers: []config.Provider{entry("model", "", "t"), entry("broken", "/nothing-here", "t"), entry("spare", "", "t")}, MCP: o.mcp}
	env := &config.Env{TurnTimeout: o.turn, MaxSubagentsPerSession: 8, SubagentTimeout: 10 * time.Minute}
	a, err := app.New(app.Parts{Table: o.table, File: file, Env: env, Sandboxes: o.boxes, Logger: slog.New(slog.DiscardHandler), Telemetry: o.trace})
	require.NoError(t, err)
	client := httptest.NewServer(a.Traced(a.ClientHandler()))
	admin := httptest.NewServer(a.AdminHandler(func(context.Context, string) error { return nil }))
	t.Cleanup(func() {
		a.Drain()
		a.Halt()
		client.CloseClientConnections()
		client.Close()
		admin.Close()
		require.NoError(t, a.Close())
	})
	return &server{t: t, app: a, model: model, url: client.URL, admin: admin.URL, file: file}
}

// in returns the server as seen by another test.
func (s *server) in(t testing.TB) *server {
	other := *s
	other.t = t
	return &other
}

// answer is an HTTP answer read whole.
type answer struct {
	Status int
	Header http.Header
	Body   []byte
}

func (a answer) json(t testing.TB) (v map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(a.Body, &v), string(a.Body))
	return v
}

func (s *server) call(method, url, key, body string, header ...string) answer {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), method, url, strings.NewReader(body))
	require.NoError(s.t, err)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(s.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(s.t, err)
	return answer{res.StatusCode, res.Header, b}
}

// profile makes a profile; fields override the defaults.
func (s *server) profile(fields map[string]any) string {
	s.t.Helper()
	p := map[string]any{"name": session.NewID("p_"), "primary_provider": "model", "allowed_tools": []string{"a", "b"}}
	for k, v := range fields {
		p[k] = v
	}
	a := s.call("POST", s.admin+"/admin/v1/profiles", "admin", jsonOf(p))
	require.Equal(s.t, 201, a.Status, string(a.Body))
	return a.json(s.t)["id"].(string)
}

// key makes a client key; its id comes first.
func (s *server) key(profile string) (id, secret string) {
	s.t.Helper()
	a := s.call("POST", s.admin+"/admin/v1/keys", "admin", fmt.Sprintf(`{"name":"k","profile_id":%q}`, profile))
	require.Equal(s.t, 201, a.Status, string(a.Body))
	v := a.json(s.t)
	return v["id"].(string), v["key"].(string)
}

func jsonOf(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// driver is one client of a session.
type driver struct {
	*server
	id, key string // of the session
	keyID   string // client key id
	client  string // client key
}

// open opens a session on a new key of the profile and registers as driver.
func (s *server) open(profile, body string) *driver {
	s.t.Helper()
	keyID, secret := s.key(profile)
	a := s.call("POST", s.url+"/api/v1/sessions", secret, body)
	require.Equal(s.t, 201, a.Status, string(a.Body))
	v := a.json(s.t)
	d := &driver{server: s, id: v["session_id"].(string), key: v["session_key"].(string), keyID: keyID, client: secret}
	d.result("session.registerDriver", `{}`)
	return d
}

// join lets another key of the profile in, as driver.
func (d *driver) join(profile, body string) *driver {
	d.t.Helper()
	keyID, secret := d.server.key(profile)
	a := d.call("POST", d.url+"/api/v1/sessions/"+d.id+"/join", secret, body)
	require.Equal(d.t, 201, a.Status, string(a.Body))
	j := &driver{server: d.server, id: d.id, key: a.json(d.t)["session_key"].(string), keyID: keyID, client: secret}
	j.result("session.registerDriver", `{}`)
	return j
}

func (d *driver) rpcURL() string { return d.url + "/api/v1/sessions/" + d.id + "/rpc" }

// rpc calls a method and returns its lines, keep-alives left out.
func (d *driver) rpc(method, params string, header ...string) (lines []map[string]any) {
	d.t.Helper()
	a := d.call("POST", d.rpcURL(), d.key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params), header...)
	require.Equal(d.t, 200, a.Status, string(a.Body))
	require.Equal(d.t, "application/x-ndjson", a.Header.Get("Content-Type"))
	for line := range bytes.Lines(a.Body) {
		if len(bytes.TrimSpace(line)) > 0 {
			lines = append(lines, answer{Body: line}.json(d.t))
		}
	}
	return lines
}

// result calls a method that must succeed and returns its result.
func (d *driver) result(method, params string, header ...string) map[string]any {
	d.t.Helper()
	lines := d.rpc(method, params, header...)
	last := lines[len(lines)-1]
	require.Contains(d.t, last, "result", last)
	return last["result"].(map[string]any)
}

// fault calls a method that must fail and returns code and message.
func (d *driver) fault(method, params string, header ...string) (int, string) {
	d.t.Helper()
	lines := d.rpc(method, params, header...)
	last := lines[len(lines)-1]
	require.Contains(d.t, last, "error", last)
	e := last["error"].(map[string]any)
	return int(e["code"].(float64)), e["message"].(string)
}

func userSays(content any) string {
	return jsonOf(map[string]any{"message": map[string]any{"role": "user", "content": content}})
}

// send says something and returns the result.
func (d *driver) send(content any, header ...string) map[string]any {
	d.t.Helper()
	return d.result("session.sendMessage", userSays(content), header...)
}

// event is an event as clients see it.
type event struct {
	ID      string         `json:"id"`
	Session string         `json:"session_id"`
	Key     string         `json:"client_key_id"`
	Type    string         `json:"event_type"`
	Payload map[string]any `json:"payload"`
	Created string         `json:"created_at"`
}

func eventsIn(t testing.TB, v any) (out []event) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(jsonOf(v)), &out))
	return out
}

func types(events []event) (out []string) {
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

// log reads all events over REST, page by page.
func (d *driver) log() (out []event) {
	d.t.Helper()
	for cursor := ""; ; {
		a := d.call("GET", d.url+"/api/v1/sessions/"+d.id+"/events?limit=7&cursor="+cursor, d.key, "")
		require.Equal(d.t, 200, a.Status, string(a.Body))
		v := a.json(d.t)
		require.Contains(d.t, v, "next_cursor")
		out = append(out, eventsIn(d.t, v["items"])...)
		next, more := v["next_cursor"].(string)
		if !more {
			return out
		}
		cursor = next
	}
}

// stream is an open NDJSON answer read line by line.
type stream struct {
	t      testing.TB
	lines  *bufio.Scanner
	cancel context.CancelFunc
}

func (d *driver) stream(method, params string) *stream {
	d.t.Helper()
	ctx, cancel := context.WithCancel(d.t.Context())
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
	req, err := http.NewRequestWithContext(ctx, "POST", d.rpcURL(), strings.NewReader(body))
	require.NoError(d.t, err)
	req.Header.Set("Authorization", "Bearer "+d.key)
	res, err := http.DefaultClient.Do(req)
	require.NoError(d.t, err)
	require.Equal(d.t, 200, res.StatusCode)
	s := &stream{t: d.t, lines: bufio.NewScanner(res.Body), cancel: cancel}
	s.lines.Buffer(nil, 64<<20)
	d.t.Cleanup(func() {
		cancel()
		res.Body.Close()
	})
	return s
}

// next returns the next line that is not blank, nil at the end.
func (s *stream) next() map[string]any {
	s.t.Helper()
	for s.lines.Scan() {
		if len(bytes.TrimSpace(s.lines.Bytes())) > 0 {
			return answer{Body: s.lines.Bytes()}.json(s.t)
		}
	}
	return nil
}

// event returns the next event of the stream.
func (s *stream) event() event {
	s.t.Helper()
	line := s.next()
	require.NotNil(s.t, line, "the stream ended")
	require.Equal(s.t, "session.event", line["method"], line)
	return eventsIn(s.t, []any{line["params"]})[0]
}

// queued is how many calls wait for the session's gate.
func (s *server) queued(id string) (n int) {
	log, release, err := s.app.Store.Log(s.t.Context(), id)
	require.NoError(s.t, err)
	defer release()
	log.View(func(st *session.State) { n = len(st.Queue) })
	return n
}
