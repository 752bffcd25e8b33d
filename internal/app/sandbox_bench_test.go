//go:build unix

package app_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
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
