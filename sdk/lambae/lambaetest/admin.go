package lambaetest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
)

func (s *Server) adminHandler() http.Handler {
	mux := http.NewServeMux()
	routes := map[string]func(*http.Request) (int, any){
		"POST /admin/v1/profiles":            s.createProfile,
		"GET /admin/v1/profiles":             func(r *http.Request) (int, any) { return pageOf(r, s.profiles) },
		"GET /admin/v1/profiles/{id}":        s.onProfile(func(_ *http.Request, profile *admin.Profile) (int, any) { return http.StatusOK, profile }),
		"PUT /admin/v1/profiles/{id}":        s.onProfile(s.replaceProfile),
		"DELETE /admin/v1/profiles/{id}":     s.onProfile(s.deleteProfile),
		"POST /admin/v1/keys":                s.createKey,
		"GET /admin/v1/keys":                 s.listKeys,
		"DELETE /admin/v1/keys/{id}":         s.revokeKey,
		"GET /admin/v1/sessions":             s.listSessions,
		"GET /admin/v1/sessions/{id}/events": s.listEvents,
		"GET /admin/v1/providers": fixed(map[string]any{"items": []admin.Provider{
			{Name: "mock", Provider: "echo", Model: "mock", BaseURL: "http://model.invalid"}}}),
		"GET /admin/v1/mcp-servers": fixed(map[string]any{"items": []admin.MCPServer{{Name: "test", Transport: "stdio"}}}),
		"GET /admin/v1/config": fixed(json.RawMessage(`{"mcp":{"servers":[]},"providers":{"entries":[{"name":"mock","provider":"echo",` +
			`"model":"mock","base_url":"http://model.invalid","auth_token":"••••••••"}]},"telemetry":{"enabled":false}}`)),
		"GET /admin/v1/sandbox-status": s.sandboxStatus,
		"/": func(*http.Request) (int, any) {
			return problem(http.StatusNotFound, lambae.TypeNotFound, "no such path")
		},
	}
	for pattern, handle := range routes {
		mux.HandleFunc(pattern, s.locked(func(r *http.Request) (int, any) {
			secret, refusal := bearer(r, "admin")
			if refusal == "" && secret != s.AdminKey {
				refusal = "invalid admin key"
			}
			if refusal != "" {
				return problem(http.StatusUnauthorized, lambae.TypeUnauthorized, refusal)
			}
			return handle(r)
		}))
	}
	return mux
}

func fixed(body any) func(*http.Request) (int, any) {
	return func(*http.Request) (int, any) { return http.StatusOK, body }
}

// spec reads and checks a profile; self is the one that may keep its name.
func (s *Server) spec(r *http.Request, self string) (spec admin.ProfileSpec, status int, refusal any) {
	if err := json.NewDecoder(r.Body).Decode(&spec); err != nil {
		status, refusal = problem(http.StatusBadRequest, lambae.TypeBadRequest, "the body is not a profile: "+err.Error())
		return spec, status, refusal
	}
	for name, value := range map[string]string{"name": spec.Name, "primary_provider": spec.PrimaryProvider} {
		if strings.TrimSpace(value) == "" {
			status, refusal = problem(http.StatusBadRequest, lambae.TypeBadRequest, name+" must not be empty")
			return spec, status, refusal
		}
	}
	for _, profile := range s.profiles {
		if profile.Name == spec.Name && profile.ID != self {
			status, refusal = problem(http.StatusConflict, lambae.TypeDuplicateName, "a profile with that name already exists")
		}
	}
	return spec, status, refusal
}

func (s *Server) createProfile(r *http.Request) (int, any) {
	spec, status, refusal := s.spec(r, "")
	if status != 0 {
		return status, refusal
	}
	profile := s.newProfile(spec)
	return http.StatusCreated, admin.CreatedProfile{ID: profile.ID, Name: profile.Name, CreatedAt: profile.CreatedAt}
}

func (s *Server) onProfile(handle func(*http.Request, *admin.Profile) (int, any)) func(*http.Request) (int, any) {
	return func(r *http.Request) (int, any) {
		profile := s.profile(r.PathValue("id"))
		if profile == nil {
			return problem(http.StatusNotFound, lambae.TypeNotFound, "no profile "+r.PathValue("id"))
		}
		return handle(r, profile)
	}
}

func (s *Server) replaceProfile(r *http.Request, profile *admin.Profile) (int, any) {
	spec, status, refusal := s.spec(r, profile.ID)
	if status != 0 {
		return status, refusal
	}
	profile.ProfileSpec, profile.UpdatedAt = spec, s.now()
	return http.StatusOK, profile
}

func (s *Server) deleteProfile(_ *http.Request, profile *admin.Profile) (int, any) {
	active := 0
	for _, key := range s.keys {
		if key.ProfileID == profile.ID {
			active++
		}
	}
	if active > 0 {
		return problem(http.StatusConflict, lambae.TypeProfileInUse,
			fmt.Sprintf("profile has %d active client key(s); revoke them before deleting", active))
	}
	s.profiles = slices.DeleteFunc(s.profiles, func(p *admin.Profile) bool { return p == profile })
	return http.StatusNoContent, nil
}

func (s *Server) createKey(r *http.Request) (int, any) {
	var body struct {
		Name      string `json:"name"`
		ProfileID string `json:"profile_id"`
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || strings.TrimSpace(body.Name) == "" {
		return problem(http.StatusBadRequest, lambae.TypeBadRequest, "name must not be empty")
	}
	if s.profile(body.ProfileID) == nil {
		return problem(http.StatusUnprocessableEntity, lambae.TypeProfileUnavailable, "no active profile "+body.ProfileID)
	}
	key := s.newKey(body.Name, body.ProfileID)
	return http.StatusCreated, admin.CreatedKey{
		ID: key.ID, Name: key.Name, Key: key.secret, Prefix: key.Prefix, ProfileID: key.ProfileID, CreatedAt: key.CreatedAt,
	}
}

func (s *Server) listKeys(r *http.Request) (int, any) {
	keys := make([]admin.Key, 0, len(s.keys))
	for _, key := range s.keys {
		keys = append(keys, key.Key)
	}
	return pageOf(r, keys)
}

// revokeKey closes the sessions that no other key has entered.
func (s *Server) revokeKey(r *http.Request) (int, any) {
	at := slices.IndexFunc(s.keys, func(key *clientKey) bool { return key.ID == r.PathValue("id") })
	if at < 0 {
		return problem(http.StatusNotFound, lambae.TypeNotFound, "no active client key "+r.PathValue("id"))
	}
	key := s.keys[at]
	s.keys = slices.Delete(s.keys, at, at+1)
	for _, ses := range s.sessions {
		left, lost := 0, false
		for _, other := range ses.keys {
			lost = lost || other == key
			if slices.Contains(s.keys, other) {
				left++
			}
		}
		if lost && left == 0 && ses.State == admin.StateOpen {
			s.end(ses, key.ID, "client_key_revoked")
		}
	}
	return http.StatusNoContent, nil
}

func (s *Server) listSessions(r *http.Request) (int, any) {
	state := r.URL.Query().Get("state")
	if state != "" && !slices.Contains([]string{admin.StateOpen, admin.StateClosed, admin.StateError}, state) {
		return problem(http.StatusBadRequest, lambae.TypeBadRequest,
			fmt.Sprintf("invalid state filter %q; expected one of open, closed, error", state))
	}
	sessions := []admin.Session{}
	for _, ses := range s.sessions {
		if state == "" || ses.State == state {
			sessions = append(sessions, ses.Session)
		}
	}
	return pageOf(r, sessions)
}

func (s *Server) listEvents(r *http.Request) (int, any) {
	ses := s.session(r.PathValue("id"))
	if ses == nil {
		return problem(http.StatusNotFound, lambae.TypeNotFound, "no session "+r.PathValue("id"))
	}
	return pageOf(r, ses.events)
}

func (s *Server) sandboxStatus(*http.Request) (int, any) {
	items := []admin.SandboxStatus{}
	for _, profile := range s.profiles {
		status := admin.SandboxStatus{ProfileID: profile.ID, Images: []lambae.SandboxImage{}}
		for _, image := range profile.AvailableSandboxes {
			status.Images = append(status.Images, lambae.SandboxImage{Name: image, Status: "available"})
		}
		items = append(items, status)
	}
	return http.StatusOK, map[string]any{"items": items}
}
