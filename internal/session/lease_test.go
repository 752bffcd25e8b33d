package session

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Who waits in a long queue must not look at all of it whenever something
// happens: with every waiter doing so, a queue of a thousand stood still.
func TestAWaiterWatchesOnlyThoseOfOtherProcessesAhead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		exclusive bool
		own       int64 // index in the queue, -1 before it has a place
		watched   []int // indexes in the queue
	}{
		"those ahead":                     {false, 3, []int{1}},
		"all, before it has a place":      {false, -1, []int{1, 4}},
		"nobody, alone on its table":      {true, 3, nil},
		"nobody, at the head of the line": {false, 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newWorld().connect(1, faults{})
			h.exclusive = c.exclusive
			s := NewStore(h, &Options{Logger: quiet})
			openTest(t, s, "ses_queue", "key_a")
			l, release, err := s.Log(t.Context(), "ses_queue")
			require.NoError(t, err)
			defer release()
			var places []int64
			for _, boot := range []string{s.Boot(), "other", s.Boot(), s.Boot(), "other"} {
				chunk, err := l.Append(t.Context(), func(*State) (Draft, error) {
					return Draft{Entries: []Entry{{Type: MarkQueue, Key: "key_a", Boot: boot}}}, nil
				})
				require.NoError(t, err)
				places = append(places, chunk.N)
			}
			own, want := int64(0), []int64{}
			if c.own >= 0 {
				own = places[c.own]
			}
			for _, i := range c.watched {
				want = append(want, places[i])
			}
			o := newObserver(l)
			require.NoError(t, o.look(t.Context(), own))
			seen := []int64{}
			for pos := range o.seen {
				seen = append(seen, pos)
			}
			require.ElementsMatch(t, want, seen)
		})
	}
}
