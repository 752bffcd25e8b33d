// Package telemetrytest is an OTLP collector for tests. It listens on both
// protocols and keeps what it gets.
package telemetrytest

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	metricscollector "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	tracecollector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	_ "google.golang.org/grpc/encoding/gzip" // clients compress
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Collector keeps what it was sent.
type Collector struct {
	HTTPURL string // of OTLP over HTTP, with a path
	GRPCURL string // of OTLP over gRPC

	mu      sync.Mutex
	traces  []*tracecollector.ExportTraceServiceRequest
	metrics []*metricscollector.ExportMetricsServiceRequest
	headers []http.Header
	answer  func(w http.ResponseWriter) bool
}

// New starts a collector that ends with the test.
func New(t *testing.T) *Collector {
	t.Helper()
	c := &Collector{}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /otlp/v1/traces", func(w http.ResponseWriter, r *http.Request) {
		receive(c, w, r, &tracecollector.ExportTraceServiceRequest{}, c.addTraces)
	})
	mux.HandleFunc("POST /otlp/v1/metrics", func(w http.ResponseWriter, r *http.Request) {
		receive(c, w, r, &metricscollector.ExportMetricsServiceRequest{}, c.addMetrics)
	})
	httpServer := httptest.NewServer(mux)
	t.Cleanup(httpServer.Close)
	c.HTTPURL = httpServer.URL + "/otlp"

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	grpcServer := grpc.NewServer()
	tracecollector.RegisterTraceServiceServer(grpcServer, traceService{collector: c})
	metricscollector.RegisterMetricsServiceServer(grpcServer, metricsService{collector: c})
	go grpcServer.Serve(listener)
	t.Cleanup(grpcServer.Stop)
	c.GRPCURL = fmt.Sprintf("http://%s", listener.Addr())
	return c
}

// Answer replaces what HTTP requests are answered with. When f reports true the
// request was dealt with and is not kept.
func (c *Collector) Answer(f func(w http.ResponseWriter) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = f
}

// Traces returns the requests so far.
func (c *Collector) Traces() []*tracecollector.ExportTraceServiceRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*tracecollector.ExportTraceServiceRequest(nil), c.traces...)
}

// MetricRequests returns the requests so far.
func (c *Collector) MetricRequests() []*metricscollector.ExportMetricsServiceRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*metricscollector.ExportMetricsServiceRequest(nil), c.metrics...)
}

// Headers returns those of all requests so far.
func (c *Collector) Headers() []http.Header {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]http.Header(nil), c.headers...)
}

// Spans returns all spans by name.
func (c *Collector) Spans() map[string]*tracepb.Span {
	spans := map[string]*tracepb.Span{}
	for _, request := range c.Traces() {
		for _, rs := range request.ResourceSpans {
			for _, ss := range rs.ScopeSpans {
				for _, s := range ss.Spans {
					spans[s.Name] = s
				}
			}
		}
	}
	return spans
}

// Metrics returns the last state of all metrics by name.
func (c *Collector) Metrics() map[string]*metricspb.Metric {
	metrics := map[string]*metricspb.Metric{}
	for _, request := range c.MetricRequests() {
		for _, rm := range request.ResourceMetrics {
			for _, sm := range rm.ScopeMetrics {
				for _, m := range sm.Metrics {
					metrics[m.Name] = m
				}
			}
		}
	}
	return metrics
}

// Attributes are attributes by name, strings and integers as text.
func Attributes(attrs []*commonpb.KeyValue) map[string]string {
	out := map[string]string{}
	for _, kv := range attrs {
		switch v := kv.Value.Value.(type) {
		case *commonpb.AnyValue_StringValue:
			out[kv.Key] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			out[kv.Key] = fmt.Sprint(v.IntValue)
		default:
			out[kv.Key] = kv.Value.String()
		}
	}
	return out
}

func receive[M proto.Message](c *Collector, w http.ResponseWriter, r *http.Request, m M, keep func(M, http.Header)) {
	c.mu.Lock()
	answer := c.answer
	c.mu.Unlock()
	if answer != nil && answer(w) {
		return
	}
	zr, err := gzip.NewReader(r.Body)
	if err != nil || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "want gzipped protobuf", http.StatusUnsupportedMediaType)
		return
	}
	body, err := io.ReadAll(zr)
	if err == nil {
		err = proto.Unmarshal(body, m)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	keep(m, r.Header)
}

func (c *Collector) addTraces(m *tracecollector.ExportTraceServiceRequest, h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.traces, c.headers = append(c.traces, m), append(c.headers, h)
}

func (c *Collector) addMetrics(m *metricscollector.ExportMetricsServiceRequest, h http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.metrics, c.headers = append(c.metrics, m), append(c.headers, h)
}

type traceService struct {
	tracecollector.UnimplementedTraceServiceServer
	collector *Collector
}

func (s traceService) Export(ctx context.Context, m *tracecollector.ExportTraceServiceRequest) (*tracecollector.ExportTraceServiceResponse, error) {
	s.collector.addTraces(m, header(ctx))
	return &tracecollector.ExportTraceServiceResponse{}, nil
}

type metricsService struct {
	metricscollector.UnimplementedMetricsServiceServer
	collector *Collector
}

func (s metricsService) Export(ctx context.Context, m *metricscollector.ExportMetricsServiceRequest) (*metricscollector.ExportMetricsServiceResponse, error) {
	s.collector.addMetrics(m, header(ctx))
	return &metricscollector.ExportMetricsServiceResponse{}, nil
}

func header(ctx context.Context) http.Header {
	h := http.Header{}
	md, _ := metadata.FromIncomingContext(ctx)
	for name, values := range md {
		for _, v := range values {
			h.Add(name, v)
		}
	}
	return h
}
