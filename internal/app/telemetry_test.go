package app_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
	"github.com/lambae/lambae/internal/telemetry"
	"github.com/lambae/lambae/internal/telemetry/otlphttp"
	"github.com/lambae/lambae/internal/telemetry/telemetrytest"
)

func TestATurnIsOneTraceFromRequestToAttempt(t *testing.T) {
	t.Parallel()
	collector := telemetrytest.New(t)
	tel, stop, err := telemetry.Start(t.Context(), telemetry.Config{Enabled: true, OTLPEndpoint: collector.HTTPURL, SampleRatio: 1, ServiceName: "lambae"},
		telemetry.Options{Exporters: []telemetry.Exporter{otlphttp.Exporter()}})
	require.NoError(t, err)
	s := start(t, setup{trace: tel})
	d := s.open(s.profile(map[string]any{"primary_provider": "broken", "fallback_providers": []string{"spare"}}), `{}`)
	d.send(modeltest.Script(modeltest.Step{Blocks: []json.RawMessage{modeltest.ToolUse("x", "nothing_here", `{"secret":"do not send"}`)}}, modeltest.Step{Text: "fin"}))
	require.NoError(t, stop(t.Context()))
	spans := collector.Spans()
	var names []string
	byID := map[string]string{}
	for name, span := range spans {
		names = append(names, name)
		byID[string(span.SpanId)] = name
		require.NotContains(t, span.String(), "do not send")
	}
	turn := spans["turn"]
	require.NotNil(t, turn, "spans: %v", names)
	request := spans["POST /api/v1/sessions/{id}/rpc"]
	require.NotNil(t, request, "spans: %v", names)
	require.Equal(t, request.SpanId, turn.ParentSpanId)
	require.Equal(t, turn.SpanId, spans["chat scripted"].ParentSpanId, "spans: %v", names)
	require.NotEmpty(t, collector.Metrics())
}
