package mcp

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStderrIsLoggedWithinLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in, last string
		logged         []string
		lines          int
	}{
		{"each line", "one\n\n  two  \nthree", "three", []string{"line=one", "line=two", "line=three"}, 3},
		{"a long line is cut", strings.Repeat("x", 10<<10) + "\nnext\n", "next", []string{"line=" + strings.Repeat("x", 4<<10) + "\n", "line=next"}, 2},
		{"much is dropped but read", strings.Repeat(strings.Repeat("y", 1023)+"\n", 1000) + "end\n", "end", []string{"the rest is dropped"}, 257},
		{"bytes that are no text", "\xff\xfe\n", "\uFFFD", []string{"line=\"\uFFFD\""}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			last := logStderr(strings.NewReader(tt.in), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			require.Equal(t, tt.last, last)
			for _, want := range tt.logged {
				require.Contains(t, log.String(), want)
			}
			require.Equal(t, tt.lines, strings.Count(log.String(), "\n"))
		})
	}
}
