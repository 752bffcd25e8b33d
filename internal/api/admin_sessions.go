package api

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/lambae/lambae/internal/session"
)

// sessionView is a session as administration lists it.
type sessionView struct {
	ID            string    `json:"id"`
	ProfileID     string    `json:"profile_id"`
	State         string    `json:"state"`
	ClientVersion *string   `json:"client_version"`
	CreatedAt     wireTime  `json:"created_at"`
	ClosedAt      *wireTime `json:"closed_at"`
}

func viewSession(s session.SessionRow) sessionView {
	return sessionView{s.ID, s.ProfileID, s.State, s.ClientVersion, wireTime(s.CreatedAt), optionalTime(s.ClosedAt)}
}

func (a *admin) listSessions(w http.ResponseWriter, r *http.Request) {
	cursor, limit, err := pageQuery(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	state := r.URL.Query().Get("state")
	states := []string{session.StateOpen, session.StateClosed, session.StateError}
	if state != "" && !slices.Contains(states, state) {
		writeProblem(w, badRequest(fmt.Sprintf("invalid state filter %q; expected one of %s", state, strings.Join(states, ", "))))
		return
	}
	list, err := a.Directory.ListSessions(r.Context(), state, cursor, limit, a.State)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, newPage(views(list.Items, viewSession), list.Next))
}

func (a *admin) listEvents(w http.ResponseWriter, r *http.Request) {
	cursor, limit, err := pageQuery(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	id := chi.URLParam(r, "id")
	if !session.IsID(session.SessionPrefix, id) {
		writeProblem(w, notFound("no session "+id))
		return
	}
	items, next, err := a.Events(r.Context(), id, cursor, limit)
	switch {
	case errors.Is(err, session.ErrNoSession):
		writeProblem(w, notFound("no session "+id))
	case err != nil:
		a.fail(w, r, err)
	default:
		writeJSON(w, http.StatusOK, newPage(items, next))
	}
}
