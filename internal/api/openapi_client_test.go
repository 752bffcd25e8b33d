package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Real answers of every client route, good and bad, fit the document.
func TestClientAnswersFitTheDocument(t *testing.T) {
	t.Parallel()
	s := newClientServer(t, nil)
	doc := loadOpenAPI(t)
	d := s.open(t)
	closed := s.open(t)
	for _, c := range []struct {
		method, path, key, body string
		status                  int
	}{
		{"GET", "/healthz", "", "", 200},
		{"GET", "/api/v1/meta", "", "", 200},
		{"POST", "/api/v1/sessions", d.secret, `{"client_version":"1","sandbox_tools":[{"name":"sh"}]}`, 201},
		{"POST", "/api/v1/sessions", "", `{}`, 401},
		{"POST", "/api/v1/sessions", d.secret, `{"tools":5}`, 400},
		{"POST", "/api/v1/sessions", d.secret, `{"tools":[{"name":"not-allowed"}]}`, 403},
		{"POST", "/api/v1/sessions", d.secret, `{"tools":[{"name":"remote_subagent_status"}]}`, 422},
		{"POST", "/api/v1/sessions/" + d.id + "/join", d.secret, `{}`, 201},
		{"POST", "/api/v1/sessions/ses_00000000000000000000000000000000/join", d.secret, `{}`, 404},
		{"GET", d.path("/participants"), d.key, "", 200},
		{"GET", d.path("/events?limit=2"), d.key, "", 200},
		{"GET", d.path("/events?limit=0"), d.key, "", 400},
		{"GET", d.path("/events?cursor=zzz"), d.key, "", 400},
		{"GET", d.path("/events"), closed.key, "", 401},
		{"POST", d.path("/rpc"), d.key, `{"jsonrpc":"2.0","id":1,"method":"session.registerDriver"}`, 200},
		{"POST", d.path("/rpc"), d.key, `{"jsonrpc":"2.0","id":"x","method":"session.sendMessage","params":{"message":{"content":"hello"},"stream":true}}`, 200},
		{"POST", d.path("/rpc"), "", `{}`, 401},
		{"POST", d.path("/rpc"), d.key, strings.Repeat(" ", MaxBody+1), 413},
		{"DELETE", closed.path(""), closed.key, "", 200},
		{"DELETE", closed.path(""), closed.key, "", 409},
		{"POST", closed.path("/join"), closed.secret, `{}`, 409},
	} {
		name := fmt.Sprintf("%s %s → %d", c.method, c.path, c.status)
		req, err := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		if c.body != "" {
			req.Header.Set("Content-Type", "application/json")
		}
		if c.key != "" {
			req.Header.Set("Authorization", "Bearer "+c.key)
		}
		res, err := http.DefaultClient.Do(req)
		require.NoError(t, err, name)
		require.Equal(t, c.status, res.StatusCode, name)
		again, err := http.NewRequestWithContext(t.Context(), c.method, s.url+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		again.Header = req.Header
		require.NoError(t, doc.check(again, res), name)
		res.Body.Close()
	}
}
