package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"
)

// routerLog runs one request and returns the answer and the lines of the log.
func routerLog(t *testing.T, method, path string, routes func(r chi.Router)) (*httptest.ResponseRecorder, []map[string]any) {
	t.Helper()
	var log strings.Builder
	r := newRouter(slog.New(slog.NewJSONHandler(&log, nil)), testNow)
	routes(r)
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	var lines []map[string]any
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		lines = append(lines, fields)
	}
	return w, lines
}

func TestUnknownPathsAndWrongVerbsAreProblems(t *testing.T) {
	t.Parallel()
	routes := func(r chi.Router) {
		ok := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }
		r.Get("/things", ok)
		r.Post("/things", ok)
		r.Route("/deep", func(r chi.Router) { r.Delete("/{id}", ok) })
	}
	for name, c := range map[string]struct {
		method, path string
		status       int
		allow, want  string
	}{
		"unknown path": {http.MethodGet, "/other", 404, "", "no such path: /other"},
		"wrong verb":   {http.MethodPut, "/things", 405, "GET, HEAD, POST", "PUT is not possible here; use GET or POST"},
		"below":        {http.MethodGet, "/deep/x%2Fy", 405, "DELETE", "GET is not possible here; use DELETE"},
		"unknown verb": {"BREW", "/things", 405, "GET, HEAD, POST", "BREW is not possible here; use GET or POST"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := routerLog(t, c.method, c.path, routes)
			require.Equal(t, c.status, w.Code)
			require.Equal(t, c.allow, w.Header().Get("Allow"))
			var p problem
			require.NoError(t, json.Unmarshal(w.Body.Bytes(), &p))
			require.Equal(t, c.want, p.Detail)
			require.Equal(t, c.status, p.Status)
		})
	}
}

func TestRequestLineNamesTheRouteAndNoSecret(t *testing.T) {
	t.Parallel()
	w, lines := routerLog(t, http.MethodGet, "/things/private-id?cursor=private-cursor", func(r chi.Router) {
		r.Get("/things/{id}", func(w http.ResponseWriter, r *http.Request) {
			noteRequest(r.Context(), slog.String("session", "ses_1"))
			w.WriteHeader(http.StatusTeapot)
		})
	})
	require.Len(t, lines, 1)
	line := lines[0]
	delete(line, "time")
	require.Equal(t, map[string]any{
		"level": "INFO", "msg": "request", "method": "GET", "route": "/things/{id}", "status": float64(http.StatusTeapot),
		"ms": float64(0), "request_id": w.Header().Get(RequestIDHeader), "session": "ses_1",
	}, line)
}

func TestSilentHandlerIsLoggedAsOK(t *testing.T) {
	t.Parallel()
	_, lines := routerLog(t, http.MethodGet, "/x", func(r chi.Router) {
		r.Get("/x", func(http.ResponseWriter, *http.Request) {})
	})
	require.Equal(t, float64(http.StatusOK), lines[0]["status"])
}

func TestNotesOutsideARequestAreDropped(t *testing.T) {
	t.Parallel()
	noteRequest(t.Context(), slog.String("a", "b"))
	require.Empty(t, requestID(t.Context()))
}

func TestPanicBeforeAnAnswerIs500(t *testing.T) {
	t.Parallel()
	w, lines := routerLog(t, http.MethodGet, "/x", func(r chi.Router) {
		r.Get("/x", func(http.ResponseWriter, *http.Request) { panic("boom") })
	})
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.NotContains(t, w.Body.String(), "boom")
	require.Len(t, lines, 2)
	require.Equal(t, "handler panicked", lines[0]["msg"])
	require.Equal(t, "boom", lines[0]["panic"])
	require.Contains(t, lines[0]["stack"], "router_test.go")
	require.Equal(t, float64(500), lines[1]["status"])
}

// Over real HTTP: a client must not take half an answer for a whole one.
func TestPanicAfterAnAnswerBeganCutsItOff(t *testing.T) {
	t.Parallel()
	r := newRouter(slog.New(slog.DiscardHandler), testNow)
	r.Get("/x", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		_ = http.NewResponseController(w).Flush()
		panic("boom")
	})
	s := httptest.NewServer(r)
	defer s.Close()
	resp, err := http.Get(s.URL + "/x")
	require.NoError(t, err)
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
}

func TestAbortPassesThrough(t *testing.T) {
	t.Parallel()
	r := newRouter(slog.New(slog.DiscardHandler), testNow)
	r.Get("/x", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	require.PanicsWithValue(t, http.ErrAbortHandler, func() {
		r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/x", nil))
	})
}

// onlyWriter is the response writer of a platform that can neither flush nor
// hijack; it must not seem able to.
type onlyWriter struct{ http.ResponseWriter }

func TestWriterOfThePlatformIsNotHidden(t *testing.T) {
	t.Parallel()
	r := newRouter(slog.New(slog.DiscardHandler), testNow)
	var flushErr error
	r.Get("/x", func(w http.ResponseWriter, _ *http.Request) { flushErr = http.NewResponseController(w).Flush() })
	request := func() *http.Request { return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil) }
	r.ServeHTTP(onlyWriter{httptest.NewRecorder()}, request())
	require.True(t, errors.Is(flushErr, http.ErrNotSupported))
	w := httptest.NewRecorder()
	r.ServeHTTP(w, request())
	require.NoError(t, flushErr)
	require.True(t, w.Flushed)
}
