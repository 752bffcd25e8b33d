package api

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

// An answer of megabytes that nobody reads must not be in memory once more for
// each line that shows it.
func TestAResultIsWrittenFromWhereItLies(t *testing.T) {
	t.Parallel()
	message := session.NewMessage("assistant", json.RawMessage(`"long"`))
	payload := []byte(`{"id":"evt_1"}`)
	l := &lines{wake: make(chan struct{}, 1)}
	l.turnResult(json.RawMessage(`1`), &turn.Result{Message: message, Events: []session.Rendered{{Segments: [][]byte{payload}}, {Segments: [][]byte{payload}}}})
	require.Equal(t, `{"jsonrpc":"2.0","id":1,"result":{"message":{"role":"assistant","content":"long"},"events":[{"id":"evt_1"},{"id":"evt_1"}]}}`+"\n",
		string(bytes.Join(l.queue, nil)))
	shared := 0
	for _, segment := range l.queue {
		if &segment[0] == &message[0] || &segment[0] == &payload[0] {
			shared++
		}
	}
	require.Equal(t, 3, shared)
}
