package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lambae/lambae/internal/session"
	"github.com/stretchr/testify/require"
)

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
