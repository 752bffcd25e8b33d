package api

import (
	"context"
	"encoding/json"
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
