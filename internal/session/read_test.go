package session

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every subscriber that does not read holds the events of one page. Thousands of
// them must not hold a copy of a large message each.
func TestALargePayloadIsShownFromWhereItLies(t *testing.T) {
	t.Parallel()
	s := NewStore(newWorld().connect(1, faults{}), &Options{Logger: quiet})
	openTest(t, s, "ses_large", "key_a")
	l, release, err := s.Log(t.Context(), "ses_large")
	require.NoError(t, err)
	defer release()
	for name, c := range map[string]struct {
		size   int
		shared bool
	}{"large": {1 << 20, true}, "small": {100, false}} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat("x", c.size)
			chunk, err := l.Append(t.Context(), report("key_a", text))
			require.NoError(t, err)
			events, err := l.Render(t.Context(), chunk, 0)
			require.NoError(t, err)
			require.Len(t, events, 1)
			require.Contains(t, string(events[0].JSON()), `"`+text+`"`)
			shared := false
			for _, segment := range events[0].Segments {
				shared = shared || &segment[0] == &chunk.Entries[0].Payload[0]
			}
			require.Equal(t, c.shared, shared)
		})
	}
}
