package app_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOldEventsGoWhenTheirProfileSaysSo(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	short := s.open(s.profile(map[string]any{"event_ttl_days": 2}), `{}`)
	ended := s.open(s.profile(map[string]any{"event_ttl_days": 2}), `{}`)
	long := s.open(s.profile(map[string]any{"event_ttl_days": 30}), `{}`)
	kept := s.open(s.profile(nil), `{}`)
	all := map[*driver][]event{}
	for _, d := range []*driver{short, ended, long, kept} {
		d.send("remember me")
		if d == ended {
			require.Equal(t, 200, d.call("DELETE", d.url+"/api/v1/sessions/"+d.id, d.key, "").Status)
		}
		all[d] = d.log()
	}
	const day = 24 * time.Hour
	s.app.Retain(t.Context(), time.Now().Add(day))
	for d, events := range all {
		require.Equal(t, events, d.log(), "nothing is old enough")
	}
	for range 2 { // the second finds nothing to do
		s.app.Retain(t.Context(), time.Now().Add(3*day))
		require.Equal(t, all[short][:1], short.log(), "only the session's beginning is left")
		require.Equal(t, all[ended][:1], ended.log())
		require.Equal(t, all[long], long.log())
		require.Equal(t, all[kept], kept.log())
	}
	request := eventsIn(t, short.send("and now?")["events"])[1]
	require.Len(t, request.Payload["messages"], 3, "the model still sees the whole conversation")
	s.app.Retain(t.Context(), time.Now().Add(31*day))
	require.Equal(t, all[long][:1], long.log())
	require.Equal(t, all[kept], kept.log(), "a profile without the setting keeps events")
}
