package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lambae/lambae/internal/telemetry"
	"github.com/lambae/lambae/internal/telemetry/otlpgrpc"
	"github.com/lambae/lambae/internal/telemetry/otlphttp"
	"github.com/lambae/lambae/internal/telemetry/telemetrytest"
	"github.com/stretchr/testify/require"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start starts telemetry into a collector, over HTTP unless grpc is set.
func start(t *testing.T, grpc bool, cfg telemetry.Config) (*telemetry.Telemetry, *telemetrytest.Collector) {
	t.Helper()
	collector := telemetrytest.New(t)
	cfg.Enabled, cfg.OTLPEndpoint = true, collector.HTTPURL
	if grpc {
		cfg.OTLPEndpoint = collector.GRPCURL
	}
	tel, shutdown, err := telemetry.Start(t.Context(), cfg, telemetry.Options{
		Version:    "1.2.3",
		Exporters:  []telemetry.Exporter{otlphttp.Exporter(), otlpgrpc.Exporter()},
		Attributes: map[string]string{"faas.name": "client"},
		Resolve: func(_ context.Context, s string) (string, error) {
			return strings.ReplaceAll(s, "${TOKEN}", "t0k"), nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, shutdown(context.Background())) })
	return tel, collector
}

// serve runs one request of the given method through tel's handler.
func serve(tel *telemetry.Telemetry, method string, header http.Header, h http.HandlerFunc) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/api/v1/sessions/ses_1/rpc?secret=1", nil)
	for k, v := range header {
		r.Header[k] = v
	}
	w := httptest.NewRecorder()
	tel.Handler(h, func(*http.Request) string { return "/api/v1/sessions/{id}/rpc" }).ServeHTTP(w, r)
	return w
}

func TestOneTraceHoldsARequestWithAllItDoes(t *testing.T) {
	t.Parallel()
	for _, grpc := range []bool{false, true} {
		tel, collector := start(t, grpc, telemetry.Config{SampleRatio: 0, ServiceName: "svc", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}})
		const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		var upstream string
		w := serve(tel, http.MethodPost, http.Header{"Traceparent": {parent}}, func(w http.ResponseWriter, r *http.Request) {
			ctx, turn := tel.Turn(r.Context(), "ses_1")
			attemptCtx, attempt := tel.Attempt(ctx, "bedrock", "claude", 1)
			out := httptest.NewRequest(http.MethodPost, "https://provider/", nil).WithContext(attemptCtx)
			_, err := tel.Transport(transport(func(r *http.Request) { upstream = r.Header.Get("Traceparent") })).RoundTrip(out)
			require.NoError(t, err)
			require.Empty(t, out.Header.Get("Traceparent"), "the request itself stays as it was")
			attempt.Status(529)
			attempt.Tokens(attemptCtx, telemetry.Usage{Input: 10, Output: 5, CacheRead: 3})
			attempt.End(attemptCtx, "529")
			toolCtx, tool := tel.Tool(ctx, "search", "mcp")
			tool.End(toolCtx, "")
			turn.End(ctx, "")
			w.WriteHeader(http.StatusCreated)
		})
		require.Equal(t, http.StatusCreated, w.Code)
		require.NoError(t, tel.Flush(t.Context()))

		spans := collector.Spans()
		request, turn := spans["POST /api/v1/sessions/{id}/rpc"], spans["turn"]
		attempt, tool := spans["chat claude"], spans["execute_tool search"]
		require.Len(t, spans, 4)
		require.Equal(t, "0af7651916cd43dd8448eb211c80319c", hexOf(request.TraceId), "sampled since the caller's trace is, at ratio 0")
		require.Equal(t, "b7ad6b7169203331", hexOf(request.ParentSpanId))
		require.Equal(t, request.SpanId, turn.ParentSpanId)
		require.Equal(t, turn.SpanId, attempt.ParentSpanId)
		require.Equal(t, turn.SpanId, tool.ParentSpanId)
		require.Equal(t, "00-0af7651916cd43dd8448eb211c80319c-"+hexOf(attempt.SpanId)+"-01", upstream)
		require.Equal(t, tracepb.Span_SPAN_KIND_SERVER, request.Kind)
		require.Equal(t, tracepb.Span_SPAN_KIND_CLIENT, attempt.Kind)

		require.Equal(t, map[string]string{"http.request.method": "POST", "http.route": "/api/v1/sessions/{id}/rpc", "http.response.status_code": "201"},
			telemetrytest.Attributes(request.Attributes), "no query, no header")
		require.Equal(t, map[string]string{"lambae.session.id": "ses_1"}, telemetrytest.Attributes(turn.Attributes))
		require.Equal(t, map[string]string{
			"gen_ai.operation.name": "chat", "gen_ai.provider.name": "aws.bedrock", "gen_ai.request.model": "claude", "lambae.attempt": "1",
			"http.response.status_code": "529", "error.type": "529", "gen_ai.usage.input_tokens": "10", "gen_ai.usage.output_tokens": "5",
			"gen_ai.usage.cache_read.input_tokens": "3", "gen_ai.usage.cache_creation.input_tokens": "0",
		}, telemetrytest.Attributes(attempt.Attributes))
		require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, attempt.Status.Code)
		require.Equal(t, map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "search", "lambae.tool.dispatch": "mcp"},
			telemetrytest.Attributes(tool.Attributes))

		resource := telemetrytest.Attributes(collector.Traces()[0].ResourceSpans[0].Resource.Attributes)
		require.Equal(t, "svc", resource["service.name"])
		require.Equal(t, "1.2.3", resource["service.version"])
		require.Equal(t, "client", resource["faas.name"])
		require.Len(t, resource["service.instance.id"], 32)
		for _, h := range collector.Headers() {
			require.Equal(t, "Bearer t0k", h.Get("Authorization"))
		}
	}
}

func TestMetricsCountAndMeasure(t *testing.T) {
	t.Parallel()
	tel, collector := start(t, false, telemetry.Config{SampleRatio: 0})
	for range 3 {
		serve(tel, "BREW", nil, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	}
	ctx, running := tel.Turn(t.Context(), "ses_1")
	_, turn := tel.Turn(ctx, "ses_2")
	turn.End(ctx, "all_providers_failed")
	_, attempt := tel.Attempt(ctx, "anthropic", "m", 0)
	attempt.Tokens(ctx, telemetry.Usage{Input: 100, Output: 7})
	attempt.End(ctx, "")
	_, tool := tel.Tool(ctx, "invented by a model", "sandbox")
	tool.End(ctx, "timeout")
	require.NoError(t, tel.Flush(t.Context()))
	running.End(ctx, "")

	require.Empty(t, collector.Spans(), "nothing is sampled, all is measured")
	metrics := collector.Metrics()
	require.Equal(t, []map[string]string{{"http.request.method": "_OTHER", "http.route": "/api/v1/sessions/{id}/rpc",
		"http.response.status_code": "503", "error.type": "503", "count": "3"}}, histogram(metrics["http.server.request.duration"]))
	require.Equal(t, []map[string]string{{"error.type": "all_providers_failed", "count": "1"}}, histogram(metrics["lambae.turn.duration"]))
	require.Equal(t, []map[string]string{{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "anthropic", "gen_ai.request.model": "m", "count": "1"}},
		histogram(metrics["gen_ai.client.operation.duration"]))
	require.Equal(t, []map[string]string{{"lambae.tool.dispatch": "sandbox", "error.type": "timeout", "count": "1"}}, histogram(metrics["lambae.tool.duration"]))
	require.EqualValues(t, 1, metrics["lambae.turn.active"].GetSum().DataPoints[0].GetAsInt())
	require.EqualValues(t, 0, metrics["http.server.active_requests"].GetSum().DataPoints[0].GetAsInt())

	sums := map[string]float64{}
	for _, p := range metrics["gen_ai.client.token.usage"].GetHistogram().DataPoints {
		sums[telemetrytest.Attributes(p.Attributes)["gen_ai.token.type"]] = p.GetSum()
	}
	require.Equal(t, map[string]float64{"input": 100, "output": 7}, sums)
}

// histogram shows a metric's points as their attributes and count.
func histogram(m *metricspb.Metric) (points []map[string]string) {
	for _, p := range m.GetHistogram().GetDataPoints() {
		attrs := telemetrytest.Attributes(p.Attributes)
		count, _ := json.Marshal(p.Count)
		attrs["count"] = string(count)
		points = append(points, attrs)
	}
	return points
}

func TestTracesAndMetricsGoOutAsConfigured(t *testing.T) {
	t.Parallel()
	send := func(cfg telemetry.Config) *telemetrytest.Collector {
		cfg.SampleRatio = 1
		tel, collector := start(t, false, cfg)
		serve(tel, http.MethodGet, nil, func(w http.ResponseWriter, r *http.Request) {
			ctx, turn := tel.Turn(r.Context(), "ses_1")
			turn.End(ctx, "")
		})
		require.NoError(t, tel.Flush(t.Context()))
		return collector
	}
	all := send(telemetry.Config{})
	require.NotEmpty(t, all.Spans())
	require.Contains(t, all.Metrics(), "lambae.turn.duration")
	noTraces := send(telemetry.Config{TracesOff: true})
	require.Empty(t, noTraces.Spans())
	require.Contains(t, noTraces.Metrics(), "lambae.turn.duration")
	noMetrics := send(telemetry.Config{MetricsOff: true})
	require.NotEmpty(t, noMetrics.Spans())
	require.Empty(t, noMetrics.Metrics())
	some := send(telemetry.Config{DisabledMetrics: []string{"lambae.turn.*"}}).Metrics()
	require.NotContains(t, some, "lambae.turn.duration")
	require.NotContains(t, some, "lambae.turn.active")
	require.Contains(t, some, "http.server.request.duration")
}

func TestAPanicIsSeenAndGoesOn(t *testing.T) {
	t.Parallel()
	tel, collector := start(t, false, telemetry.Config{SampleRatio: 1})
	require.PanicsWithValue(t, "boom", func() {
		serve(tel, http.MethodGet, nil, func(http.ResponseWriter, *http.Request) { panic("boom") })
	})
	require.NoError(t, tel.Flush(t.Context()))
	span := collector.Spans()["GET /api/v1/sessions/{id}/rpc"]
	attrs := telemetrytest.Attributes(span.Attributes)
	require.Equal(t, "panic", attrs["error.type"])
	require.Equal(t, "500", attrs["http.response.status_code"])
}

func TestTheHandlerStillStreams(t *testing.T) {
	t.Parallel()
	tel, _ := start(t, false, telemetry.Config{SampleRatio: 1})
	w := serve(tel, http.MethodGet, nil, func(w http.ResponseWriter, _ *http.Request) {
		_, err := io.WriteString(w, "line\n")
		require.NoError(t, err)
		require.NoError(t, http.NewResponseController(w).Flush())
	})
	require.True(t, w.Flushed)
}

func TestOffCostsNothing(t *testing.T) {
	tel, shutdown, err := telemetry.Start(t.Context(), telemetry.Config{OTLPEndpoint: "nonsense"}, telemetry.Options{})
	require.NoError(t, err)
	require.Nil(t, tel)
	require.NoError(t, shutdown(t.Context()))
	require.NoError(t, tel.Flush(t.Context()))

	ctx, header := t.Context(), http.Header{}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		ctx, turn := tel.Turn(ctx, "ses_1")
		ctx, attempt := tel.Attempt(ctx, "anthropic", "m", 0)
		tel.Inject(ctx, header)
		attempt.Status(200)
		attempt.Tokens(ctx, telemetry.Usage{Input: 1})
		attempt.End(ctx, "")
		ctx, tool := tel.Tool(ctx, "t", "mcp")
		tool.End(ctx, "")
		turn.End(ctx, "x")
	}))
	require.Empty(t, header)
	require.Equal(t, http.DefaultTransport, tel.Transport(http.DefaultTransport), "not even a layer")
	h := http.NewServeMux()
	require.Same(t, h, tel.Handler(h, nil))
}

func TestABadConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	httpOnly := []telemetry.Exporter{otlphttp.Exporter()}
	for _, tt := range []struct {
		name, endpoint string
		ratio          float64
		exporters      []telemetry.Exporter
		err            string
	}{
		{"no URL", "collector:4317", 1, httpOnly, "telemetry: otlp_endpoint is not an http or https URL; write it like http://127.0.0.1:4317"},
		{"a ratio above 1", "http://c:4318", 1.1, httpOnly, "telemetry: sample_ratio is 1.1; set it between 0 and 1"},
		{"a ratio that is no number", "http://c:4318", math.NaN(), httpOnly, "telemetry: sample_ratio is NaN; set it between 0 and 1"},
		{"gRPC without gRPC", "http://c:4317", 1, httpOnly,
			"telemetry: otlp_endpoint speaks grpc, which this program does not include; use another endpoint of the collector, its HTTP one, usually port 4318"},
		{"HTTP without HTTP", "https://c/otlp", 1, []telemetry.Exporter{otlpgrpc.Exporter()},
			"telemetry: otlp_endpoint speaks http/protobuf, which this program does not include; use another endpoint of the collector, its gRPC one, usually port 4317"},
		{"an exporter that does not open", "http://c:4318", 1, []telemetry.Exporter{{Protocol: telemetry.HTTP, Open: failing}}, "telemetry: open the http/protobuf exporter: no"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tel, shutdown, err := telemetry.Start(t.Context(), telemetry.Config{Enabled: true, OTLPEndpoint: tt.endpoint, SampleRatio: tt.ratio}, telemetry.Options{Exporters: tt.exporters})
			require.EqualError(t, err, tt.err)
			require.Nil(t, tel)
			require.NoError(t, shutdown(t.Context()))
		})
	}
}

func TestThePortTellsTheProtocol(t *testing.T) {
	t.Parallel()
	for endpoint, want := range map[string]telemetry.Protocol{
		"http://127.0.0.1:4317": telemetry.GRPC, "https://collector": telemetry.GRPC, "http://collector:9999/": telemetry.GRPC,
		"http://127.0.0.1:4318": telemetry.HTTP, "http://127.0.0.1:4318/": telemetry.HTTP, "https://vendor/otlp": telemetry.HTTP, "https://vendor:4317/otlp": telemetry.HTTP,
	} {
		var opened telemetry.Protocol
		spy := func(p telemetry.Protocol) telemetry.Exporter {
			return telemetry.Exporter{Protocol: p, Open: func(ctx context.Context, target telemetry.Target) (a spanExporter, b metricExporter, err error) {
				opened = p
				return failing(ctx, target)
			}}
		}
		_, _, err := telemetry.Start(t.Context(), telemetry.Config{Enabled: true, OTLPEndpoint: endpoint}, telemetry.Options{Exporters: []telemetry.Exporter{spy(telemetry.HTTP), spy(telemetry.GRPC)}})
		require.Error(t, err)
		require.Equal(t, want, opened, endpoint)
	}
}

func TestAnUnreachableCollectorIsLoggedOnce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	collector := telemetrytest.New(t)
	collector.Answer(func(w http.ResponseWriter) bool { w.WriteHeader(http.StatusForbidden); return true })
	tel, shutdown, err := telemetry.Start(t.Context(), telemetry.Config{Enabled: true, OTLPEndpoint: collector.HTTPURL, SampleRatio: 1}, telemetry.Options{
		Exporters: []telemetry.Exporter{otlphttp.Exporter()}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	for range 3 {
		ctx, turn := tel.Turn(t.Context(), "ses_1")
		turn.End(ctx, "")
		require.NoError(t, tel.Flush(t.Context()))
	}
	require.NoError(t, shutdown(t.Context()))
	require.Equal(t, 1, strings.Count(log.String(), "\n"))
	require.Contains(t, log.String(), `msg="telemetry export failed" error="collector answered 403 Forbidden"`)
}

func TestLogsNameTheSpan(t *testing.T) {
	t.Parallel()
	tel, _ := start(t, false, telemetry.Config{SampleRatio: 1})
	var out bytes.Buffer
	log := slog.New(telemetry.NewLogHandler(slog.NewJSONHandler(&out, nil))).With("a", 1)
	log.InfoContext(t.Context(), "outside")
	ctx, turn := tel.Turn(t.Context(), "ses_1")
	log.InfoContext(ctx, "inside")
	turn.End(ctx, "")

	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.NotContains(t, lines[0], "trace_id")
	var got struct {
		A       int    `json:"a"`
		TraceID string `json:"trace_id"`
		SpanID  string `json:"span_id"`
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &got))
	require.Equal(t, 1, got.A)
	require.Len(t, got.TraceID, 32)
	require.Len(t, got.SpanID, 16)
}

func failing(context.Context, telemetry.Target) (a spanExporter, b metricExporter, err error) {
	return nil, nil, errors.New("no")
}
