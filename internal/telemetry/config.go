package telemetry

import (
	"context"
	"fmt"
	"net/url"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Config is the [telemetry] table. A config.Telemetry converts to it.
type Config struct {
	Enabled bool
	// OTLPEndpoint is where a collector listens, an http or https URL; https
	// means TLS. Port 4318 or a path means OTLP over HTTP, to which v1/traces and
	// v1/metrics are appended; everything else, as port 4317, means gRPC.
	OTLPEndpoint string
	SampleRatio  float64 // of traces that start here, 0..1; others follow their parent
	ServiceName  string
	Headers      map[string]string // sent with each export; values may hold ${…}
	TracesOff    bool              // no traces go out; those of callers go on
	MetricsOff   bool              // no metrics go out
	// DisabledMetrics are the names of metrics that do not go out; a * stands for
	// any characters.
	DisabledMetrics []string
}

// sampler decides which traces go out.
func (c Config) sampler() sdktrace.Sampler {
	if c.TracesOff {
		return sdktrace.NeverSample()
	}
	return sdktrace.ParentBased(sdktrace.TraceIDRatioBased(c.SampleRatio))
}

// views leave out the metrics that are disabled.
func (c Config) views() []sdkmetric.View {
	names := c.DisabledMetrics
	if c.MetricsOff {
		names = []string{"*"}
	}
	views := make([]sdkmetric.View, len(names))
	for i, name := range names {
		views[i] = sdkmetric.NewView(sdkmetric.Instrument{Name: name}, sdkmetric.Stream{Aggregation: sdkmetric.AggregationDrop{}})
	}
	return views
}

// Protocol is a transport of OTLP, named as in OTEL_EXPORTER_OTLP_PROTOCOL.
type Protocol string

// The protocols.
const (
	HTTP Protocol = "http/protobuf"
	GRPC Protocol = "grpc"
)

// Exporter opens the two exporters of a protocol. Packages otlphttp and otlpgrpc
// have one each.
type Exporter struct {
	Protocol Protocol
	Open     func(ctx context.Context, t Target) (sdktrace.SpanExporter, sdkmetric.Exporter, error)
}

// Target is where an [Exporter] sends to.
type Target struct {
	URL *url.URL
	// Headers returns what to send with an export, references resolved.
	Headers func(ctx context.Context) (map[string]string, error)
}

// target checks the endpoint and tells its protocol.
func (c Config) target(resolve func(context.Context, string) (string, error)) (Target, Protocol, error) {
	u, err := url.Parse(c.OTLPEndpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Target{}, "", fmt.Errorf("otlp_endpoint is not an http or https URL; write it like http://127.0.0.1:4317")
	}
	if !(c.SampleRatio >= 0 && c.SampleRatio <= 1) { // also refuses NaN
		return Target{}, "", fmt.Errorf("sample_ratio is %v; set it between 0 and 1", c.SampleRatio)
	}
	t := Target{URL: u, Headers: func(ctx context.Context) (map[string]string, error) {
		headers := make(map[string]string, len(c.Headers))
		for name, value := range c.Headers {
			v, err := resolve(ctx, value)
			if err != nil {
				return nil, fmt.Errorf("otlp header %s: %w", name, err)
			}
			headers[name] = v
		}
		return headers, nil
	}}
	if u.Port() == "4318" || u.Path != "" && u.Path != "/" {
		return t, HTTP, nil
	}
	return t, GRPC, nil
}
