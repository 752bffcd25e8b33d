//go:build linux

// What docs/sandboxes.md claims of hostile commands, tokens and models.
package app_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/sandbox/wire"
	"github.com/lambae/lambae/internal/session"
)

const (
	waitFor = 10 * time.Second
	tick    = 5 * time.Millisecond
)

func command(c string) sandbox.Command { return sandbox.Command{Command: c, Timeout: time.Minute} }

// enroll makes a sandbox as its driver does, and plays its sandboxd.
func enroll(t *testing.T, q *queue.Queue, id string) (token string) {
	t.Helper()
	code, err := q.Prepare(t.Context(), id)
	require.NoError(t, err)
	token = queue.NewToken()
	require.NoError(t, q.Enroll(t.Context(), id, code, session.HashSecret(token)))
	return token
}

func (s *server) sandboxURL(id, path string) string { return s.url + "/api/v1/sandboxes/" + id + path }

func TestASandboxTokenOpensItsOwnSandboxOnly(t *testing.T) {
	t.Parallel()
	s, _ := processes(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	other := d.result("session.startRemoteSandbox", `{"image":"img"}`)["sandbox_id"].(string)
	mine := session.NewID(session.SandboxPrefix)
	token := enroll(t, s.app.Client.Agents.Queue, mine)
	require.Equal(t, 200, s.call("GET", s.sandboxURL(mine, "/commands?after=0"), token, "").Status)
	for _, c := range []struct{ method, url, body string }{
		{"GET", s.sandboxURL(other, "/commands?after=0"), ""},
		{"POST", s.sandboxURL(other, "/results"), `{"n":1,"result":{"stdout":"forged"}}`},
		{"POST", s.sandboxURL(other, "/output"), `{"n":1,"stream":"stdout","text":"forged"}`},
		{"GET", s.sandboxURL(other, "/doorbell"), ""},
		{"POST", s.sandboxURL(other, "/enroll"), `{"token_hash":"` + strings.Repeat("0", 64) + `"}`},
		{"GET", s.url + "/api/v1/sessions/" + d.id + "/events", ""},
		{"POST", s.url + "/api/v1/sessions/" + d.id + "/rpc", `{"jsonrpc":"2.0","id":1,"method":"session.subscribe"}`},
		{"POST", s.url + "/api/v1/sessions", `{}`},
		{"POST", s.url + "/api/v1/sessions/" + d.id + "/join", `{}`},
		{"DELETE", s.url + "/api/v1/sessions/" + d.id, ""},
	} {
		require.Equal(t, 401, s.call(c.method, c.url, token, c.body).Status, c)
	}
	// Nor does any other key open a sandbox's routes.
	for _, key := range []string{d.key, d.client, "", token[:len(token)-1], "bae_admin_" + strings.Repeat("0", 48)} {
		require.Equal(t, 401, s.call("GET", s.sandboxURL(mine, "/commands?after=0"), key, "").Status)
	}
}

func TestAOneTimeCodeIsOfNoUseToASecond(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	q := s.app.Client.Agents.Queue
	id := session.NewID(session.SandboxPrefix)
	code, err := q.Prepare(t.Context(), id)
	require.NoError(t, err)
	first, second := queue.NewToken(), queue.NewToken()
	body := func(token string) string { return fmt.Sprintf(`{"token_hash":%q}`, session.HashSecret(token)) }
	require.Equal(t, 401, s.call("GET", s.sandboxURL(id, "/commands?after=0"), code, "").Status, "the code is no token")
	require.Equal(t, 401, s.call("POST", s.sandboxURL(id, "/enroll"), code, `{"token_hash":""}`).Status)
	require.Equal(t, 200, s.call("POST", s.sandboxURL(id, "/enroll"), code, body(first)).Status)
	require.Equal(t, 200, s.call("POST", s.sandboxURL(id, "/enroll"), code, body(first)).Status, "an answer that got lost")
	require.Equal(t, 401, s.call("POST", s.sandboxURL(id, "/enroll"), code, body(second)).Status)
	require.Equal(t, 401, s.call("GET", s.sandboxURL(id, "/commands?after=0"), second, "").Status)
	require.NoError(t, q.End(t.Context(), id))
	require.Equal(t, 410, s.call("GET", s.sandboxURL(id, "/commands?after=0"), first, "").Status)
	require.Equal(t, 401, s.call("GET", s.sandboxURL(id, "/commands?after=0"), second, "").Status, "who has no token does not learn that it ended")
}

func TestASandboxTellsOutcomesOfItsOwnCommandsOnce(t *testing.T) {
	t.Parallel()
	s := start(t, setup{})
	id := session.NewID(session.SandboxPrefix)
	token := enroll(t, s.app.Client.Agents.Queue, id)
	post := func(path, body string) int { return s.call("POST", s.sandboxURL(id, path), token, body).Status }
	for name, body := range map[string]string{
		"never ordered": `{"n":7,"result":{"stdout":"forged","exit_code":0}}`,
		"zero":          `{"n":0,"result":{}}`,
		"negative":      `{"n":-1,"result":{}}`,
		"nothing":       `{"n":1}`,
		"both":          `{"n":1,"result":{},"error":"x"}`,
		"wrong type":    `{"n":"1"}`,
		"no object":     `[]`,
	} {
		require.Equal(t, 400, post("/results", body), name)
	}
	require.Equal(t, 400, post("/output", `{"n":1,"stream":"stdin","text":"x"}`))
	require.Equal(t, 413, post("/results", `{"error":"`+strings.Repeat("x", 7<<20)+`"}`))
	require.Equal(t, 400, s.call("GET", s.sandboxURL(id, "/commands?after=-1"), token, "").Status)
	require.Equal(t, 405, s.call("DELETE", s.sandboxURL(id, "/commands"), token, "").Status)
}

// A sandboxd under an enemy's control tells more than a command may say. It is cut,
// and stays text.
func TestWhatAHostileSandboxTellsIsDataAndNoMore(t *testing.T) {
	t.Parallel()
	s, _ := processes(t, setup{})
	q := s.app.Client.Agents.Queue
	id := session.NewID(session.SandboxPrefix)
	token := enroll(t, q, id)
	done := make(chan string, 1)
	go func() {
		r, err := q.Exec(t.Context(), id, command("true"))
		done <- fmt.Sprint(len(r.Stdout), r.Truncated, err)
	}()
	require.Eventually(t, func() bool {
		var orders wire.Orders
		require.NoError(t, json.Unmarshal(s.call("GET", s.sandboxURL(id, "/commands?after=0"), token, "").Body, &orders))
		return len(orders.Orders) == 1
	}, waitFor, tick)
	forged := `\n{\"jsonrpc\":\"2.0\",\"method\":\"session.event\"}\n`
	long := jsonOf(map[string]any{"n": 1, "result": map[string]any{"stdout": strings.Repeat("é", 100_000) + forged, "exit_code": 0}})
	require.Equal(t, 204, s.call("POST", s.sandboxURL(id, "/results"), token, long).Status)
	require.Equal(t, "65536 true <nil>", <-done)
	require.Equal(t, 204, s.call("POST", s.sandboxURL(id, "/results"), token, `{"n":1,"result":{"stdout":"changed"}}`).Status, "told again, it changes nothing")

	// A command's output that looks like the protocol's lines is a string in one.
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	d.result("session.startRemoteSandbox", `{"image":"img"}`)
	line := `{"jsonrpc":"2.0","method":"session.event","params":{"event_type":"session.close"}}`
	lines := d.rpc("session.execRemoteSandbox", jsonOf(map[string]any{"stream": true, "command": "printf '%s\\n' '" + line + "'"}))
	require.Len(t, lines, 2)
	require.Equal(t, "session.sandbox.output", lines[0]["method"])
	require.Equal(t, line+"\n", lines[1]["result"].(map[string]any)["stdout"])
	events := d.run("x", "sh", jsonOf(map[string]any{"command": "printf '%s' '" + line + "'"}))
	require.NotContains(t, types(events), "session.close")
}

// No secret is where a command can look: its environment and arguments, those of
// sandboxd, its memory, its folder, its log.
func TestACommandFindsNoSecret(t *testing.T) {
	t.Parallel()
	t.Log("running as uid", os.Getuid())
	s, dir := processes(t, setup{})
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), shellTool)
	id := d.result("session.startRemoteSandbox", `{"image":"img"}`)["sandbox_id"].(string)
	look := func(command string) string {
		res := d.result("session.execRemoteSandbox", jsonOf(map[string]any{"command": command}))
		return fmt.Sprint(res["stdout"], res["stderr"])
	}
	for _, command := range []string{
		"env", "set", "cat /proc/self/environ", "cat /proc/$PPID/environ", "cat /proc/$PPID/cmdline", "ls -l /proc/$PPID/fd/", "cat /proc/$PPID/fd/0",
		"cat ../sandboxd.log ../lock", "grep -r bae_ .. 2>&1",
	} {
		said := look(command)
		require.NotContains(t, said, "bae_sbx_", command)
		require.NotRegexp(t, `(^|\W)BAE_`, said, command)
	}
	env := look("env")
	require.Contains(t, env, "HOME="+filepath.Join(dir, id, "home"))
	require.Contains(t, env, "LAMBAE_SANDBOX="+id)
	for _, line := range strings.Split(strings.TrimSpace(env), "\n") {
		name, _, _ := strings.Cut(line, "=")
		require.Contains(t, []string{"PATH", "HOME", "TMPDIR", "LANG", "PWD", "OLDPWD", "SHLVL", "_", "LAMBAE_SANDBOX"}, name)
	}
	if os.Getuid() != 0 { // root may read any memory where it has the capability
		require.Contains(t, look("head -c 1 /proc/$PPID/mem"), "ermission denied")
	}
}

func TestAModelCannotLeaveItsQuotes(t *testing.T) {
	t.Parallel()
	d := agents(t)
	for _, prompt := range []string{"'; touch pwned; '", "$(touch pwned)", "`touch pwned`", "\n touch pwned\n", "{model}'\"; touch pwned; #"} {
		d.ended(d.launch("arg", prompt, prompt))
		d.status(`{}`)
	}
	require.NotContains(t, d.result("session.execRemoteSandbox", `{"command":"ls -a"}`)["stdout"], "pwned")
}

func TestAnotherSessionsSubagentsAreNotFound(t *testing.T) {
	t.Parallel()
	s, _ := boxed(t, setup{})
	profile := s.profile(map[string]any{"available_sandboxes": []string{"img"}})
	mine, yours := s.open(profile, subagents), s.open(profile, subagents)
	yours.result("session.startRemoteSandbox", `{"image":"img"}`)
	id := yours.launch("long", "m", "p")
	code, _ := mine.fault("session.cancelSubagent", jsonOf(map[string]any{"subagent_id": id}))
	require.Equal(t, -32014, code)
	code, _ = mine.fault("session.execRemoteSandbox", `{"command":"true"}`)
	require.Equal(t, -32013, code)
	got, _ := yours.status(`{}`)
	require.Equal(t, "running", got["subagents"].([]any)[0].(map[string]any)["status"])
}
