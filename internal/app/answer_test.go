package app_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
)

// What a log cannot hold must not get into it: an event id has room for 4096
// events of a chunk, and JSON too deep to decode would make the session unreadable.
func TestAnswersTheLogCannotHoldAreFailedAttempts(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	many := make([]json.RawMessage, 1001)
	for i := range many {
		many[i] = modeltest.ToolUse(fmt.Sprintf("t%d", i), "a", `{}`)
	}
	deep := strings.Repeat("[", 600) + strings.Repeat("]", 600)
	for name, c := range map[string]struct {
		blocks []json.RawMessage
		detail string
	}{
		"too many calls": {many, "calls 1001 tools; 1000 is the most"},
		"too deep input": {[]json.RawMessage{modeltest.ToolUse("t", "a", `{"a":`+deep+`}`)}, "nested more than 512 deep"},
		"too deep block": {[]json.RawMessage{json.RawMessage(`{"type":"odd","a":` + deep + `}`)}, "nested more than 512 deep"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := s.in(t).open(s.profile(nil), twoTools)
			events := eventsIn(t, d.send(modeltest.Script(modeltest.Step{Blocks: c.blocks}))["events"])
			require.Equal(t, []string{"client.message.send", "provider.request", "provider.response", "session.error", "session.error"}, types(events))
			require.Contains(t, events[2].Payload["error"], c.detail)
		})
	}
}
