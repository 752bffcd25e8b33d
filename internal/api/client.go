package api

import (
	"context"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/lambae/lambae/internal/mcp"
	"github.com/lambae/lambae/internal/provider"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

// Client serves the client API: sessions over REST and the rpc endpoint. Its
// fields are set once; [Client.Handler] makes the handler.
type Client struct {
	Store     *session.Store
	Directory *session.Directory
	Engine    *turn.Engine
	Providers *provider.Registry
	MCP       *mcp.Pool // nil without MCP servers
	Logger    *slog.Logger
	Version   string
	Now       func() time.Time

	// Stopping ends subscriptions and waiting calls; nil means never.
	Stopping context.Context
	// StreamLimit is how many bytes a subscription may send before it ends with
	// the lagged line; 0 means no limit. The platform's is 200 MB.
	StreamLimit int64
	// KeepAlive is the longest silence of a subscription; 15 s when 0.
	KeepAlive time.Duration
	// LimitMargin is how long before the request context's deadline a turn is
	// closed, and a subscription ended: 30 s on a platform with a time limit.
	LimitMargin time.Duration
	// WebSocketURL is where a gateway takes WebSockets, with {session_id} in place
	// of the session; "" when this handler takes them itself, if it can.
	WebSocketURL string

	// Agents serves the sandboxd processes of sandboxes; nil without any.
	Agents *Agents

	socketLimits socketLimits
	openSockets  atomic.Int64
}

func (c *Client) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// caller is an authenticated session key.
type caller struct {
	log       *session.Log
	key       string // client key id
	profileID string
	profile   session.Profile
	server    string // URL at which the caller reached us
	// gone is set when the session's profile was deleted.
	gone    bool
	release func()
}

// limited returns the request's context as the gate and subscriptions see it:
// with its deadline, if it has one, moved forward by the margin, and ending when
// the server stops.
func (c *Client) limited(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() bool { return true }
	if c.Stopping != nil {
		stop = context.AfterFunc(c.Stopping, func() { cancel(ErrShutdown) })
	}
	release := func() {
		stop()
		cancel(nil)
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return ctx, release
	}
	ctx, free := context.WithDeadlineCause(ctx, deadline.Add(-c.LimitMargin), errTimeLimit)
	return ctx, func() {
		free()
		release()
	}
}

var errTimeLimit = &turn.Interrupted{Text: "the server's time limit came before the turn began; send the message again"}

// ErrShutdown is the cause of a request context that ends because the server
// goes down: subscriptions end with the lagged line, which makes clients come
// back, and calls that wait for the gate give up their place.
var ErrShutdown = &turn.Interrupted{Text: "the server is shutting down; send the message again"}

// Handler returns the handler of the client API.
func (c *Client) Handler() http.Handler {
	r := newRouter(c.Logger, c.now)
	r.Get("/healthz", c.healthz)
	r.Get("/api/v1/meta", c.meta)
	r.Post("/api/v1/sessions", c.open)
	// Not a sub-router: that would claim the bare path for every verb, and then
	// a wrong one would be told to use itself.
	r.Delete("/api/v1/sessions/{id}", c.close)
	r.Post("/api/v1/sessions/{id}/join", c.join)
	r.Get("/api/v1/sessions/{id}/participants", c.participants)
	r.Get("/api/v1/sessions/{id}/events", c.events)
	r.Post("/api/v1/sessions/{id}/rpc", c.rpc)
	r.Get("/api/v1/sessions/{id}/ws", c.websocket)
	if c.Agents != nil {
		c.agentRoutes(r)
	}
	return r
}

func pathSession(r *http.Request) string { return chi.URLParam(r, "id") }

func (c *Client) healthz(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

func (c *Client) meta(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Version      string   `json:"version"`
		APIVersions  []string `json:"api_versions"`
		WebSocketURL string   `json:"websocket_url,omitempty"`
	}{c.Version, []string{"v1"}, c.websocketURL(w, r)})
}
