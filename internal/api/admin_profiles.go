package api

import (
	"errors"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/lambae/lambae/internal/jsonfield"
	"github.com/lambae/lambae/internal/session"
)

// profileView is a profile as administration sees it.
type profileView struct {
	ID                 string   `json:"id"`
	Name               string   `json:"name"`
	PrimaryProvider    string   `json:"primary_provider"`
	FallbackProviders  []string `json:"fallback_providers"`
	MCPServers         []string `json:"mcp_servers"`
	AllowedTools       []string `json:"allowed_tools"`
	AvailableSandboxes []string `json:"available_sandboxes"`
	SystemPrompt       *string  `json:"system_prompt"`
	EventTTLDays       *int     `json:"event_ttl_days"`
	SandboxIdleMinutes *int     `json:"sandbox_idle_minutes"`
	CreatedAt          wireTime `json:"created_at"`
	UpdatedAt          wireTime `json:"updated_at"`
}

func viewProfile(p session.Profile) profileView {
	return profileView{
		ID: p.ID, Name: p.Name, PrimaryProvider: p.PrimaryProvider, FallbackProviders: p.FallbackProviders,
		MCPServers: p.MCPServers, AllowedTools: p.AllowedTools, AvailableSandboxes: p.AvailableSandboxes,
		SystemPrompt: p.SystemPrompt, EventTTLDays: p.EventTTLDays, SandboxIdleMinutes: p.SandboxIdleMinutes,
		CreatedAt: wireTime(p.CreatedAt), UpdatedAt: wireTime(p.UpdatedAt),
	}
}

func (a *admin) createProfile(w http.ResponseWriter, r *http.Request) {
	p, err := readProfile(r)
	if err == nil {
		p, err = a.Directory.CreateProfile(r.Context(), p)
	}
	if err != nil {
		a.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusCreated, struct {
		ID        string   `json:"id"`
		Name      string   `json:"name"`
		CreatedAt wireTime `json:"created_at"`
	}{p.ID, p.Name, wireTime(p.CreatedAt)})
}

func (a *admin) listProfiles(w http.ResponseWriter, r *http.Request) {
	cursor, limit, err := pageQuery(r)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	list, err := a.Directory.ListProfiles(r.Context(), cursor, limit)
	if err != nil {
		a.fail(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, newPage(views(list.Items, viewProfile), list.Next))
}

func (a *admin) getProfile(w http.ResponseWriter, r *http.Request) {
	p, err := a.Directory.Profile(r.Context(), chi.URLParam(r, "id"))
	a.answerProfile(w, r, p, err)
}

func (a *admin) replaceProfile(w http.ResponseWriter, r *http.Request) {
	p, err := readProfile(r)
	if err == nil {
		p, err = a.Directory.ReplaceProfile(r.Context(), chi.URLParam(r, "id"), p)
	}
	a.answerProfile(w, r, p, err)
}

func (a *admin) deleteProfile(w http.ResponseWriter, r *http.Request) {
	if err := a.Directory.DeleteProfile(r.Context(), chi.URLParam(r, "id")); err != nil {
		a.answerProfile(w, r, session.Profile{}, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (a *admin) answerProfile(w http.ResponseWriter, r *http.Request, p session.Profile, err error) {
	switch {
	case errors.Is(err, session.ErrNotFound):
		writeProblem(w, notFound("no profile "+chi.URLParam(r, "id")))
	case err != nil:
		a.fail(w, r, err)
	default:
		writeJSON(w, http.StatusOK, viewProfile(p))
	}
}

// readProfile reads the body of a creation or a replacement. What a list names is
// not looked up: a profile may come before its provider.
func readProfile(r *http.Request) (session.Profile, error) {
	body, err := readBody(r)
	if err != nil {
		return session.Profile{}, err
	}
	o, err := jsonfield.Parse(body)
	if err != nil {
		return session.Profile{}, err
	}
	const registryName = "(a bae-config.toml registry name)"
	p := session.Profile{
		Name:               o.String("name"),
		PrimaryProvider:    o.String("primary_provider"),
		FallbackProviders:  o.Strings("fallback_providers", registryName),
		MCPServers:         o.Strings("mcp_servers", registryName),
		AllowedTools:       o.Strings("allowed_tools", ""),
		AvailableSandboxes: o.Strings("available_sandboxes", ""),
		SystemPrompt:       o.OptionalString("system_prompt"),
		EventTTLDays:       positive(o, "event_ttl_days"),
		SandboxIdleMinutes: positive(o, "sandbox_idle_minutes"),
	}
	if err := o.Err(); err != nil {
		return session.Profile{}, err
	}
	if err := session.CheckName(p.Name); err != nil {
		return session.Profile{}, badRequest(err.Error())
	}
	if strings.TrimSpace(p.PrimaryProvider) == "" {
		return session.Profile{}, badRequest("primary_provider must not be empty")
	}
	return p, nil
}

// positive reads an optional number of days or minutes. Its upper bound keeps
// such a number a valid duration.
func positive(o jsonfield.Object, name string) *int {
	const most = 100_000
	n := o.OptionalInt(name)
	if n != nil && (*n < 1 || *n > most) {
		o.Fail(name, "an integer from 1 to 100000, or null")
	}
	return n
}
