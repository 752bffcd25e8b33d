package otlphttp

import (
	"context"
	"net/http"
	"time"

	"github.com/lambae/lambae/internal/telemetry"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
)

// Exporter is OTLP over HTTP for [telemetry.Start].
func Exporter() telemetry.Exporter {
	return telemetry.Exporter{Protocol: telemetry.HTTP, Open: open}
}

func open(_ context.Context, t telemetry.Target) (trace.SpanExporter, metric.Exporter, error) {
	c := &client{
		http:    &http.Client{Transport: http.DefaultTransport.(*http.Transport).Clone()},
		headers: t.Headers,
		pause:   time.Second,
	}
	return &spans{c, t.URL.JoinPath("v1/traces").String()}, &metrics{c, t.URL.JoinPath("v1/metrics").String()}, nil
}

type spans struct {
	client *client
	url    string
}

// ExportSpans implements [trace.SpanExporter].
func (s *spans) ExportSpans(ctx context.Context, batch []trace.ReadOnlySpan) error {
	if len(batch) == 0 {
		return nil
	}
	return s.client.post(ctx, s.url, encodeSpans(batch))
}

// Shutdown implements [trace.SpanExporter].
func (s *spans) Shutdown(context.Context) error {
	s.client.http.CloseIdleConnections()
	return nil
}

type metrics struct {
	client *client
	url    string
}

// Export implements [metric.Exporter].
func (m *metrics) Export(ctx context.Context, data *metricdata.ResourceMetrics) error {
	if len(data.ScopeMetrics) == 0 {
		return nil
	}
	body, err := encodeMetrics(data)
	if err != nil {
		return err
	}
	return m.client.post(ctx, m.url, body)
}

// Temporality implements [metric.Exporter].
func (*metrics) Temporality(k metric.InstrumentKind) metricdata.Temporality {
	return metric.DefaultTemporalitySelector(k)
}

// Aggregation implements [metric.Exporter].
func (*metrics) Aggregation(k metric.InstrumentKind) metric.Aggregation {
	return metric.DefaultAggregationSelector(k)
}

// ForceFlush implements [metric.Exporter]; nothing is held back.
func (*metrics) ForceFlush(context.Context) error { return nil }

// Shutdown implements [metric.Exporter].
func (m *metrics) Shutdown(context.Context) error {
	m.client.http.CloseIdleConnections()
	return nil
}
