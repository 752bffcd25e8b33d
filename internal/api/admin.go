package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/provider"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

// AdminDeps are what the admin API stands on.
type AdminDeps struct {
	Directory *session.Directory
	// Config is the registry file as loaded; secrets in it are masked here.
	Config *config.File
	// Providers are those of Config with the addresses in effect.
	Providers []provider.Info
	// Events reads a page of a session's events, as the client API shows them. It
	// returns [session.ErrNoSession] or [session.ErrInvalidCursor].
	Events func(ctx context.Context, sessionID, cursor string, limit int) (items []json.RawMessage, next *string, err error)
	// State tells what a session's log says of it.
	State session.StateLookup
	// Revoke takes a revoked client key's rights on one session.
	Revoke session.RevokeInSession
	// Images tells the status of sandbox images. nil says that there is no sandbox
	// driver, and so no status.
	Images func(ctx context.Context, images []string) ([]ImageStatus, error)
	// Authenticate checks an admin key: nil, [session.ErrAdminKey], or another
	// error. A nil function says that the platform in front has authenticated
	// the caller, AWS_IAM at a function URL.
	Authenticate func(ctx context.Context, secret string) error
	Logger       *slog.Logger
	Now          func() time.Time
}

// ImageStatus says whether a sandbox image can be started.
type ImageStatus = turn.ImageStatus

// admin serves the admin API.
type admin struct{ AdminDeps }

// NewAdmin returns the handler of /admin/v1 (admin-and-config, "Admin API").
func NewAdmin(deps AdminDeps) http.Handler {
	a := &admin{deps}
	r := newRouter(a.Logger, a.Now)
	r.Route("/admin/v1", func(r chi.Router) {
		// Everything below, unknown paths too: a stranger learns nothing here.
		r.Use(a.authenticate)

		r.Post("/profiles", a.createProfile)
		r.Get("/profiles", a.listProfiles)
		r.Get("/profiles/{id}", a.getProfile)
		r.Put("/profiles/{id}", a.replaceProfile)
		r.Delete("/profiles/{id}", a.deleteProfile)

		r.Post("/keys", a.createKey)
		r.Get("/keys", a.listKeys)
		r.Delete("/keys/{id}", a.revokeKey)

		r.Get("/sessions", a.listSessions)
		r.Get("/sessions/{id}/events", a.listEvents)

		r.Get("/mcp-servers", a.listMCPServers)
		r.Get("/providers", a.listProviders)
		r.Get("/config", a.showConfig)
		r.Get("/sandbox-status", a.sandboxStatus)
	})
	return r
}

func (a *admin) authenticate(next http.Handler) http.Handler {
	if a.Authenticate == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secret, given := bearer(r)
		if !given {
			writeProblem(w, unauthorized("missing Authorization header"))
			return
		}
		switch err := a.Authenticate(r.Context(), secret); {
		case errors.Is(err, session.ErrAdminKey):
			writeProblem(w, unauthorized("invalid admin key"))
		case err != nil:
			a.fail(w, r, err)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func (a *admin) fail(w http.ResponseWriter, r *http.Request, err error) { fail(w, r, a.Logger, err) }

// wireTime is a time as the wire shows it.
type wireTime time.Time

func (t wireTime) MarshalJSON() ([]byte, error) {
	return json.Marshal(session.FormatTime(time.Time(t)))
}

// optionalTime is null for a time that has not come.
func optionalTime(t *time.Time) *wireTime {
	return (*wireTime)(t)
}
