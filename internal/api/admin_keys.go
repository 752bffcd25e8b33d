package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/go-chi/chi/v5"
	"github.com/lambae/lambae/internal/jsonfield"
	"github.com/lambae/lambae/internal/session"
)

// keyView is a client key as administration sees it: never its hash.
type keyView struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	Prefix     string    `json:"prefix"`
	ProfileID  string    `json:"profile_id"`
	CreatedAt  wireTime  `json:"created_at"`
	LastUsedAt *wireTime `json:"last_used_at"`
}

func viewKey(k session.ClientKey) keyView {
	return keyView{k.ID, k.Name, k.Prefix, k.ProfileID, wireTime(k.CreatedAt), optionalTime(k.LastUsedAt)}
}

func (a *admin) createKey(w http.ResponseWriter, r *http.Request) {
	name, profileID, err := readKey(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	k, secret, err := a.Directory.CreateClientKey(r.Context(), name, profileID)
	switch {
	case errors.Is(err, session.ErrProfileUnavailable):
		writeProblem(w, profileUnavailable("no active profile "+profileID))
	case err != nil:
		a.fail(w, r, err)
	default:
		w.Header().Set("Cache-Control", "no-store")
		writeJSON(w, http.StatusCreated, struct {
			ID        string   `json:"id"`
			Name      string   `json:"name"`
			Key       string   `json:"key"` // shown here and never again
			Prefix    string   `json:"prefix"`
			ProfileID string   `json:"profile_id"`
			CreatedAt wireTime `json:"created_at"`
		}{k.ID, k.Name, secret, k.Prefix, k.ProfileID, wireTime(k.CreatedAt)})
	}
}

func (a *admin) listKeys(w http.ResponseWriter, r *http.Request) {
	cursor, limit, err := pageQuery(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	list, err := a.Directory.ListClientKeys(r.Context(), cursor, limit)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, newPage(views(list.Items, viewKey), list.Next))
}

func (a *admin) revokeKey(w http.ResponseWriter, r *http.Request) {
	id := chi.URLParam(r, "id")
	// The cascade over the key's sessions goes on when the caller hangs up.
	err := a.Directory.RevokeClientKey(context.WithoutCancel(r.Context()), id, a.Revoke)
	switch {
	case errors.Is(err, session.ErrNotFound):
		writeProblem(w, notFound("no active client key "+id))
	case err != nil:
		a.fail(w, r, err)
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func readKey(r *http.Request) (name, profileID string, err error) {
	body, err := readBody(r)
	if err != nil {
		return "", "", err
	}
	o, err := jsonfield.Parse(body)
	if err != nil {
		return "", "", err
	}
	name, profileID = o.String("name"), o.String("profile_id")
	if err := o.Err(); err != nil {
		return "", "", err
	}
	if err := session.CheckName(name); err != nil {
		return "", "", badRequest(err.Error())
	}
	return name, profileID, nil
}
