// Package otlpgrpc exports traces and metrics over OTLP/gRPC with OpenTelemetry's
// own exporters. It is for binaries that start rarely: it links gRPC.
package otlpgrpc

import (
	"context"
	"errors"

	"github.com/lambae/lambae/internal/telemetry"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetricgrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/grpc"
)

// Exporter is OTLP over gRPC for [telemetry.Start].
func Exporter() telemetry.Exporter {
	return telemetry.Exporter{Protocol: telemetry.GRPC, Open: open}
}

func open(ctx context.Context, t telemetry.Target) (trace.SpanExporter, metric.Exporter, error) {
	endpoint := t.URL.String() // its scheme decides on TLS
	credentials := grpc.WithPerRPCCredentials(headers{t, t.URL.Scheme == "https"})
	spans, err := otlptracegrpc.New(ctx,
		otlptracegrpc.WithEndpointURL(endpoint),
		otlptracegrpc.WithCompressor("gzip"),
		otlptracegrpc.WithDialOption(credentials))
	if err != nil {
		return nil, nil, err
	}
	metrics, err := otlpmetricgrpc.New(ctx,
		otlpmetricgrpc.WithEndpointURL(endpoint),
		otlpmetricgrpc.WithCompressor("gzip"),
		otlpmetricgrpc.WithDialOption(credentials))
	if err != nil {
		return nil, nil, errors.Join(err, spans.Shutdown(ctx))
	}
	return spans, metrics, nil
}

// headers are resolved for each call.
type headers struct {
	target telemetry.Target
	secure bool
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (h headers) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	return h.target.Headers(ctx)
}

// RequireTransportSecurity implements credentials.PerRPCCredentials. Whoever
// writes an http endpoint with headers means a collector on this machine.
func (h headers) RequireTransportSecurity() bool { return h.secure }
