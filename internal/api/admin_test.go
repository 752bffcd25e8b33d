package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lambae/lambae/internal/session"
	"github.com/stretchr/testify/require"
)

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
