package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lambae/lambae/internal/jsonfield"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
	"github.com/stretchr/testify/require"
)

// everyProblem has one problem of each slug.
func everyProblem() []problem {
	return []problem{
		badRequest(""), unauthorized(""), profileMismatch(""), notFound(""), duplicateName(""), profileInUse(""), sessionClosed(""),
		idempotencyMismatch(""), payloadTooLarge(""), profileUnavailable(""), primaryProviderUnavailable(""), unavailable(""),
		internalProblem(""), newProblem(http.StatusMethodNotAllowed, "method_not_allowed", ""),
		openRefused(&session.OpenRefusal{Slug: session.SlugToolNotAllowed}),
		openRefused(&session.OpenRefusal{Slug: session.SlugReservedToolName}),
		openRefused(&session.OpenRefusal{Slug: session.SlugInvalidSubagentTools}),
	}
}

func TestProblemsHaveTheStatusOfTheirSlug(t *testing.T) {
	t.Parallel()
	got := map[string]string{}
	for _, p := range everyProblem() {
		got[p.Type] = fmt.Sprint(p.Status, " ", p.Title)
	}
	require.Equal(t, map[string]string{
		"bad_request": "400 Bad Request", "unauthorized": "401 Unauthorized", "profile_mismatch": "403 Forbidden",
		"tool_not_allowed": "403 Forbidden", "not_found": "404 Not Found", "method_not_allowed": "405 Method Not Allowed",
		"duplicate_name": "409 Conflict", "profile_in_use": "409 Conflict", "session_closed": "409 Conflict",
		"idempotency_mismatch": "409 Conflict", "payload_too_large": "413 Payload Too Large",
		"profile_unavailable": "422 Unprocessable Entity", "primary_provider_unavailable": "422 Unprocessable Entity",
		"reserved_tool_name": "422 Unprocessable Entity", "invalid_subagent_tools": "422 Unprocessable Entity",
		"internal": "500 Internal Server Error", "unavailable": "503 Service Unavailable",
	}, got)
}

func TestErrorsOfTheCallerBecomeProblems(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"bad_request: x must be a string":                         &jsonfield.Error{Field: "x", Want: "a string"},
		`bad_request: invalid cursor: "c"`:                        session.ErrInvalidCursor{Cursor: "c"},
		"tool_not_allowed: no":                                    &session.OpenRefusal{Slug: session.SlugToolNotAllowed, Detail: "no"},
		"not_found: here":                                         notFound("here"),
		"duplicate_name: a profile with that name already exists": session.ErrDuplicateName,
		"profile_in_use: profile has 2 active client key(s); revoke them before deleting": session.ErrProfileInUse{N: 2},
		"payload_too_large: this is larger than the 350 KB that can be stored":            table.ErrTooLarge,
		"unavailable: too many admin keys are being checked; try again in a moment":       session.ErrAdminKeyBusy,
	} {
		p, ok := problemOf(fmt.Errorf("doing something: %w", err))
		require.True(t, ok, want)
		require.EqualError(t, p, want)
	}
	_, ok := problemOf(errors.New("disk on fire"))
	require.False(t, ok)
}

func TestInternalErrorsGoToTheLogAlone(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	r := newRouter(slog.New(slog.NewJSONHandler(&log, nil)), testNow)
	r.Get("/x", func(w http.ResponseWriter, r *http.Request) {
		fail(w, r, slog.New(slog.NewJSONHandler(&log, nil)), errors.New("secret table name"))
	})
	w := httptest.NewRecorder()
	r.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/x", nil))
	id := w.Header().Get(RequestIDHeader)
	require.Equal(t, http.StatusInternalServerError, w.Code)
	require.JSONEq(t, `{"type":"internal","title":"Internal Server Error","status":500,
		"detail":"internal error; the server's log tells more under request_id `+id+`"}`, w.Body.String())
	require.Contains(t, log.String(), `"level":"ERROR","msg":"request failed","request_id":"`+id+`","error":"secret table name"`)
}

func TestCallerThatWentAwayIsNoError(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/x", nil)
	serverError(httptest.NewRecorder(), r, slog.New(slog.NewJSONHandler(&log, nil)), context.Canceled)
	require.Contains(t, log.String(), `"level":"INFO"`)
}

func TestBusyServerSaysWhenToRetry(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	writeProblem(w, unavailable("busy"))
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
}

func TestRefusedCallerIsToldTheScheme(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	writeProblem(w, unauthorized("invalid client key"))
	require.Equal(t, "Bearer", w.Header().Get("WWW-Authenticate"))
	w = httptest.NewRecorder()
	writeProblem(w, notFound("no session"))
	require.Empty(t, w.Header().Get("WWW-Authenticate"))
}
