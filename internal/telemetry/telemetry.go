package telemetry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.41.0"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
)

// scope names this instrumentation.
const scope = "github.com/lambae/lambae"

// Options of [Start].
type Options struct {
	Version   string     // of the service
	Exporters []Exporter // the protocols this binary speaks
	// Resolve replaces ${…} in headers. Nil uses them as they are.
	Resolve func(ctx context.Context, s string) (string, error)
	// Logger hears of exports that fail, at most once a minute. Nil drops it.
	Logger *slog.Logger
	// Attributes describe this process further, for instance faas.name.
	Attributes map[string]string
}

// Telemetry starts spans and records metrics. A nil one does nothing. It is safe
// for concurrent use.
type Telemetry struct {
	tracer     trace.Tracer
	propagator propagation.TraceContext
	traces     *sdktrace.TracerProvider
	metrics    *sdkmetric.MeterProvider
	instruments
}

// instruments are named by the semantic conventions where there are any.
type instruments struct {
	requests  metric.Float64Histogram
	inFlight  metric.Int64UpDownCounter
	turns     metric.Float64Histogram
	turnsOpen metric.Int64UpDownCounter
	attempts  metric.Float64Histogram
	tokens    metric.Int64Histogram
	tools     metric.Float64Histogram
}

// Start begins to export as the configuration says. It returns nil for one that
// is off, which is all that "off" takes. The function it returns ends the
// exports after sending what is left; it is never nil. An unreachable collector
// is no error: exports that fail are logged, and nothing waits for them.
func Start(ctx context.Context, cfg Config, opts Options) (*Telemetry, func(context.Context) error, error) {
	nothing := func(context.Context) error { return nil }
	if !cfg.Enabled {
		return nil, nothing, nil
	}
	if opts.Resolve == nil {
		opts.Resolve = func(_ context.Context, s string) (string, error) { return s, nil }
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	spans, measurements, err := open(ctx, cfg, opts)
	if err != nil {
		return nil, nothing, fmt.Errorf("telemetry: %w", err)
	}
	res, err := describe(ctx, cfg, opts)
	if err != nil {
		return nil, nothing, fmt.Errorf("telemetry: describe this process: %w", err)
	}

	t := &Telemetry{
		traces: sdktrace.NewTracerProvider(
			sdktrace.WithResource(res),
			sdktrace.WithSampler(cfg.sampler()),
			sdktrace.WithBatcher(spans),
		),
		metrics: sdkmetric.NewMeterProvider(
			sdkmetric.WithResource(res),
			sdkmetric.WithReader(sdkmetric.NewPeriodicReader(measurements)),
			sdkmetric.WithView(cfg.views()...),
		),
	}
	t.tracer = t.traces.Tracer(scope, trace.WithInstrumentationVersion(opts.Version))
	if err := t.instruments.create(t.metrics.Meter(scope, metric.WithInstrumentationVersion(opts.Version))); err != nil {
		return nil, nothing, errors.Join(fmt.Errorf("telemetry: %w", err), t.shutdown(ctx))
	}
	return t, t.shutdown, nil
}

func open(ctx context.Context, cfg Config, opts Options) (sdktrace.SpanExporter, sdkmetric.Exporter, error) {
	target, protocol, err := cfg.target(opts.Resolve)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range opts.Exporters {
		if e.Protocol != protocol {
			continue
		}
		spans, measurements, err := e.Open(ctx, target)
		if err != nil {
			return nil, nil, fmt.Errorf("open the %s exporter: %w", protocol, err)
		}
		failures := &failures{log: opts.Logger}
		return quietSpans{spans, failures}, quietMetrics{measurements, failures}, nil
	}
	hint := "its HTTP one, usually port 4318"
	if protocol == HTTP {
		hint = "its gRPC one, usually port 4317"
	}
	return nil, nil, fmt.Errorf("otlp_endpoint speaks %s, which this program does not include; use another endpoint of the collector, %s", protocol, hint)
}

func describe(ctx context.Context, cfg Config, opts Options) (*resource.Resource, error) {
	// Instances of one function must not add to each other's sums.
	instance := make([]byte, 16)
	rand.Read(instance)
	attrs := []attribute.KeyValue{
		semconv.ServiceName(cfg.ServiceName),
		semconv.ServiceVersion(opts.Version),
		semconv.ServiceInstanceID(hex.EncodeToString(instance)),
	}
	for name, value := range opts.Attributes {
		attrs = append(attrs, attribute.String(name, value))
	}
	return resource.New(ctx, resource.WithTelemetrySDK(), resource.WithFromEnv(), resource.WithAttributes(attrs...))
}

func (i *instruments) create(m metric.Meter) error {
	var errs []error
	seconds := func(name, description string, bounds ...float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(description), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
		return h
	}
	gauge := func(name, unit, description string) metric.Int64UpDownCounter {
		c, err := m.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		errs = append(errs, err)
		return c
	}
	short := []float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10}
	long := []float64{.01, .02, .04, .08, .16, .32, .64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92, 163.84, 327.68, 655.36}
	i.requests = seconds("http.server.request.duration", "Duration of HTTP requests, streams to their end.", short...)
	i.inFlight = gauge("http.server.active_requests", "{request}", "Requests in progress.")
	i.turns = seconds("lambae.turn.duration", "Duration of turns, from the gate to the answer or pause.", long...)
	i.turnsOpen = gauge("lambae.turn.active", "{turn}", "Turns in progress.")
	i.attempts = seconds("gen_ai.client.operation.duration", "Duration of attempts at providers.", long...)
	i.tools = seconds("lambae.tool.duration", "Duration of server-side calls of tools.", long...)
	var err error
	i.tokens, err = m.Int64Histogram("gen_ai.client.token.usage", metric.WithUnit("{token}"),
		metric.WithDescription("Tokens read and written in one attempt."),
		metric.WithExplicitBucketBoundaries(1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304))
	return errors.Join(append(errs, err)...)
}

// Flush sends what is recorded and waits for it, until ctx ends. A Lambda
// function calls it before an invocation ends: afterwards it may be frozen.
func (t *Telemetry) Flush(ctx context.Context) error {
	if t == nil {
		return nil
	}
	var g errgroup.Group
	g.Go(func() error { return t.traces.ForceFlush(ctx) })
	g.Go(func() error { return t.metrics.ForceFlush(ctx) })
	return g.Wait()
}

func (t *Telemetry) shutdown(ctx context.Context) error {
	var g errgroup.Group
	g.Go(func() error { return t.traces.Shutdown(ctx) })
	g.Go(func() error { return t.metrics.Shutdown(ctx) })
	return g.Wait()
}
