package main_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/telemetry/telemetrytest"
)

// An instance may be frozen for good as soon as an invocation has ended, so what
// was recorded must be with the collector by then.
func TestTelemetryIsSentBeforeTheInvocationEnds(t *testing.T) {
	t.Parallel()
	collector := telemetrytest.New(t)
	d := deploy(t, echoConfig+`
[telemetry]
enabled = true
otlp_endpoint = "`+collector.HTTPURL+`"
`)
	require.NoError(t, d.invoke("meta.json").Wait())
	require.Contains(t, collector.Spans(), "GET /api/v1/meta")
	require.Contains(t, collector.Metrics(), "http.server.request.duration")
}
