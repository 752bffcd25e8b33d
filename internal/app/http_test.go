package app_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWrongVerbsAreToldTheRightOnes(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	for path, allow := range map[string]string{
		"/healthz":                        "GET, HEAD",
		"/api/v1/meta":                    "GET, HEAD",
		"/api/v1/sessions":                "POST",
		"/api/v1/sessions/x":              "DELETE",
		"/api/v1/sessions/x/join":         "POST",
		"/api/v1/sessions/x/rpc":          "POST",
		"/api/v1/sessions/x/events":       "GET, HEAD",
		"/api/v1/sessions/x/participants": "GET, HEAD",
	} {
		a := s.call("PATCH", s.url+path, "", "")
		require.Equal(t, 405, a.Status, path)
		require.Equal(t, allow, a.Header.Get("Allow"), path)
		require.Equal(t, "method_not_allowed", a.json(t)["type"], path)
	}
	for _, path := range []string{"/healthz/", "/api/v1/sessions/", "/api/v1/sessions/x/", "/api/v1/sessions/x/rpc/", "/api/v1", "/"} {
		require.Equal(t, 404, s.call("DELETE", s.url+path, "", "").Status, path)
	}
}

func TestHeadAnswersLikeGetWithoutABody(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	d := s.open(s.profile(nil), `{}`)
	session := s.url + "/api/v1/sessions/" + d.id
	for _, c := range []struct{ url, key string }{
		{s.url + "/healthz", ""},
		{s.url + "/api/v1/meta", ""},
		{session + "/participants", d.key},
		{session + "/events", d.key},
		{session + "/events?limit=0", d.key},
		{session + "/events", ""},
		{s.admin + "/admin/v1/profiles", "admin"},
	} {
		get, head := s.call("GET", c.url, c.key, ""), s.call("HEAD", c.url, c.key, "")
		require.Equal(t, get.Status, head.Status, c.url)
		require.Equal(t, get.Header.Get("Content-Type"), head.Header.Get("Content-Type"), c.url)
		require.Empty(t, head.Body, c.url)
	}
}
