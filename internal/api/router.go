package api

import (
	"context"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/go-chi/chi/v5/middleware"
	"github.com/lambae/lambae/internal/session"
)

// RequestIDHeader carries the id under which the server's log speaks of a request.
const RequestIDHeader = "X-Request-Id"

// newRouter returns a router with what all our handlers share: a request id, one
// log line a request, recovery from panics, a bounded body, HEAD wherever there is
// GET, and problem documents for unknown paths and wrong verbs.
func newRouter(log *slog.Logger, now func() time.Time) *chi.Mux {
	r := chi.NewRouter()
	r.Use(logRequests(log, now), recoverPanics(log), limitBody(bodyTimeout), paceWrites(writeTimeout), middleware.GetHead)
	r.NotFound(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, notFound("no such path: "+r.URL.Path))
	})
	r.MethodNotAllowed(func(w http.ResponseWriter, req *http.Request) {
		allowed := allowedMethods(r, req)
		w.Header().Set("Allow", strings.Replace(strings.Join(allowed, ", "), "GET", "GET, HEAD", 1))
		writeProblem(w, newProblem(http.StatusMethodNotAllowed, "method_not_allowed",
			req.Method+" is not possible here; use "+strings.Join(allowed, " or ")))
	})
	return r
}

// Routed makes [Route] work for what stands in front of one of our handlers.
func Routed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, chi.NewRouteContext())))
	})
}

// Route is the pattern of the route that served r, for the names of spans. It is
// known after the handler ran.
func Route(r *http.Request) string {
	if rctx := chi.RouteContext(r.Context()); rctx != nil {
		return rctx.RoutePattern()
	}
	return ""
}

func allowedMethods(routes chi.Routes, r *http.Request) []string {
	path := r.URL.RawPath
	if path == "" {
		path = r.URL.Path
	}
	methods := []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	return slices.DeleteFunc(methods, func(method string) bool {
		return !routes.Match(chi.NewRouteContext(), method, path)
	})
}

// requestNotes is what the log line of a request says beside the request itself.
type requestNotes struct {
	id string

	mu    sync.Mutex
	attrs []slog.Attr
}

type requestNotesKey struct{}

// requestID is the id of the request whose context this is.
func requestID(ctx context.Context) string {
	if n, ok := ctx.Value(requestNotesKey{}).(*requestNotes); ok {
		return n.id
	}
	return ""
}

// noteRequest adds to the log line of the request whose context this is: a
// session's id, a method, an outcome. Never payloads or keys.
func noteRequest(ctx context.Context, attrs ...slog.Attr) {
	if n, ok := ctx.Value(requestNotesKey{}).(*requestNotes); ok {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.attrs = append(n.attrs, attrs...)
	}
}

// logRequests writes one line a request when it has ended. It names the route's
// pattern, not the path, which may hold anything.
func logRequests(log *slog.Logger, now func() time.Time) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			start := now()
			notes := &requestNotes{id: session.NewID("req_")}
			r = r.WithContext(context.WithValue(r.Context(), requestNotesKey{}, notes))
			w.Header().Set(RequestIDHeader, notes.id)
			ww := &recorder{ResponseWriter: w}
			defer func() {
				status := ww.status
				if status == 0 {
					status = http.StatusOK // what net/http sends for a handler that wrote nothing
				}
				route := "unknown"
				if rctx := chi.RouteContext(r.Context()); rctx != nil && rctx.RoutePattern() != "" {
					route = rctx.RoutePattern()
				}
				notes.mu.Lock()
				defer notes.mu.Unlock()
				log.LogAttrs(r.Context(), slog.LevelInfo, "request", append([]slog.Attr{
					slog.String("method", r.Method), slog.String("route", route), slog.Int("status", status),
					slog.Int64("ms", now().Sub(start).Milliseconds()), slog.String("request_id", notes.id),
				}, notes.attrs...)...)
			}()
			next.ServeHTTP(ww, r)
		})
	}
}

// recoverPanics answers 500 when a handler panics before it wrote anything. After
// that the answer can only be cut off, so that nobody takes it for a whole one:
// the panic goes on as [http.ErrAbortHandler], which net/http knows. A platform
// whose adapter does not must recover that one itself.
func recoverPanics(log *slog.Logger) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ww := &recorder{ResponseWriter: w}
			defer func() {
				cause := recover()
				if cause == nil {
					return
				}
				if cause == http.ErrAbortHandler {
					panic(cause)
				}
				id := requestID(r.Context())
				log.LogAttrs(r.Context(), slog.LevelError, "handler panicked", slog.String("request_id", id),
					slog.Any("panic", cause), slog.String("stack", string(debug.Stack())))
				if ww.status != 0 {
					panic(http.ErrAbortHandler)
				}
				writeProblem(w, internalProblem(id))
			}()
			next.ServeHTTP(ww, r)
		})
	}
}
