//go:build claude

package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/stretchr/testify/require"
)

// BenchmarkMirrorOfARealSession runs a session of 30 tool calls with and without a
// store, in turns, and reports the quotient of the two medians. The goal is 1.02.
//
// Spec: mirror; speed
func BenchmarkMirrorOfARealSession(b *testing.B) {
	p := newPlace(b)
	file := filepath.Join(p.project, "notes.txt")
	require.NoError(b, os.WriteFile(file, []byte(strings.Repeat("a line of notes\n", 100)), 0o600))
	in, err := json.Marshal(map[string]string{"file_path": file})
	require.NoError(b, err)
	prompt := script(append(slices.Repeat([]step{{Tool: "Read", In: in}}, 30), step{Text: "done"})...)
	session := func(store claude.SessionStore) time.Duration {
		o := p.options(b)
		o.SessionStore = store
		began := time.Now()
		_, result := run(b, claude.Query(b.Context(), claude.Text(prompt), o))
		require.Equal(b, "done", result.Result)
		return time.Since(began)
	}
	var plain, mirrored []time.Duration
	for b.Loop() {
		plain = append(plain, session(nil))
		mirrored = append(mirrored, session(claude.NewFileStore(b.TempDir())))
	}
	b.ReportMetric(float64(median(plain).Milliseconds()), "plain-ms")
	b.ReportMetric(float64(median(mirrored))/float64(median(plain)), "mirrored/plain")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
