//go:build linux

package dev_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
	"github.com/lambae/lambae/internal/sandbox/docker/dockertest"
)

const crashAgents = `{"subagent_tools":[{"name":"launch_subagent","image":"img","subagents":[
	{"harness":"cat","command_template":"cat; until [ -e go ]; do sleep 0.05; done; echo done {model}"},
	{"harness":"fail","command_template":"until [ -e go ]; do sleep 0.05; done; echo bad >&2; exit 3"},
	{"harness":"slow","command_template":"sleep 60","timeout_secs":4}]}]}`

// sandboxed opens a session whose sandbox runs.
func (p *process) sandboxed() crashSession {
	p.t.Helper()
	admin, err := os.ReadFile(filepath.Join(p.dir, "admin.key"))
	require.NoError(p.t, err)
	a := strings.TrimSpace(string(admin))
	profile := p.must("POST", p.admin+"/admin/v1/profiles", a, fmt.Sprintf(`{"name":"p%d","primary_provider":"model","available_sandboxes":["img"]}`, rand.Int()))
	key := p.must("POST", p.admin+"/admin/v1/keys", a, fmt.Sprintf(`{"name":"k","profile_id":%q}`, profile["id"]))
	v := p.must("POST", p.url+"/api/v1/sessions", key["key"].(string), crashAgents)
	s := crashSession{v["session_id"].(string), v["session_key"].(string)}
	p.must("POST", p.rpc(s), s.key, `{"jsonrpc":"2.0","id":1,"method":"session.registerDriver"}`)
	p.begin(s)
	return s
}

func (p *process) begin(s crashSession) {
	p.t.Helper()
	v := p.must("POST", p.rpc(s), s.key, `{"jsonrpc":"2.0","id":1,"method":"session.startRemoteSandbox","params":{"image":"img"}}`)
	require.Contains(p.t, v, "result", v)
}

// exec runs a command; the error is that of the connection, the text that of the
// protocol.
func (p *process) exec(s crashSession, command string) (stdout, fault string, err error) {
	b, err := p.try("POST", p.rpc(s), s.key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session.execRemoteSandbox","params":{"command":%q}}`, command))
	if err != nil {
		return "", "", err
	}
	var v struct {
		Result *struct{ Stdout string }
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(bytes.TrimSpace(b), &v); err != nil {
		return "", "", err
	}
	if v.Error != nil {
		return "", v.Error.Message, nil
	}
	return v.Result.Stdout, "", nil
}

// use makes the model call a tool, and returns the text of its result.
func (p *process) use(s crashSession, calls ...json.RawMessage) []string {
	p.t.Helper()
	script := modeltest.Script(modeltest.Step{Blocks: calls}, modeltest.Step{Text: "fin"})
	_, err := p.send(s, script)
	require.NoError(p.t, err)
	b, err := p.try("GET", p.url+"/api/v1/sessions/"+s.id+"/events?limit=200", s.key, "")
	require.NoError(p.t, err)
	var page struct {
		Items []struct {
			Type    string `json:"event_type"`
			Payload struct {
				Content []struct{ Text string } `json:"content"`
			}
		}
	}
	texts := []string{}
	for _, item := range splitItems(p.t, b) {
		page.Items = page.Items[:0]
		if strings.Contains(string(item), `"event_type":"tool.result"`) {
			require.NoError(p.t, json.Unmarshal([]byte(`{"items":[`+string(item)+`]}`), &page))
			texts = append(texts, page.Items[0].Payload.Content[0].Text)
		}
	}
	return texts
}

func splitItems(t *testing.T, b []byte) []json.RawMessage {
	t.Helper()
	var page struct{ Items []json.RawMessage }
	require.NoError(t, json.Unmarshal(b, &page))
	return page.Items
}

// ends counts the terminal events of subagents.
func (p *process) ends(s crashSession) map[string]int {
	n := map[string]int{}
	for _, e := range p.events(s) {
		if strings.HasPrefix(e.Type, "session.subagent.") {
			n[strings.TrimPrefix(e.Type, "session.subagent.")]++
		}
	}
	return n
}

// The server dies while three subagents run. They run on, and all three end in
// the right event with the right output when it is back.
func TestSubagentsOutliveAKilledServer(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]func(t *testing.T) []string{
		"process": func(*testing.T) []string { return []string{"BAE_SANDBOX_DRIVER=process"} },
		"docker": func(t *testing.T) []string {
			e := dockertest.New(t)
			return []string{"BAE_SANDBOX_DRIVER=docker", "DOCKER_STAND_IN=" + e.Root, "PATH=" + filepath.Dir(e.Command) + ":" + os.Getenv("PATH")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProcess(t, modeltest.New(t).URL, env(t)...)
			t.Cleanup(func() { endSandboxes(p) })
			p.start()
			s := p.sandboxed()
			launch := func(id, harness string) json.RawMessage {
				return modeltest.ToolUse(id, "launch_subagent", fmt.Sprintf(`{"harness":%q,"model":"m'1","prompt":"it's a prompt\n"}`, harness))
			}
			started := p.use(s, launch("a", "cat"), launch("b", "fail"), launch("c", "slow"))
			require.Len(t, started, 3)
			require.Equal(t, map[string]int{"start": 3, "running": 3}, p.ends(s))
			p.kill()
			p.start()
			require.Equal(t, map[string]int{"start": 3, "running": 3}, p.ends(s), "nothing has ended yet")
			_, fault, err := p.exec(s, "touch go")
			require.NoError(t, err)
			require.Empty(t, fault, "the sandbox is the same as before")
			require.Eventually(t, func() bool {
				n := p.ends(s)
				return n["completed"]+n["failed"]+n["cancelled"] == 3
			}, 30*time.Second, 50*time.Millisecond)
			require.Equal(t, map[string]int{"start": 3, "running": 3, "completed": 1, "failed": 2}, p.ends(s))
			texts := p.use(s, modeltest.ToolUse("q", "remote_subagent_status", `{}`))
			var report struct {
				Subagents []struct {
					Status         string
					Stdout, Stderr *string
					Exit           *int `json:"exit_code"`
					Reason         *string
				}
			}
			require.NoError(t, json.Unmarshal([]byte(texts[len(texts)-1]), &report))
			require.Len(t, report.Subagents, 3)
			require.Equal(t, "completed", report.Subagents[0].Status)
			require.Equal(t, "it's a prompt\ndone m'1\n", *report.Subagents[0].Stdout)
			require.Equal(t, "failed", report.Subagents[1].Status)
			require.Equal(t, 3, *report.Subagents[1].Exit)
			require.Equal(t, "bad\n", *report.Subagents[1].Stderr)
			require.Equal(t, "timed_out", report.Subagents[2].Status)
		})
	}
}

// endSandboxes ends the sandboxd processes of a test, whose server is dead.
func endSandboxes(p *process) {
	for pid := sandboxPID(p); pid > 0 && syscall.Kill(pid, 0) == nil; pid = sandboxPID(p) {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		time.Sleep(10 * time.Millisecond)
	}
}

// sandboxPID is the sandboxd of the test's newest sandbox, 0 when there is none.
func sandboxPID(p *process) (pid int) {
	var newest time.Time
	locks, _ := filepath.Glob(filepath.Join(p.dir, "sandboxes", "*", "lock"))
	for _, l := range locks {
		info, err := os.Stat(l)
		b, _ := os.ReadFile(l)
		if n, bad := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && bad == nil && info.ModTime().After(newest) {
			pid, newest = n, info.ModTime()
		}
	}
	return pid
}

// sandboxKills is how often something dies: LAMBAE_SANDBOX_KILLS, 10 by default.
func sandboxKills(t *testing.T) int {
	v := os.Getenv("LAMBAE_SANDBOX_KILLS")
	if v == "" {
		return 10
	}
	n, err := strconv.Atoi(v)
	require.NoError(t, err, "LAMBAE_SANDBOX_KILLS must be a number")
	return n
}

// sandboxd and the server die at random moments while commands run. Every command
// ends: with its own output, with an error, or with its connection. None hangs.
func TestEveryCommandEndsWhateverIsKilled(t *testing.T) {
	t.Parallel()
	p := newProcess(t, modeltest.New(t).URL, "BAE_SANDBOX_DRIVER=process")
	t.Cleanup(func() { endSandboxes(p) })
	p.start()
	s := p.sandboxed()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	died := 0
	for w := range 3 {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				want := fmt.Sprintf("%d.%d", w, i)
				out, fault, err := p.exec(s, fmt.Sprintf("sleep 0.0%d; echo %s", rand.IntN(10), want))
				kind := "result"
				switch {
				case err != nil:
					kind = "connection"
					if !assert.NotContains(t, err.Error(), "deadline exceeded", "a command hangs") {
						return
					}
					time.Sleep(10 * time.Millisecond) // the server is down
				case strings.HasPrefix(fault, "sandbox_not_running"):
					kind = "no sandbox"
					time.Sleep(10 * time.Millisecond) // until the next one
				case fault != "":
					kind = "error"
					assert.Contains(t, fault, "sandbox exec failed: ")
				default:
					if !assert.Equal(t, want+"\n", out, "another command's output") {
						return
					}
				}
				mu.Lock()
				outcomes[kind]++
				mu.Unlock()
			}
		})
	}
	for range sandboxKills(t) {
		time.Sleep(time.Duration(50+rand.IntN(200)) * time.Millisecond)
		switch rand.IntN(3) {
		case 0:
			p.kill()
			p.start()
		case 1:
			if pid := sandboxPID(p); pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				died++
			}
		case 2: // cut off for a moment, as by the network
			if pid := sandboxPID(p); pid > 0 {
				_ = syscall.Kill(pid, syscall.SIGSTOP)
				time.Sleep(100 * time.Millisecond)
				_ = syscall.Kill(pid, syscall.SIGCONT)
			}
		}
		_, _ = p.try("POST", p.rpc(s), s.key, `{"jsonrpc":"2.0","id":1,"method":"session.startRemoteSandbox","params":{"image":"img"}}`)
	}
	close(stop)
	wg.Wait()
	require.NotZero(t, outcomes["result"], outcomes)
	t.Logf("%d sandboxes died: %v", died, outcomes)
	// And after all that the session still works.
	require.Eventually(t, func() bool {
		_, _ = p.try("POST", p.rpc(s), s.key, `{"jsonrpc":"2.0","id":1,"method":"session.startRemoteSandbox","params":{"image":"img"}}`)
		out, _, err := p.exec(s, "echo well")
		return err == nil && out == "well\n"
	}, 60*time.Second, 100*time.Millisecond)
	sbx := map[string]int{}
	for _, e := range p.events(s) {
		sbx[e.Type]++
	}
	require.Equal(t, sbx["session.sandbox.running"]-1, sbx["session.sandbox.stopped"], "each sandbox but the last has ended once: %v", sbx)
}
