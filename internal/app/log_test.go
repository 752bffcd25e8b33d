package app_test

import (
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
)

// logText is a log that may be read while it is written.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// logged returns the server at another address, where its log can be read.
func (s *server) logged() (*server, *logText) {
	log := &logText{}
	s.app.Client.Logger = slog.New(slog.NewJSONHandler(log, nil))
	front := httptest.NewServer(s.app.ClientHandler())
	s.t.Cleanup(func() {
		s.app.Drain()
		s.app.Halt()
		front.CloseClientConnections()
		front.Close()
	})
	other := *s
	other.url = front.URL
	return &other, log
}

func TestTheLogLineOfACallTellsItsOutcome(t *testing.T) {
	t.Parallel()
	s, log := start(t, setup{}).logged()
	d := s.open(s.profile(nil), `{}`)
	d.fault("session.nope", `{}`)
	eventually(t, "it is logged", func() bool { return strings.Contains(log.String(), `"rpc":"unknown","rpc_error":-32601`) })
	d.fault("session.cancelSubagent", `{}`)
	eventually(t, "it is logged", func() bool {
		return strings.Contains(log.String(), `"rpc":"session.cancelSubagent","rpc_error":-32602`)
	})
	d.send("hello")
	eventually(t, "it is logged", func() bool { return strings.Contains(log.String(), `"rpc":"session.sendMessage"}`) })
}

func TestAWaitingCallerThatHangsUpIsNoErrorOfTheServer(t *testing.T) {
	t.Parallel()
	s, log := start(t, setup{}).logged()
	profile := s.profile(nil)
	d := s.open(profile, `{}`)
	first := d.stream("session.sendMessage", userSays(modeltest.Script(modeltest.Step{Wait: "go", Text: "first"})))
	require.Equal(t, "provider.request", first.event().Type)
	waiting := d.join(profile, `{}`).stream("session.sendMessage", userSays("gone"))
	eventually(t, "it queues", func() bool { return s.queued(d.id) == 1 })
	waiting.cancel()
	eventually(t, "it ends", func() bool { return strings.Contains(log.String(), `"rpc_error":-32603`) })
	require.NotContains(t, log.String(), `"level":"ERROR"`)
	s.model.Open("go")
}
