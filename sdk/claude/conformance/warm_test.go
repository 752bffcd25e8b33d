//go:build claude

package conformance

import (
	"testing"
	"time"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/stretchr/testify/require"
)

// Spec: Startup; agreement with the binary
func TestWarmStartAnswers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	w, err := claude.Startup(t.Context(), p.options(t), 0)
	require.NoError(t, err)
	st, err := w.Query(t.Context(), claude.Text("warm"))
	require.NoError(t, err)
	_, result := run(t, st)
	require.Equal(t, "ok: warm", result.Result)
}

// BenchmarkWarmStart compares the time from prompt to result with and without
// a warm start, and reports how many times faster warm is.
//
// Spec: Startup; speed
func BenchmarkWarmStart(b *testing.B) {
	p := newPlace(b)
	var cold, warm time.Duration
	for b.Loop() {
		began := time.Now()
		_, result := run(b, claude.Query(b.Context(), claude.Text("cold"), p.options(b)))
		require.Equal(b, "ok: cold", result.Result)
		cold += time.Since(began)

		w, err := claude.Startup(b.Context(), p.options(b), 0)
		require.NoError(b, err)
		began = time.Now()
		st, err := w.Query(b.Context(), claude.Text("warm"))
		require.NoError(b, err)
		_, result = run(b, st)
		require.Equal(b, "ok: warm", result.Result)
		warm += time.Since(began)
	}
	b.ReportMetric(float64(cold.Milliseconds())/float64(b.N), "cold-ms")
	b.ReportMetric(float64(warm.Milliseconds())/float64(b.N), "warm-ms")
	b.ReportMetric(float64(cold)/float64(warm), "cold/warm")
	require.Less(b, warm, cold, "a warm start must be faster")
}
