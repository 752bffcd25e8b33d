package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/lambae/lambae/internal/lambdahttp/runtimetest"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table/dynamo"
	"github.com/lambae/lambae/internal/table/tabletest/faulty"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

// maxBinary is how many bytes a function may have: it is loaded at every cold
// start.
const maxBinary = 15 << 20

// binary is built once for all tests; the folder goes with the process.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "client-")
	if err != nil {
		return "", err
	}
	return runtimetest.BuildIn(dir, ".")
})

func TestMain(m *testing.M) {
	code := m.Run()
	if bin, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(bin))
	}
	os.Exit(code)
}

// What counts is the architecture that is deployed by default.
func TestTheBinaryIsSmall(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.Command("go", "build", "-tags", "lambda.norpc", "-trimpath", "-ldflags=-s -w", "-o", bin, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=arm64")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	info, err := os.Stat(bin)
	require.NoError(t, err)
	require.LessOrEqual(t, info.Size(), int64(maxBinary))
}

// The model answers when the test says so: whatever is read before that came
// while the turn ran.
func TestEventLinesArriveBeforeTheTurnEnds(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(w, `{"id":"m","type":"message","role":"assistant","model":"m","stop_reason":"end_turn","content":[{"type":"text","text":"It is noon."}],"usage":{"input_tokens":1,"output_tokens":1}}`)
	}))
	t.Cleanup(model.Close)
	d := deploy(t, fmt.Sprintf(`
[[providers.entries]]
name = "main"
provider = "anthropic"
model = "m"
auth_token = "${MODEL_TOKEN}"
base_url = %q
`, model.URL), "MODEL_TOKEN=secret")
	d.open()

	call := d.invoke("send-message.json")
	resp, err := call.Response()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "application/x-ndjson", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)

	require.True(t, lines.Scan())
	require.Equal(t, "provider.request", gjson.GetBytes(lines.Bytes(), "params.event_type").String())
	<-asked
	require.False(t, call.Ended(), "the line came while the model was at work")

	close(answer)
	var last []byte
	for lines.Scan() {
		last = bytes.Clone(lines.Bytes())
	}
	require.NoError(t, lines.Err())
	require.NoError(t, call.Wait())
	require.Equal(t, "It is noon.", gjson.GetBytes(last, "result.message.content.0.text").String(), "%s", last)
}

func TestAnUnknownKeyIsRefused(t *testing.T) {
	t.Parallel()
	d := deploy(t, echoConfig)
	resp := d.answer("unauthorized.json")
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.Equal(t, "invalid client key", gjson.Get(body(t, resp), "detail").String())
}

func TestEverySampleEventIsAnswered(t *testing.T) {
	t.Parallel()
	d := deploy(t, echoConfig)
	require.Equal(t, http.StatusOK, d.answer("healthz.json").StatusCode)
	meta := d.answer("meta.json")
	require.Equal(t, "wss://gateway/v1?session={session_id}", gjson.Get(body(t, meta), "websocket_url").String())
	d.open()
	require.Contains(t, body(t, d.answer("send-message.json")), "You said: What time is it?")
	require.Contains(t, body(t, d.answer("events.json")), "server.message.send")
}

// The function's limit leaves a second here, since a subscription ends half a
// minute before it.
func TestASubscriptionEndsBeforeTheFunctionsTimeLimit(t *testing.T) {
	t.Parallel()
	d := deploy(t, echoConfig)
	d.open()
	d.runtime.Timeout = 31 * time.Second
	req := httptest.NewRequest(http.MethodPost, "/api/v1/sessions/"+d.values["session_id"]+"/rpc",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"session.subscribe"}`))
	req.Header.Set("Authorization", "Bearer "+d.values["session_key"])
	req.Header.Set("Content-Type", "application/json")
	event, err := runtimetest.Event(req)
	require.NoError(t, err)
	call := d.runtime.Invoke(event)
	resp, err := call.Response()
	require.NoError(t, err)
	require.Contains(t, body(t, resp), "lagged; reconnect with since_event_id")
	require.NoError(t, call.Wait())
}

func TestAStartThatCannotWorkSaysWhatToDo(t *testing.T) {
	t.Parallel()
	bin, err := binary()
	require.NoError(t, err)
	for claim, tc := range map[string]struct{ env, says string }{
		"no table":          {"BAE_STORE=", "dynamodb:<table>"},
		"a local store":     {"BAE_STORE=embedded:x.db", "dynamodb:<table>"},
		"a bad level":       {"BAE_LOG=loud", "BAE_LOG"},
		"no region":         {"AWS_REGION=", "AWS_REGION"},
		"a bad config file": {"BAE_CONFIG=" + write(t, "[[providers.entries]]\nname = \"x\"\nprovider = \"nobody\"\n"), "nobody"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			rt := runtimetest.New(t)
			var logs logBuffer
			rt.Logs = &logs
			require.NoError(t, rt.Start(bin, "BAE_STORE=dynamodb:sessions", "BAE_CONFIG="+write(t, echoConfig), tc.env))
			require.Error(t, rt.Invoke([]byte(`{}`)).Wait())
			require.Contains(t, logs.String(), tc.says)
		})
	}
}

func TestAMissingTableIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	d := deploy(t, echoConfig, "BAE_STORE=dynamodb:no-such-table")
	require.Equal(t, http.StatusInternalServerError, d.answer("open.json").StatusCode)
	require.Eventually(t, func() bool {
		logged := d.logs.String()
		return strings.Contains(logged, "no-such-table") && strings.Contains(logged, "deploy the stack")
	}, 10*time.Second, 10*time.Millisecond)
}

// Three of four requests to the table fail, in every way there is.
func TestATableThatFailsDelaysTurnsAndLosesNothing(t *testing.T) {
	t.Parallel()
	faults := []faulty.Fault{faulty.Throttled, {}, faulty.LostAnswer, faulty.ServerError}
	var requests atomic.Int64
	proxy := faulty.Proxy(t, ministack.Endpoint(t), func(string, int) faulty.Fault {
		return faults[requests.Add(1)%int64(len(faults))]
	})
	d := deploy(t, echoConfig, "AWS_ENDPOINT_URL="+proxy)
	d.open()
	const turns = 5
	for range turns {
		require.Contains(t, body(t, d.answer("send-message.json")), "You said: What time is it?")
	}
	var got []string
	events := body(t, d.answer("events.json"))
	gjson.Get(events, "items.#.event_type").ForEach(func(_, kind gjson.Result) bool {
		got = append(got, kind.String())
		return true
	})
	turn := []string{"client.message.send", "provider.request", "provider.response", "server.message.send"}
	require.Greater(t, len(got), turns*len(turn), events)
	require.Equal(t, slices.Repeat(turn, turns), got[len(got)-turns*len(turn):])
	require.Greater(t, requests.Load(), int64(4*turns))
}

const echoConfig = `
[[providers.entries]]
name = "main"
provider = "echo"
`

// deployment is a running function with a table of its own.
type deployment struct {
	t       *testing.T
	runtime *runtimetest.Runtime
	logs    *logBuffer
	values  map[string]string // of placeholders in sample events
}

func deploy(t *testing.T, config string, env ...string) *deployment {
	t.Helper()
	bin, err := binary()
	require.NoError(t, err)
	endpoint := ministack.Endpoint(t)
	client, name := ministack.Client(endpoint), ministack.TableName()
	require.NoError(t, dynamo.CreateTable(t.Context(), client, name))
	table, err := dynamo.Open(client, name, nil)
	require.NoError(t, err)
	directory := session.NewDirectory(table, time.Now)
	profile, err := directory.CreateProfile(t.Context(), session.Profile{Name: "main", PrimaryProvider: "main"})
	require.NoError(t, err)
	_, key, err := directory.CreateClientKey(t.Context(), "test", profile.ID)
	require.NoError(t, err)

	d := &deployment{t: t, runtime: runtimetest.New(t), logs: &logBuffer{}, values: map[string]string{"client_key": key}}
	d.runtime.Logs = d.logs
	require.NoError(t, d.runtime.Start(bin, append([]string{
		"BAE_STORE=dynamodb:" + name, "BAE_CONFIG=" + write(t, config), "BAE_WEBSOCKET_URL=wss://gateway/v1?session={session_id}",
		"AWS_REGION=us-east-1", "AWS_ENDPOINT_URL=" + endpoint, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test",
	}, env...)...))
	return d
}

// invoke hands a sample event to the function.
func (d *deployment) invoke(sample string) *runtimetest.Invocation {
	d.t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "events", sample))
	require.NoError(d.t, err)
	event, err := runtimetest.Fill(raw, d.values)
	require.NoError(d.t, err)
	return d.runtime.Invoke(event)
}

func (d *deployment) answer(sample string) *http.Response {
	d.t.Helper()
	resp, err := d.invoke(sample).Response()
	require.NoError(d.t, err)
	return resp
}

// open opens a session and registers its driver.
func (d *deployment) open() {
	d.t.Helper()
	var opened struct {
		SessionID  string `json:"session_id"`
		SessionKey string `json:"session_key"`
	}
	resp := d.answer("open.json")
	answer := body(d.t, resp)
	require.Less(d.t, resp.StatusCode, 300, answer)
	require.NoError(d.t, json.Unmarshal([]byte(answer), &opened))
	d.values["session_id"], d.values["session_key"] = opened.SessionID, opened.SessionKey
	require.Contains(d.t, body(d.t, d.answer("register-driver.json")), `"result"`)
}

func body(t *testing.T, resp *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(b)
}

func write(t *testing.T, config string) string {
	path := filepath.Join(t.TempDir(), "bae-config.toml")
	require.NoError(t, os.WriteFile(path, []byte(config), 0o600))
	return path
}

// logBuffer keeps what a function logs.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
