package telemetry_test

import (
	"encoding/hex"
	"net/http"
	"net/http/httptest"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

type (
	spanExporter   = sdktrace.SpanExporter
	metricExporter = sdkmetric.Exporter
)

// transport is a server in place of one: it sees the request and says 200.
type transport func(*http.Request)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) {
	f(r)
	return httptest.NewRecorder().Result(), nil
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }
