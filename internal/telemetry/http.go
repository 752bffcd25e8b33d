package telemetry

import (
	"context"
	"net/http"
	"strconv"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
)

// Handler makes a span of each request to next, a child of the caller's when it
// sent a traceparent header. Route, which may be nil, gives the pattern that
// matched ("/api/v1/sessions/{id}"), from the request as next saw it and after it
// answered. A nil [Telemetry] returns next itself.
func (t *Telemetry) Handler(next http.Handler, route func(*http.Request) string) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		method := knownMethod(r.Method)
		ctx := t.propagator.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.begin(ctx, method, trace.SpanKindServer, t.requests, t.inFlight,
			[]attribute.KeyValue{semconv.HTTPRequestMethodKey.String(method)})
		r = r.WithContext(ctx)
		rec := &recorder{ResponseWriter: w}
		panicked := true
		defer func() {
			if route != nil {
				if pattern := route(r); pattern != "" {
					span.span.SetName(method + " " + pattern)
					span.add(semconv.HTTPRoute(pattern))
				}
			}
			reason := ""
			if panicked && rec.status == 0 {
				rec.status = http.StatusInternalServerError
			}
			span.Status(rec.code())
			switch {
			case panicked:
				reason = "panic"
			case rec.code() >= http.StatusInternalServerError:
				reason = strconv.Itoa(rec.code())
			}
			span.End(ctx, reason)
		}()
		next.ServeHTTP(rec, r)
		panicked = false
	})
}

// knownMethod keeps callers from inventing values of a dimension.
func knownMethod(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch,
		http.MethodDelete, http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return m
	}
	return "_OTHER"
}

// recorder remembers the status that was sent.
type recorder struct {
	http.ResponseWriter
	status int
}

func (r *recorder) WriteHeader(code int) {
	if r.status == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
		r.status = code
	}
	r.ResponseWriter.WriteHeader(code)
}

// Unwrap lets [http.ResponseController] reach what the server's writer can do.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

func (r *recorder) code() int {
	if r.status == 0 {
		return http.StatusOK
	}
	return r.status
}

// Inject writes the traceparent header of ctx's span for a request to go out.
func (t *Telemetry) Inject(ctx context.Context, h http.Header) {
	if t == nil {
		return
	}
	t.propagator.Inject(ctx, propagation.HeaderCarrier(h))
}

// Transport carries traces on to those that base, which must not be nil, sends
// requests to. A nil [Telemetry] returns base itself.
func (t *Telemetry) Transport(base http.RoundTripper) http.RoundTripper {
	if t == nil {
		return base
	}
	return injector{t, base}
}

type injector struct {
	tel  *Telemetry
	base http.RoundTripper
}

func (i injector) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context()) // a RoundTripper must leave its request alone
	i.tel.Inject(r.Context(), r.Header)
	return i.base.RoundTrip(r)
}
