package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/provider"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table/embedded"
	"github.com/stretchr/testify/require"
)

const adminConfig = `
[[providers.entries]]
name = "q"
provider = "openai"
model = "m2"
auth_token = "sk-secret"

[[providers.entries]]
name = "p"
provider = "anthropic"
model = "m1"
base_url = "http://gateway"
max_tokens = 100
max_retries = 2

[[mcp.servers]]
name = "web"
transport = "http"
url = "http://mcp"
headers = { Authorization = "Bearer secret" }

[[mcp.servers]]
name = "echo"
transport = "stdio"
command = "python3"
args = ["server.py"]
env = { TOKEN = "secret" }

[telemetry]
otlp_headers = { "x-key" = "secret" }
`

// adminServer is the admin API over real HTTP, on an embedded store.
type adminServer struct {
	*httptest.Server
	document  *openAPI
	directory *session.Directory
	key       string

	mu     sync.Mutex
	events map[string][]json.RawMessage // by session id
	logged map[string]session.LoggedState
	told   []string // sessions that were told of a revocation
	log    strings.Builder
	broken error // what the parts that may fail answer
}

func newAdminServer(t testing.TB, change func(*AdminDeps)) *adminServer {
	t.Helper()
	store, err := embedded.Open(filepath.Join(t.TempDir(), "store"), nil)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	s := &adminServer{
		document:  loadOpenAPI(t),
		directory: session.NewDirectory(store, time.Now),
		events:    map[string][]json.RawMessage{},
		logged:    map[string]session.LoggedState{},
	}
	keyFile := filepath.Join(t.TempDir(), "admin.key")
	_, err = s.directory.EnsureAdminKey(t.Context(), session.AdminKeyOptions{File: keyFile})
	require.NoError(t, err)
	key, err := os.ReadFile(keyFile)
	require.NoError(t, err)
	s.key = strings.TrimSpace(string(key))

	file, err := config.Parse([]byte(adminConfig))
	require.NoError(t, err)
	deps := AdminDeps{
		Directory: s.directory,
		Config:    file,
		Providers: []provider.Info{
			{Name: "q", Kind: "openai", Model: "m2", BaseURL: "https://api.openai.com", MaxTokens: 4096},
			{Name: "p", Kind: "anthropic", Model: "m1", BaseURL: "http://gateway", MaxTokens: 100},
		},
		Events: s.readEvents, State: s.state, Revoke: s.revoke, Images: s.images,
		Authenticate: s.directory.VerifyAdminKey,
		Logger:       slog.New(slog.NewJSONHandler(&lockedWriter{s}, nil)),
		Now:          time.Now,
	}
	if change != nil {
		change(&deps)
	}
	s.Server = httptest.NewServer(NewAdmin(deps))
	t.Cleanup(s.Close)
	return s
}

type lockedWriter struct{ s *adminServer }

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	return w.s.log.Write(p)
}

func (s *adminServer) readEvents(_ context.Context, id, cursor string, limit int) ([]json.RawMessage, *string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events, ok := s.events[id]
	if !ok {
		return nil, nil, session.ErrNoSession
	}
	position, err := session.DecodeCursor(id, cursor)
	if err != nil {
		return nil, nil, err
	}
	rest := events[len(position):] // a position is as long as it is far
	if len(rest) <= limit {
		return rest, nil, s.broken
	}
	next := session.EncodeCursor(id, position+strings.Repeat("x", limit))
	return rest[:limit], &next, s.broken
}

func (s *adminServer) state(_ context.Context, id string) (session.LoggedState, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged[id], s.broken
}

func (s *adminServer) revoke(_ context.Context, id, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, id)
	return s.broken
}

func (s *adminServer) images(_ context.Context, images []string) ([]ImageStatus, error) {
	out := []ImageStatus{}
	for _, name := range images {
		out = append(out, ImageStatus{Name: name, Status: "error", Detail: "not pulled"})
	}
	return out, s.broken
}

// openSession puts a session behind the API: its row, its log, its events.
func (s *adminServer) openSession(t testing.TB, keyID, profileID, state string) session.SessionRow {
	t.Helper()
	version := "kit/1"
	row := session.SessionRow{
		ID: session.NewID(session.SessionPrefix), ProfileID: profileID, ClientVersion: &version,
		State: session.StateOpen, CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
	require.NoError(t, s.directory.NoteSession(t.Context(), keyID, row.ID))
	require.NoError(t, s.directory.AddSessionRow(t.Context(), row))
	logged := session.LoggedState{Exists: true, State: state, CreatedAt: row.CreatedAt}
	if state != session.StateOpen {
		logged.ClosedAt = &row.CreatedAt
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logged[row.ID] = logged
	s.events[row.ID] = []json.RawMessage{}
	for range 3 {
		s.events[row.ID] = append(s.events[row.ID], json.RawMessage(fmt.Sprintf(
			`{"id":%q,"session_id":%q,"client_key_id":%q,"event_type":"session.open","payload":{"client_version":"<1>"},"created_at":%q}`,
			session.NewID(session.EventPrefix), row.ID, keyID, session.FormatTime(row.CreatedAt))))
	}
	return row
}

// call sends a request with the admin key and checks the answer against the document.
func (s *adminServer) call(t testing.TB, method, path, auth, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	require.NoError(t, err)
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.NoError(t, s.document.check(req, resp), "%s %s", method, path)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	if resp.StatusCode != http.StatusNoContent {
		require.Equal(t, "application/json", resp.Header.Get("Content-Type"))
	}
	return resp.StatusCode, string(answer)
}

// masks name ids in the order in which they appear, so that a conversation can be
// written down: pro#0, key#0; and hide keys and times.
type masks struct {
	ids   map[string]string // real → masked
	count map[string]int
}

var (
	maskedID     = regexp.MustCompile(`\b(pro|key|ses|evt|req)_[0-9a-f]{32}\b`)
	maskedTime   = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"`)
	maskedKey    = regexp.MustCompile(`"bae_[0-9a-f]{48}"`)
	maskedPrefix = regexp.MustCompile(`"prefix":"bae_[0-9a-f]{4}"`)
)

func (m *masks) hide(s string) string {
	s = maskedID.ReplaceAllStringFunc(s, func(id string) string {
		if m.ids[id] == "" {
			kind := id[:3]
			m.ids[id] = fmt.Sprintf("%s#%d", kind, m.count[kind])
			m.count[kind]++
		}
		return m.ids[id]
	})
	s = maskedTime.ReplaceAllString(s, `"TIME"`)
	s = maskedPrefix.ReplaceAllString(s, `"prefix":"PREFIX"`)
	return maskedKey.ReplaceAllString(s, `"KEY"`)
}

func (m *masks) reveal(s string) string {
	for id, mask := range m.ids {
		s = strings.ReplaceAll(s, mask, id)
	}
	return s
}

func problemJSON(status int, slug, detail string) string {
	body, _ := json.Marshal(newProblem(status, slug, detail))
	return string(body)
}

// One long conversation: profiles, keys, sessions, registries, in the shapes
// existing clients read.
func TestAdminConversation(t *testing.T) {
	t.Parallel()
	s := newAdminServer(t, nil)
	m := &masks{ids: map[string]string{}, count: map[string]int{}}
	const full = `"primary_provider":"p","fallback_providers":["q"],"mcp_servers":["echo"],"allowed_tools":["a"],"available_sandboxes":["img"]`
	const reset = `"fallback_providers":[],"mcp_servers":[],"allowed_tools":[],"available_sandboxes":[]`
	const unset = `"system_prompt":null,"event_ttl_days":null,"sandbox_idle_minutes":null`
	const dated = `"created_at":"TIME","updated_at":"TIME"`
	none := session.NewID(session.ProfilePrefix)
	noKey := session.NewID(session.KeyPrefix)
	m.ids[none], m.ids[noKey] = "NO-PROFILE", "NO-KEY"
	bad := func(detail string) string { return problemJSON(400, "bad_request", detail) }
	duplicate := problemJSON(409, "duplicate_name", "a profile with that name already exists")

	for i, step := range []struct {
		call, body string
		status     int
		want       string
	}{
		{"GET /profiles", "", 200, `{"items":[],"next_cursor":null}`},
		{"POST /profiles", `{"name":"main",` + full + `}`, 201, `{"id":"pro#0","name":"main","created_at":"TIME"}`},
		{"POST /profiles", `{"name":"main",` + full + `}`, 409, duplicate},
		{"POST /profiles", `{"primary_provider":"p"}`, 400, bad("name must be a string")},
		{"POST /profiles", `{"name":3,` + full + `}`, 400, bad("name must be a string")},
		{"POST /profiles", `{"name":" ",` + full + `}`, 400, bad("name must not be empty")},
		{"POST /profiles", `{"name":"` + strings.Repeat("n", 201) + `","primary_provider":"p"}`, 400, bad("name must have at most 200 bytes")},
		{"POST /profiles", `{"name":"a\u0000b","primary_provider":"p"}`, 400, bad("name must not contain control characters")},
		{"POST /profiles", `{"name":"x"}`, 400, bad("primary_provider must be a string")},
		{"POST /profiles", `{"name":"x","primary_provider":""}`, 400, bad("primary_provider must not be empty")},
		{"POST /profiles", `{"name":"x","primary_provider":"p","allowed_tools":"a"}`, 400, bad("allowed_tools must be an array")},
		{"POST /profiles", `{"name":"x","primary_provider":"p","allowed_tools":[{}]}`, 400, bad("allowed_tools[0] must be a string")},
		{"POST /profiles", `{"name":"x","primary_provider":"p","mcp_servers":[1]}`, 400, bad("mcp_servers[0] must be a string (a bae-config.toml registry name)")},
		{"POST /profiles", `{"name":"x","primary_provider":"p","system_prompt":1}`, 400, bad("system_prompt must be a string or null")},
		{"POST /profiles", `{"name":"x","primary_provider":"p","event_ttl_days":0}`, 400, bad("event_ttl_days must be an integer from 1 to 100000, or null")},
		{"POST /profiles", `{"name":"x","primary_provider":"p","event_ttl_days":1.5}`, 400, bad("event_ttl_days must be an integer or null")},
		{"POST /profiles", `{`, 400, bad("the body must be valid JSON: unexpected end of JSON input at byte 1")},
		{"POST /profiles", ``, 400, bad("the body must be JSON; it is empty")},
		{"POST /profiles", `[]`, 400, bad("the body must be a JSON object")},
		{"POST /profiles", `{"name":"min","primary_provider":"later"}`, 201, `{"id":"pro#1","name":"min","created_at":"TIME"}`},
		{"POST /profiles", `{"name":"null","primary_provider":"p","allowed_tools":null}`, 201, `{"id":"pro#2","name":"null","created_at":"TIME"}`},
		{"GET /profiles/pro#0", "", 200, `{"id":"pro#0","name":"main",` + full + `,` + unset + `,` + dated + `}`},
		{"GET /profiles/NO-PROFILE", "", 404, problemJSON(404, "not_found", "no profile NO-PROFILE")},
		{"GET /profiles/anything", "", 404, problemJSON(404, "not_found", "no profile anything")},
		{"PUT /profiles/pro#1", `{"name":"main","primary_provider":"p"}`, 409, duplicate},
		{"PUT /profiles/pro#2", `{"name":"renamed","primary_provider":"p","system_prompt":"be kind","event_ttl_days":7,"sandbox_idle_minutes":5}`, 200,
			`{"id":"pro#2","name":"renamed","primary_provider":"p",` + reset + `,"system_prompt":"be kind","event_ttl_days":7,"sandbox_idle_minutes":5,` + dated + `}`},
		{"PUT /profiles/pro#2", `{"name":"renamed","primary_provider":"p"}`, 200, `{"id":"pro#2","name":"renamed","primary_provider":"p",` + reset + `,` + unset + `,` + dated + `}`},
		{"PUT /profiles/NO-PROFILE", `{"name":"main","primary_provider":"p"}`, 404, problemJSON(404, "not_found", "no profile NO-PROFILE")},
		{"PUT /profiles/pro#0", `{}`, 400, bad("name must be a string")},

		{"POST /keys", `{"name":"k1","profile_id":"pro#0"}`, 201, `{"id":"key#0","name":"k1","key":"KEY","prefix":"PREFIX","profile_id":"pro#0","created_at":"TIME"}`},
		{"POST /keys", `{"name":"k"}`, 400, bad("profile_id must be a string")},
		{"POST /keys", `{"name":"k","profile_id":"NO-PROFILE"}`, 422, problemJSON(422, "profile_unavailable", "no active profile NO-PROFILE")},
		{"POST /keys", `{"name":"","profile_id":"pro#0"}`, 400, bad("name must not be empty")},
		{"POST /keys", `{"profile_id":"pro#0"}`, 400, bad("name must be a string")},
		{"GET /keys?limit=1", "", 200, `{"items":[{"id":"key#0","name":"k1","prefix":"PREFIX","profile_id":"pro#0","created_at":"TIME","last_used_at":null}],"next_cursor":null}`},
		{"GET /keys?cursor=zzz", "", 400, bad(`invalid cursor: "zzz"`)},
		{"GET /profiles?limit=0", "", 400, bad("limit must be a positive integer")},
		{"DELETE /profiles/pro#0", "", 409, problemJSON(409, "profile_in_use", "profile has 1 active client key(s); revoke them before deleting")},

		{"GET /sessions", "", 200, `{"items":[],"next_cursor":null}`},
		{"GET /sessions?state=nope", "", 400, bad(`invalid state filter "nope"; expected one of open, closed, error`)},
		{"GET /sessions?limit=x", "", 400, bad("limit must be a positive integer")},
		{"GET /sessions?cursor=42", "", 400, bad(`invalid cursor: "42"`)},
		{"GET /sessions/anything/events", "", 404, problemJSON(404, "not_found", "no session anything")},

		{"GET /mcp-servers", "", 200, `{"items":[{"name":"echo","transport":"stdio"},{"name":"web","transport":"http"}]}`},
		{"GET /providers", "", 200, `{"items":[{"name":"p","provider":"anthropic","model":"m1","base_url":"http://gateway"},
			{"name":"q","provider":"openai","model":"m2","base_url":"https://api.openai.com"}]}`},
		{"GET /config", "", 200, `{"mcp":{"servers":[
				{"name":"echo","transport":"stdio","command":"python3","args":["server.py"],"env":{"TOKEN":"••••••••"},"url":null,"headers":{}},
				{"name":"web","transport":"http","command":null,"args":[],"env":{},"url":"http://mcp","headers":{"Authorization":"••••••••"}}]},
			"providers":{"entries":[
				{"name":"p","provider":"anthropic","model":"m1","auth_token":"••••••••","base_url":"http://gateway","max_tokens":100,"max_retries":2},
				{"name":"q","provider":"openai","model":"m2","auth_token":"••••••••","base_url":"https://api.openai.com","max_tokens":4096,"max_retries":0}]},
			"telemetry":{"enabled":false,"otlp_endpoint":null,"otlp_headers":{"x-key":"••••••••"},"sample_ratio":1,"service_name":"lambae",
				"traces":{"enabled":true},"metrics":{"enabled":true,"disabled":[]}}}`},
		{"GET /sandbox-status", "", 200, `{"items":[{"profile_id":"pro#0","images":[{"name":"img","status":"error","detail":"not pulled"}]}]}`},

		{"DELETE /keys/key#0", "", 204, ""},
		{"DELETE /keys/key#0", "", 404, problemJSON(404, "not_found", "no active client key key#0")},
		{"DELETE /keys/NO-KEY", "", 404, problemJSON(404, "not_found", "no active client key NO-KEY")},
		{"GET /keys", "", 200, `{"items":[],"next_cursor":null}`},
		{"DELETE /profiles/pro#0", "", 204, ""},
		{"DELETE /profiles/pro#0", "", 404, problemJSON(404, "not_found", "no profile pro#0")},
		{"GET /profiles/pro#0", "", 404, problemJSON(404, "not_found", "no profile pro#0")},
		{"POST /profiles", `{"name":"main",` + full + `}`, 201, `{"id":"pro#3","name":"main","created_at":"TIME"}`},
		{"GET /nothing", "", 404, problemJSON(404, "not_found", "no such path: /admin/v1/nothing")},
		{"PATCH /keys", "", 405, problemJSON(405, "method_not_allowed", "PATCH is not possible here; use GET or POST")},
	} {
		method, path, _ := strings.Cut(step.call, " ")
		status, answer := s.call(t, method, "/admin/v1"+m.reveal(path), "bearer "+s.key, m.reveal(step.body))
		answer = m.hide(answer)
		require.Equal(t, step.status, status, "step %d %s %s: %s", i, step.call, step.body, answer)
		if step.want == "" {
			require.Empty(t, answer)
		} else {
			require.JSONEq(t, step.want, answer, "step %d %s", i, step.call)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range []string{s.key, "secret", "bae_"} {
		require.NotContains(t, s.log.String(), secret)
	}
}

func TestAdminNeedsItsKeyBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	s := newAdminServer(t, nil)
	p, err := s.directory.CreateProfile(t.Context(), session.Profile{Name: "p", PrimaryProvider: "p"})
	require.NoError(t, err)
	_, client, err := s.directory.CreateClientKey(t.Context(), "k", p.ID)
	require.NoError(t, err)
	missing := problemJSON(401, "unauthorized", "missing Authorization header")
	invalid := problemJSON(401, "unauthorized", "invalid admin key")
	for name, c := range map[string]struct{ auth, want string }{
		"no header":      {"", missing},
		"blank header":   {"  ", missing},
		"other key":      {"Bearer " + session.NewSecret(session.AdminSecretPrefix), invalid},
		"client key":     {"Bearer " + client, invalid},
		"no scheme":      {s.key, invalid},
		"another scheme": {"Basic " + s.key, invalid},
		"nonsense":       {"Bearer", invalid},
	} {
		for _, call := range []string{"GET /admin/v1/profiles", "POST /admin/v1/keys", "GET /admin/v1/nothing", "PATCH /admin/v1/keys"} {
			method, path, _ := strings.Cut(call, " ")
			status, answer := s.call(t, method, path, c.auth, "{")
			require.Equal(t, 401, status, name)
			require.JSONEq(t, c.want, answer, name)
		}
	}
	status, _ := s.call(t, http.MethodGet, "/admin/v1/keys", "BEARER   "+s.key, "")
	require.Equal(t, 200, status, "the scheme is read in any case")
	status, answer := s.call(t, http.MethodGet, "/", "", "")
	require.Equal(t, 404, status)
	require.JSONEq(t, problemJSON(404, "not_found", "no such path: /"), answer)
}

func TestPlatformMayAuthenticateInstead(t *testing.T) {
	t.Parallel()
	s := newAdminServer(t, func(d *AdminDeps) { d.Authenticate = nil })
	status, _ := s.call(t, http.MethodGet, "/admin/v1/profiles", "", "")
	require.Equal(t, 200, status)
	status, _ = s.call(t, http.MethodGet, "/admin/v1/profiles", "AWS4-HMAC-SHA256 Credential=x", "")
	require.Equal(t, 200, status)
}

func TestFloodOfKeysIsToldToComeBack(t *testing.T) {
	t.Parallel()
	s := newAdminServer(t, func(d *AdminDeps) {
		d.Authenticate = func(context.Context, string) error { return session.ErrAdminKeyBusy }
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/admin/v1/keys", nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer x")
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	validateAgainstOpenAPI(t, req, resp)
	require.Equal(t, http.StatusServiceUnavailable, resp.StatusCode)
	require.Equal(t, "1", resp.Header.Get("Retry-After"))
}

func TestAdminWithoutSandboxDriverHasNoStatus(t *testing.T) {
	t.Parallel()
	s := newAdminServer(t, func(d *AdminDeps) { d.Images = nil })
	_, err := s.directory.CreateProfile(t.Context(), session.Profile{Name: "p", PrimaryProvider: "p", AvailableSandboxes: []string{"img"}})
	require.NoError(t, err)
	status, answer := s.call(t, http.MethodGet, "/admin/v1/sandbox-status", "Bearer "+s.key, "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"items":[]}`, answer)
}

func TestAdminSeesSessionsAndTheirEvents(t *testing.T) {
	t.Parallel()
	s := newAdminServer(t, nil)
	auth := "Bearer " + s.key
	p, err := s.directory.CreateProfile(t.Context(), session.Profile{Name: "p", PrimaryProvider: "p"})
	require.NoError(t, err)
	k, _, err := s.directory.CreateClientKey(t.Context(), "k", p.ID)
	require.NoError(t, err)
	open := s.openSession(t, k.ID, p.ID, session.StateOpen)
	closed := s.openSession(t, k.ID, p.ID, session.StateClosed)

	view := func(row session.SessionRow, state, closedAt string) string {
		return fmt.Sprintf(`{"id":%q,"profile_id":%q,"state":%q,"client_version":"kit/1","created_at":%q,"closed_at":%s}`,
			row.ID, p.ID, state, session.FormatTime(row.CreatedAt), closedAt)
	}
	closedView := view(closed, "closed", `"`+session.FormatTime(closed.CreatedAt)+`"`)
	status, answer := s.call(t, http.MethodGet, "/admin/v1/sessions?state=closed", auth, "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"items":[`+closedView+`],"next_cursor":null}`, answer)
	status, answer = s.call(t, http.MethodGet, "/admin/v1/sessions?state=open&limit=1", auth, "")
	require.Equal(t, 200, status)
	require.JSONEq(t, `{"items":[`+view(open, "open", "null")+`],"next_cursor":null}`, answer)

	events := s.pages(t, auth, "/admin/v1/sessions/"+open.ID+"/events?limit=2")
	require.Equal(t, s.events[open.ID], events, "the bytes of an event pass unchanged")
	require.Len(t, s.pages(t, auth, "/admin/v1/sessions?limit=1"), 2)
	status, answer = s.call(t, http.MethodGet, "/admin/v1/sessions/"+open.ID+"/events?cursor=zzz", auth, "")
	require.Equal(t, 400, status, answer)
	unknown := session.NewID(session.SessionPrefix)
	status, answer = s.call(t, http.MethodGet, "/admin/v1/sessions/"+unknown+"/events", auth, "")
	require.Equal(t, 404, status)
	require.JSONEq(t, problemJSON(404, "not_found", "no session "+unknown), answer)

	status, _ = s.call(t, http.MethodDelete, "/admin/v1/keys/"+k.ID, auth, "")
	require.Equal(t, 204, status)
	require.ElementsMatch(t, []string{open.ID, closed.ID}, s.told)
}

// pages follows next_cursor to the end.
func (s *adminServer) pages(t testing.TB, auth, path string) []json.RawMessage {
	t.Helper()
	var all []json.RawMessage
	for cursor := ""; ; {
		status, answer := s.call(t, http.MethodGet, path+"&cursor="+cursor, auth, "")
		require.Equal(t, 200, status, answer)
		var p page[json.RawMessage]
		require.NoError(t, json.Unmarshal([]byte(answer), &p))
		all = append(all, p.Items...)
		if p.NextCursor == nil {
			return all
		}
		cursor = *p.NextCursor
	}
}

func TestAdminNeverTellsWhatBroke(t *testing.T) {
	t.Parallel()
	s := newAdminServer(t, nil)
	auth := "Bearer " + s.key
	p, err := s.directory.CreateProfile(t.Context(), session.Profile{Name: "p", PrimaryProvider: "p", AvailableSandboxes: []string{"img"}})
	require.NoError(t, err)
	k, _, err := s.directory.CreateClientKey(t.Context(), "k", p.ID)
	require.NoError(t, err)
	row := s.openSession(t, k.ID, p.ID, session.StateOpen)
	s.broken = errors.New("the disk is on fire")
	for _, call := range []string{
		"GET /sessions", "GET /sessions/" + row.ID + "/events", "GET /sandbox-status", "DELETE /keys/" + k.ID,
	} {
		method, path, _ := strings.Cut(call, " ")
		status, answer := s.call(t, method, "/admin/v1"+path, auth, "")
		require.Equal(t, 500, status, call)
		require.NotContains(t, answer, "fire")
		id := maskedID.FindString(answer)
		s.mu.Lock()
		require.Contains(t, s.log.String(), `"request_id":"`+id+`","error":"`)
		s.mu.Unlock()
	}
	s.broken = nil
	status, _ := s.call(t, http.MethodDelete, "/admin/v1/keys/"+k.ID, auth, "")
	require.Equal(t, 204, status, "calling again finishes a revocation")
}

func TestProfileTooLargeToStoreIsRefused(t *testing.T) {
	t.Parallel()
	s := newAdminServer(t, nil)
	body := `{"name":"p","primary_provider":"p","system_prompt":"` + strings.Repeat("x", 400<<10) + `"}`
	status, answer := s.call(t, http.MethodPost, "/admin/v1/profiles", "Bearer "+s.key, body)
	require.Equal(t, 413, status)
	require.Contains(t, answer, `"payload_too_large"`)
}

// Whatever is sent to the routes that read a body, the answer is the sender's
// mistake or a success, and fits the document.
func FuzzAdminBodies(f *testing.F) {
	for _, seed := range []string{
		`{"name":"p","primary_provider":"p"}`, `{"name":"p","primary_provider":"p","allowed_tools":["a",1]}`,
		`{"name":"k","profile_id":"pro_0123456789abcdef0123456789abcdef"}`, `{"name":"\u0000","primary_provider":"\ud800"}`,
		`{`, `[]`, `null`, ``, "{\"name\":\"\xff\"}", `{"event_ttl_days":1e99}`, `{"name":"p","primary_provider":"p","sandbox_idle_minutes":-0}`,
		strings.Repeat("[", 10000), `{"name":{"name":{}}}`, `{} {}`,
	} {
		f.Add(seed)
	}
	s := newAdminServer(f, nil)
	p, err := s.directory.CreateProfile(f.Context(), session.Profile{Name: "there", PrimaryProvider: "p"})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, body string) {
		for _, call := range []string{"POST /admin/v1/profiles", "PUT /admin/v1/profiles/" + p.ID, "POST /admin/v1/keys"} {
			method, path, _ := strings.Cut(call, " ")
			status, answer := s.call(t, method, path, "Bearer "+s.key, body)
			require.Less(t, status, 500, answer)
		}
	})
}

// Paths and queries come from outside as well.
func FuzzAdminPaths(f *testing.F) {
	for _, seed := range [][2]string{
		{"pro_0123456789abcdef0123456789abcdef", ""}, {"%00", "cursor=%ff"}, {"a%2Fb", "limit=%zz"}, {"..", "state=open&cursor="},
		{strings.Repeat("x", 3000), "limit=18446744073709551616"}, {"ses_", "cursor=" + session.EncodeCursor("session", "!")},
	} {
		f.Add(seed[0], seed[1])
	}
	s := newAdminServer(f, nil)
	f.Fuzz(func(t *testing.T, id, query string) {
		for _, route := range []string{"/profiles/", "/keys/", "/sessions/"} {
			for _, target := range []string{route + id, strings.TrimSuffix(route, "/") + "?" + query} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/admin/v1"+target, nil)
				if err != nil {
					return // not a URL
				}
				req.Header.Set("Authorization", "Bearer "+s.key)
				resp, err := s.Client().Do(req)
				if err != nil {
					return // nor one that can be sent
				}
				require.NoError(t, resp.Body.Close())
				require.Less(t, resp.StatusCode, 500, target)
			}
		}
	})
}
