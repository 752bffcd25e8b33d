package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"

	"github.com/lambae/lambae/internal/jsonfield"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
)

// problem is an RFC 7807 document, the body of every answer that is not 2xx.
// Clients match Type and show Detail to people. As an error it can be handed up
// to whoever writes the answer.
type problem struct {
	Type   string `json:"type"` // a slug
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func (p problem) Error() string { return p.Type + ": " + p.Detail }

func newProblem(status int, slug, detail string) problem {
	return problem{Type: slug, Title: http.StatusText(status), Status: status, Detail: detail}
}

func badRequest(detail string) problem {
	return newProblem(http.StatusBadRequest, "bad_request", detail)
}

func unauthorized(detail string) problem {
	return newProblem(http.StatusUnauthorized, "unauthorized", detail)
}

func profileMismatch(detail string) problem {
	return newProblem(http.StatusForbidden, "profile_mismatch", detail)
}

func notFound(detail string) problem {
	return newProblem(http.StatusNotFound, "not_found", detail)
}

func duplicateName(detail string) problem {
	return newProblem(http.StatusConflict, "duplicate_name", detail)
}

func profileInUse(detail string) problem {
	return newProblem(http.StatusConflict, "profile_in_use", detail)
}

func sessionClosed(detail string) problem {
	return newProblem(http.StatusConflict, "session_closed", detail)
}

func idempotencyMismatch(detail string) problem {
	return newProblem(http.StatusConflict, "idempotency_mismatch", detail)
}

func payloadTooLarge(detail string) problem {
	p := newProblem(http.StatusRequestEntityTooLarge, "payload_too_large", detail)
	p.Title = "Payload Too Large" // what the status is called since RFC 7231; net/http keeps the older name
	return p
}

func profileUnavailable(detail string) problem {
	return newProblem(http.StatusUnprocessableEntity, "profile_unavailable", detail)
}

func primaryProviderUnavailable(detail string) problem {
	return newProblem(http.StatusUnprocessableEntity, "primary_provider_unavailable", detail)
}

func unavailable(detail string) problem {
	return newProblem(http.StatusServiceUnavailable, "unavailable", detail)
}

// openRefused is the answer to declared tools that break a rule.
func openRefused(r *session.OpenRefusal) problem {
	status := http.StatusUnprocessableEntity
	if r.Slug == session.SlugToolNotAllowed {
		status = http.StatusForbidden
	}
	return newProblem(status, r.Slug, r.Detail)
}

// problemOf finds the answer to an error that is the caller's to mend. ok is
// false for any other, which is the server's, see [serverError].
func problemOf(err error) (p problem, ok bool) {
	var (
		field   *jsonfield.Error
		cursor  session.ErrInvalidCursor
		inUse   session.ErrProfileInUse
		refusal *session.OpenRefusal
	)
	switch {
	case errors.As(err, &p):
		return p, true
	case errors.As(err, &field):
		return badRequest(field.Error()), true
	case errors.As(err, &cursor):
		return badRequest(cursor.Error()), true
	case errors.As(err, &refusal):
		return openRefused(refusal), true
	case errors.As(err, &inUse):
		return profileInUse(inUse.Error()), true
	case errors.Is(err, session.ErrDuplicateName):
		return duplicateName(session.ErrDuplicateName.Error()), true
	case errors.Is(err, session.ErrAdminKeyBusy):
		return unavailable(session.ErrAdminKeyBusy.Error()), true
	case errors.Is(err, session.ErrUnknownFormat):
		return unavailable(session.ErrUnknownFormat.Error()), true
	case errors.Is(err, table.ErrTooLarge):
		return payloadTooLarge("this is larger than the 350 KB that can be stored"), true
	}
	return problem{}, false
}

// fail answers a request that ended in err.
func fail(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	if p, ok := problemOf(err); ok {
		writeProblem(w, p)
		return
	}
	serverError(w, r, log, err)
}

// serverError answers 500. What went wrong goes to the log and not to the
// caller, who gets the id to find it there.
func serverError(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	level := slog.LevelError
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		level = slog.LevelInfo // the caller went away, and nobody reads the answer
	}
	id := requestID(r.Context())
	log.LogAttrs(r.Context(), level, "request failed", slog.String("request_id", id), slog.String("error", err.Error()))
	writeProblem(w, internalProblem(id))
}

func internalProblem(requestID string) problem {
	return newProblem(http.StatusInternalServerError, "internal",
		"internal error; the server's log tells more under request_id "+requestID)
}

// writeProblem answers with p. Reference clients expect plain application/json.
func writeProblem(w http.ResponseWriter, p problem) {
	switch p.Status {
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "1")
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer") // a 401 must say what it wants (RFC 9110, 15.5.2)
	}
	writeJSON(w, p.Status, p)
}

// writeJSON answers with the JSON form of v.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body := session.MarshalJSON(v)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a caller that went away reads nothing
}
