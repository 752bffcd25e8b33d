package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// failures logs exports that fail. The SDK would hand them to a global handler,
// one by one for as long as the collector is away.
type failures struct {
	log *slog.Logger

	mu     sync.Mutex
	count  int
	logged time.Time
}

func (f *failures) note(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	if now := time.Now(); now.Sub(f.logged) >= time.Minute {
		f.log.Warn("telemetry export failed", "error", err, "failures", f.count)
		f.logged, f.count = now, 0
	}
}

type quietSpans struct {
	sdktrace.SpanExporter
	failures *failures
}

func (q quietSpans) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	q.failures.note(q.SpanExporter.ExportSpans(ctx, spans))
	return nil
}

type quietMetrics struct {
	sdkmetric.Exporter
	failures *failures
}

func (q quietMetrics) Export(ctx context.Context, rm *metricdata.ResourceMetrics) error {
	q.failures.note(q.Exporter.Export(ctx, rm))
	return nil
}
