package sandbox_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lambae/lambae/internal/sandbox"
)

func TestOutputIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		written   string
		want      string
		truncated bool
	}{
		"short":                        {"héllo", "héllo", false},
		"exactly the limit":            {strings.Repeat("x", sandbox.MaxOutput), strings.Repeat("x", sandbox.MaxOutput), false},
		"one more":                     {strings.Repeat("x", sandbox.MaxOutput+1), strings.Repeat("x", sandbox.MaxOutput), true},
		"a character across the limit": {strings.Repeat("x", sandbox.MaxOutput-1) + "é", strings.Repeat("x", sandbox.MaxOutput-1), true},
		"four bytes across the limit":  {strings.Repeat("x", sandbox.MaxOutput-3) + "😀", strings.Repeat("x", sandbox.MaxOutput-3), true},
		"half a character at the end":  {"a\xf0\x9f", "a\uFFFD", false},
		"no UTF-8":                     {"a\xffb", "a\uFFFDb", false},
		"replacements over the limit":  {strings.Repeat("a\xff", sandbox.MaxOutput/2), strings.Repeat("a\uFFFD", sandbox.MaxOutput/4), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var b sandbox.Buffer
			n, err := b.Write([]byte(c.written))
			require.NoError(t, err)
			require.Equal(t, len(c.written), n)
			text, truncated := b.Text()
			require.True(t, c.want == text, "%d bytes kept, %d wanted", len(text), len(c.want))
			require.Equal(t, c.truncated, truncated)
		})
	}
}

// However the writes are cut, what is passed on is whole characters and all of it.
func TestStreamedOutputIsWholeCharacters(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		var got strings.Builder
		w := sandbox.OutputWriter(func(stream, piece string) {
			require.Equal(t, "stdout", stream)
			require.True(t, utf8.ValidString(piece))
			got.WriteString(piece)
		}, "stdout")
		for rest := []byte(text); len(rest) > 0; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "write")
			_, err := w.Write(rest[:n])
			require.NoError(t, err)
			rest = rest[n:]
		}
		require.Equal(t, text, got.String())
	})
}
