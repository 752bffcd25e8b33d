package otlphttp

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lambae/lambae/internal/telemetry"
	"github.com/lambae/lambae/internal/telemetry/otlpgrpc"
	"github.com/lambae/lambae/internal/telemetry/telemetrytest"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// both opens our exporters and OpenTelemetry's for one collector each.
func both(t *testing.T) (ours, theirs exporters) {
	t.Helper()
	ours.Collector, theirs.Collector = telemetrytest.New(t), telemetrytest.New(t)
	ours.open(t, Exporter(), ours.HTTPURL)
	theirs.open(t, otlpgrpc.Exporter(), theirs.GRPCURL)
	return ours, theirs
}

type exporters struct {
	*telemetrytest.Collector
	spans   sdktrace.SpanExporter
	metrics metric.Exporter
}

func (e *exporters) open(t *testing.T, x telemetry.Exporter, endpoint string) {
	t.Helper()
	u, err := url.Parse(endpoint)
	require.NoError(t, err)
	none := func(context.Context) (map[string]string, error) { return nil, nil }
	e.spans, e.metrics, err = x.Open(t.Context(), telemetry.Target{URL: u, Headers: none})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, e.spans.Shutdown(context.Background()))
		require.NoError(t, e.metrics.Shutdown(context.Background()))
	})
}

func attributes() []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("s", "ü"), attribute.String("empty", ""), attribute.Bool("b", true), attribute.Bool("no", false),
		attribute.Int64("i", -5), attribute.Int64("zero", 0), attribute.Float64("f", 1.5), attribute.Float64("f0", 0),
		attribute.StringSlice("ss", []string{"a", ""}), attribute.BoolSlice("bs", []bool{true, false}),
		attribute.Int64Slice("is", []int64{1, -1, 0}), attribute.Float64Slice("fs", []float64{0, 2.5}), attribute.StringSlice("none", []string{}),
	}
}

func spanContext(t *testing.T, id byte, remote bool) trace.SpanContext {
	t.Helper()
	state, err := trace.ParseTraceState("vendor=1,other=2")
	require.NoError(t, err)
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 15: id}, SpanID: trace.SpanID{3, 7: id}, TraceFlags: trace.FlagsSampled, TraceState: state, Remote: remote,
	})
}

func TestSpansAreThoseOfOpenTelemetrysExporter(t *testing.T) {
	t.Parallel()
	start := time.Unix(1700000000, 123456789)
	res := resource.NewWithAttributes("https://schema/res", attributes()...)
	a := instrumentation.Scope{Name: "a", Version: "1", SchemaURL: "https://schema/a"}
	stubs := tracetest.SpanStubs{
		{
			Name: "whole", SpanContext: spanContext(t, 1, false), Parent: spanContext(t, 2, true), SpanKind: trace.SpanKindServer,
			StartTime: start, EndTime: start.Add(time.Second), Attributes: attributes(), DroppedAttributes: 1, DroppedEvents: 2, DroppedLinks: 3,
			Events: []sdktrace.Event{{Name: "e", Time: start, Attributes: attributes(), DroppedAttributeCount: 4}, {Name: "bare", Time: start}},
			Links:  []sdktrace.Link{{SpanContext: spanContext(t, 3, true), Attributes: attributes(), DroppedAttributeCount: 5}, {SpanContext: spanContext(t, 4, false)}},
			Status: sdktrace.Status{Code: codes.Error, Description: "no"}, Resource: res, InstrumentationScope: a,
		},
		{Name: "other scope", SpanContext: spanContext(t, 5, false), StartTime: start, EndTime: start, Status: sdktrace.Status{Code: codes.Ok}, Resource: res,
			InstrumentationScope: instrumentation.Scope{Name: "b", Attributes: attribute.NewSet(attribute.String("k", "v"))}},
		{Name: "bare", SpanContext: spanContext(t, 6, false), StartTime: start, EndTime: start, SpanKind: trace.SpanKindClient, Resource: res, InstrumentationScope: a},
	}
	ours, theirs := both(t)
	require.NoError(t, ours.spans.ExportSpans(t.Context(), stubs.Snapshots()))
	require.NoError(t, theirs.spans.ExportSpans(t.Context(), stubs.Snapshots()))
	require.Len(t, ours.Traces(), 1)
	got, want := ours.Traces()[0], theirs.Traces()[0]
	// Scopes have no order in theirs.
	if scopes := want.ResourceSpans[0].ScopeSpans; scopes[0].Scope.Name != "a" {
		scopes[0], scopes[1] = scopes[1], scopes[0]
	}
	for _, link := range got.ResourceSpans[0].ScopeSpans[0].Spans[0].Links {
		require.Equal(t, "vendor=1,other=2", link.TraceState)
		link.TraceState = "" // which theirs leaves out
	}
	requireEqual(t, want, got)
}

func TestMetricsAreThoseOfOpenTelemetrysExporter(t *testing.T) {
	t.Parallel()
	start, now := time.Unix(1700000000, 1), time.Unix(1700000060, 2)
	set := attribute.NewSet(attributes()...)
	exemplar := metricdata.Exemplar[float64]{FilteredAttributes: attributes(), Time: now, Value: 0.5, SpanID: []byte{1, 7: 2}, TraceID: []byte{3, 15: 4}}
	number := metricdata.Exemplar[int64]{Time: now, Value: 0}
	data := &metricdata.ResourceMetrics{
		Resource: resource.NewWithAttributes("https://schema/res", attribute.String("r", "v")),
		ScopeMetrics: []metricdata.ScopeMetrics{{
			Scope: instrumentation.Scope{Name: "a", Version: "1", SchemaURL: "https://schema/a"},
			Metrics: []metricdata.Metrics{
				{Name: "counter", Description: "d", Unit: "{x}", Data: metricdata.Sum[int64]{Temporality: metricdata.CumulativeTemporality, IsMonotonic: true,
					DataPoints: []metricdata.DataPoint[int64]{{Attributes: set, StartTime: start, Time: now, Value: 7, Exemplars: []metricdata.Exemplar[int64]{number}}, {Time: now, Value: 0}}}},
				{Name: "delta", Data: metricdata.Sum[float64]{Temporality: metricdata.DeltaTemporality,
					DataPoints: []metricdata.DataPoint[float64]{{StartTime: start, Time: now, Value: -1.5, Exemplars: []metricdata.Exemplar[float64]{exemplar}}, {Time: now}}}},
				{Name: "gauge", Data: metricdata.Gauge[int64]{DataPoints: []metricdata.DataPoint[int64]{{Time: now, Value: math.MinInt64}}}},
				{Name: "level", Data: metricdata.Gauge[float64]{DataPoints: []metricdata.DataPoint[float64]{{Time: now, Value: math.Inf(1)}}}},
				{Name: "durations", Unit: "s", Data: metricdata.Histogram[float64]{Temporality: metricdata.CumulativeTemporality,
					DataPoints: []metricdata.HistogramDataPoint[float64]{{Attributes: set, StartTime: start, Time: now, Count: 3, Sum: 4.5, Bounds: []float64{0, 1, 2},
						BucketCounts: []uint64{0, 1, 2, 0}, Min: metricdata.NewExtrema(0.0), Max: metricdata.NewExtrema(2.5), Exemplars: []metricdata.Exemplar[float64]{exemplar}}}}},
				{Name: "tokens", Data: metricdata.Histogram[int64]{Temporality: metricdata.DeltaTemporality,
					DataPoints: []metricdata.HistogramDataPoint[int64]{{StartTime: start, Time: now, Sum: 0, Bounds: []float64{}, BucketCounts: []uint64{0}}}}},
			},
		}},
	}
	ours, theirs := both(t)
	require.NoError(t, ours.metrics.Export(t.Context(), data))
	require.NoError(t, theirs.metrics.Export(t.Context(), data))
	require.Len(t, ours.MetricRequests(), 1)
	requireEqual(t, theirs.MetricRequests()[0], ours.MetricRequests()[0])
}

func requireEqual(t *testing.T, want, got proto.Message) {
	t.Helper()
	if !proto.Equal(want, got) {
		require.Equal(t, protojson.Format(want), protojson.Format(got))
	}
}

func TestNothingToExportSendsNothing(t *testing.T) {
	t.Parallel()
	ours, _ := both(t)
	require.NoError(t, ours.spans.ExportSpans(t.Context(), nil))
	require.NoError(t, ours.metrics.Export(t.Context(), &metricdata.ResourceMetrics{}))
	require.Empty(t, ours.Headers())
}

func TestAnAggregationItCannotEncodeIsAnError(t *testing.T) {
	t.Parallel()
	ours, _ := both(t)
	err := ours.metrics.Export(t.Context(), &metricdata.ResourceMetrics{ScopeMetrics: []metricdata.ScopeMetrics{{
		Metrics: []metricdata.Metrics{{Name: "x", Data: metricdata.Summary{}}}}}})
	require.EqualError(t, err, "metric x: cannot encode metricdata.Summary")
}

func TestTheCollectorsAnswerDecides(t *testing.T) {
	t.Parallel()
	partial, err := proto.Marshal(&collectorpb.ExportTraceServiceResponse{
		PartialSuccess: &collectorpb.ExportTracePartialSuccess{RejectedSpans: 2, ErrorMessage: "too old"}})
	require.NoError(t, err)
	for _, tt := range []struct {
		name    string
		answers []func(http.ResponseWriter)
		tries   int32
		err     string
	}{
		{"later is tried again", []func(http.ResponseWriter){status(503), status(429), status(502), status(504)}, 5, ""},
		{"later for ever is given up", []func(http.ResponseWriter){status(503), status(503), status(503), status(503), status(503), status(503)}, 5,
			"collector answered 503 Service Unavailable"},
		{"never is not", []func(http.ResponseWriter){status(401)}, 1, "collector answered 401 Unauthorized"},
		{"some refused", []func(http.ResponseWriter){func(w http.ResponseWriter) { w.Write(partial) }}, 1, "collector rejected 2 items: too old"},
		{"an answer that is no protobuf is a success", []func(http.ResponseWriter){func(w http.ResponseWriter) { io.WriteString(w, "\xff\xffok") }}, 1, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			collector := telemetrytest.New(t)
			var tries atomic.Int32
			collector.Answer(func(w http.ResponseWriter) bool {
				n := int(tries.Add(1))
				if n > len(tt.answers) {
					return false
				}
				tt.answers[n-1](w)
				return true
			})
			c := testClient(t)
			err := c.post(t.Context(), collector.HTTPURL+"/v1/traces", nil)
			if tt.err == "" {
				require.NoError(t, err)
			} else {
				require.EqualError(t, err, tt.err)
			}
			require.Equal(t, tt.tries, tries.Load())
		})
	}
}

func TestTheWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	collector := telemetrytest.New(t)
	collector.Answer(func(w http.ResponseWriter) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(503)
		return true
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	require.EqualError(t, testClient(t).post(ctx, collector.HTTPURL+"/v1/traces", nil), "collector answered 503 Service Unavailable")
}

func TestErrorsShowNoAddressAndNoHeader(t *testing.T) {
	t.Parallel()
	c := testClient(t)
	err := c.post(t.Context(), "http://127.0.0.1:1/secret/v1/traces", nil)
	require.EqualError(t, err, "dial tcp 127.0.0.1:1: connect: connection refused")
	c.headers = func(context.Context) (map[string]string, error) { return nil, errors.New("variable X is not set") }
	require.EqualError(t, c.post(t.Context(), "http://127.0.0.1:1/", nil), "variable X is not set")
}

func testClient(t *testing.T) *client {
	c := &client{
		http:    &http.Client{Transport: &http.Transport{}},
		headers: func(context.Context) (map[string]string, error) { return nil, nil },
		pause:   time.Millisecond,
	}
	t.Cleanup(c.http.CloseIdleConnections)
	return c
}

func status(code int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) { w.WriteHeader(code) }
}
