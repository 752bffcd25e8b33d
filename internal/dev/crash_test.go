package dev_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/modeltest"
)

var buildOnce = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "lambae-bin")
	if err != nil {
		return "", err
	}
	bin := filepath.Join(dir, "lambae")
	out, err := exec.Command("go", "build", "-o", bin, "github.com/lambae/lambae/cmd/lambae").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build lambae: %w\n%s", err, out)
	}
	return bin, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := buildOnce(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// process is a `lambae dev` that can be killed and started again.
type process struct {
	t           *testing.T
	dir         string
	url, admin  string
	addr, aaddr string
	env         []string
	cmd         *exec.Cmd
}

func newProcess(t *testing.T, modelURL string, env ...string) *process {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("[[providers.entries]]\nname = \"model\"\nprovider = \"anthropic\"\nmodel = \"scripted\"\nbase_url = %q\nauth_token = \"t\"\n", modelURL)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600))
	p := &process{t: t, dir: dir, addr: freeAddr(t), aaddr: freeAddr(t)}
	p.url, p.admin = "http://"+p.addr, "http://"+p.aaddr
	p.env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "BAE_ADDR=" + p.addr, "BAE_ADMIN_ADDR=" + p.aaddr, "BAE_LOG=error",
		"BAE_CONFIG=" + filepath.Join(dir, "config.toml"), "LAMBAE_HOME=" + dir}, env...)
	t.Cleanup(func() { p.kill() })
	return p
}

func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func (p *process) start() {
	p.t.Helper()
	bin, err := buildOnce()
	require.NoError(p.t, err)
	p.cmd = exec.Command(bin, "dev")
	p.cmd.Dir, p.cmd.Env = p.dir, p.env
	log, err := os.Create(filepath.Join(p.dir, "log"))
	require.NoError(p.t, err)
	defer log.Close()
	p.cmd.Stdout, p.cmd.Stderr = log, log
	require.NoError(p.t, p.cmd.Start())
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		res, err := http.Get(p.url + "/healthz")
		if err == nil {
			res.Body.Close()
			return
		}
		if time.Now().After(deadline) {
			said, _ := os.ReadFile(log.Name())
			require.FailNow(p.t, "server does not start", "%v\n%s", err, said)
		}
	}
}

func (p *process) kill() {
	if p.cmd != nil {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.cmd = nil
	}
}

// try makes a call and returns its body; an error when the server was not there
// or died.
func (p *process) try(method, url, key, body string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode/100 != 2 {
		err = fmt.Errorf("%s: %s", res.Status, b)
	}
	return b, err
}

func (p *process) must(method, url, key, body string) map[string]any {
	p.t.Helper()
	b, err := p.try(method, url, key, body)
	require.NoError(p.t, err)
	var v map[string]any
	require.NoError(p.t, json.Unmarshal(b, &v), string(b))
	return v
}

type crashSession struct{ id, key string }

func (p *process) open() crashSession {
	p.t.Helper()
	admin, err := os.ReadFile(filepath.Join(p.dir, "admin.key"))
	require.NoError(p.t, err)
	a := strings.TrimSpace(string(admin))
	profile := p.must("POST", p.admin+"/admin/v1/profiles", a, fmt.Sprintf(`{"name":"p%d","primary_provider":"model"}`, rand.Int()))
	key := p.must("POST", p.admin+"/admin/v1/keys", a, fmt.Sprintf(`{"name":"k","profile_id":%q}`, profile["id"]))
	v := p.must("POST", p.url+"/api/v1/sessions", key["key"].(string), `{}`)
	s := crashSession{v["session_id"].(string), v["session_key"].(string)}
	p.must("POST", p.rpc(s), s.key, `{"jsonrpc":"2.0","id":1,"method":"session.registerDriver"}`)
	return s
}

func (p *process) rpc(s crashSession) string { return p.url + "/api/v1/sessions/" + s.id + "/rpc" }

// send says text and returns the ids of the call's events when it was
// acknowledged with a whole result.
func (p *process) send(s crashSession, text string) ([]string, error) {
	b, err := p.try("POST", p.rpc(s), s.key, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session.sendMessage","params":{"message":{"content":%q}}}`, text))
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(bytes.TrimSpace(b), []byte("\n"))
	var v struct {
		Result *struct {
			Events []struct{ ID string }
		}
		Error *struct{ Message string }
	}
	if err := json.Unmarshal(lines[len(lines)-1], &v); err != nil {
		return nil, err
	}
	if v.Result == nil {
		return nil, fmt.Errorf("the call failed: %s", lines[len(lines)-1])
	}
	var ids []string
	for _, e := range v.Result.Events {
		ids = append(ids, e.ID)
	}
	return ids, nil
}

type crashEvent struct {
	ID      string `json:"id"`
	Type    string `json:"event_type"`
	Payload struct{ Content json.RawMessage }
}

func (p *process) events(s crashSession) (out []crashEvent) {
	p.t.Helper()
	for cursor := ""; ; {
		b, err := p.try("GET", p.url+"/api/v1/sessions/"+s.id+"/events?limit=200&cursor="+cursor, s.key, "")
		require.NoError(p.t, err)
		var page struct {
			Items []crashEvent
			Next  *string `json:"next_cursor"`
		}
		require.NoError(p.t, json.Unmarshal(b, &page))
		out = append(out, page.Items...)
		if page.Next == nil {
			return out
		}
		cursor = *page.Next
	}
}

// kills is how often the server dies: LAMBAE_CRASH_KILLS, 20 by default.
func kills(t *testing.T) int {
	v := os.Getenv("LAMBAE_CRASH_KILLS")
	if v == "" {
		return 20
	}
	n, err := strconv.Atoi(v)
	require.NoError(t, err, "LAMBAE_CRASH_KILLS must be a number")
	return n
}

// The server dies at random moments in the turns of several sessions. What was
// acknowledged is there, once; no session is stuck; the next turn works at once.
func TestNothingAcknowledgedIsLostWhenTheServerIsKilled(t *testing.T) {
	t.Parallel()
	model := modeltest.New(t)
	p := newProcess(t, model.URL)
	p.start()
	sessions := make([]crashSession, 4)
	for i := range sessions {
		sessions[i] = p.open()
	}
	var mu sync.Mutex
	acked := map[string][]string{} // event ids by session
	said := map[string]bool{}      // acknowledged texts
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for n, s := range sessions {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprintf("session %d message %d", n, i)
				if i%3 == 0 {
					text = modeltest.Script(modeltest.Step{Text: text, Millis: 30})
				}
				ids, err := p.send(s, text)
				if err != nil {
					if !assert.NotContains(t, err.Error(), "the call failed", "a session is stuck") {
						return
					}
					time.Sleep(5 * time.Millisecond) // the server is down
					continue
				}
				mu.Lock()
				acked[s.id] = append(acked[s.id], ids...)
				said[text] = true
				mu.Unlock()
			}
		}()
	}
	for range kills(t) {
		time.Sleep(time.Duration(20+rand.IntN(150)) * time.Millisecond)
		p.kill()
		p.start()
	}
	close(stop)
	wg.Wait()
	p.kill()
	p.start()
	require.NotEmpty(t, said, "the test acknowledged nothing")
	for _, s := range sessions {
		began := time.Now()
		_, err := p.send(s, "after the last crash")
		require.NoError(t, err)
		require.Less(t, time.Since(began), 10*time.Second, "a lease of a dead process was waited for")
		seen, texts := map[string]int{}, map[string]int{}
		for _, e := range p.events(s) {
			seen[e.ID]++
			if e.Type == "client.message.send" {
				var text string
				if json.Unmarshal(e.Payload.Content, &text) == nil {
					texts[text]++
				}
			}
		}
		for id, n := range seen {
			require.Equal(t, 1, n, "event %s", id)
		}
		for _, id := range acked[s.id] {
			require.Equal(t, 1, seen[id], "acknowledged event %s", id)
		}
		for text, n := range texts {
			require.Equal(t, 1, n, "message %q", text)
		}
	}
}
