//go:build unix

package app_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/agent"
	"github.com/lambae/lambae/internal/sandbox/wire"
	"github.com/lambae/lambae/internal/session"
)

// A command of the process driver: from the client over HTTP, a row, the doorbell,
// sandboxd's fetch, a shell, sandboxd's result, a row, and back.
func BenchmarkExecTrueInAProcess(b *testing.B) {
	s, _ := processes(b, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	b.ResetTimer()
	for b.Loop() {
		d.result("session.execRemoteSandbox", `{"command":"true"}`)
	}
}

// As in a task: sandboxd reaches the server through TLS, its doorbell too.
func BenchmarkExecTrueOverHTTPS(b *testing.B) {
	s := start(b, setup{})
	secure := httptest.NewTLSServer(s.app.ClientHandler())
	b.Cleanup(secure.Close)
	q, id := s.app.Client.Agents.Queue, session.NewID(session.SandboxPrefix)
	code, err := q.Prepare(b.Context(), id)
	require.NoError(b, err)
	a := agent.New(agent.Options{Boot: wire.Boot{URL: secure.URL, Sandbox: id, Code: code, Dir: b.TempDir()}, Client: secure.Client(), Env: []string{"PATH=/usr/bin:/bin"}})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = a.Run(b.Context())
	}()
	b.Cleanup(func() { <-done })
	require.NoError(b, q.Enrolled(b.Context(), id))
	for b.Loop() {
		_, err := q.Exec(b.Context(), id, sandbox.Command{Command: "true", Timeout: time.Minute})
		require.NoError(b, err)
	}
}

func BenchmarkTenMegabytesOfOutput(b *testing.B) {
	s, _ := processes(b, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	b.SetBytes(10 << 20)
	b.ReportAllocs()
	for b.Loop() {
		d.result("session.execRemoteSandbox", `{"command":"head -c 10485760 /dev/zero | tr '\\0' x"}`)
	}
}

// Fifty sandboxes with four subagents each at once; none is lost.
func BenchmarkFiftySandboxesTwoHundredSubagents(b *testing.B) {
	for b.Loop() {
		s, _ := processes(b, setup{})
		profile := s.profile(map[string]any{"available_sandboxes": []string{"img"}})
		drivers := make([]*driver, 50)
		var wg sync.WaitGroup
		for i := range drivers {
			drivers[i] = s.open(profile, subagents)
			wg.Go(func() { drivers[i].result("session.startRemoteSandbox", `{"image":"img"}`) })
		}
		wg.Wait()
		for _, d := range drivers {
			wg.Go(func() {
				var ids []string
				for n := range 4 {
					ids = append(ids, d.launch("cat", "m", fmt.Sprint(n)))
				}
				for _, id := range ids {
					d.ended(id)
				}
				got, _ := d.status(`{}`)
				require.Equal(b, 4, strings.Count(jsonOf(got), `"status":"completed"`))
			})
		}
		wg.Wait()
	}
}
