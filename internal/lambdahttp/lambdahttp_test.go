package lambdahttp_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lambae/lambae/internal/lambdahttp/runtimetest"
	"github.com/stretchr/testify/require"
)

// function is a running test function.
type function struct {
	*runtimetest.Runtime
	logs *logs

	mu    sync.Mutex
	gates map[string]chan struct{}
}

// binary is the test function, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "lambdahttp")
	if err == nil {
		binary, err = runtimetest.BuildIn(dir, "./testdata/function")
	}
	if err != nil {
		log.Fatal(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// start runs the test function until the test ends.
func start(t *testing.T, env ...string) *function {
	t.Helper()
	f := &function{Runtime: runtimetest.New(t), logs: &logs{}, gates: map[string]chan struct{}{}}
	f.Logs = f.logs
	gate := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-f.gate(r.URL.Path[1:]):
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(gate.Close)
	require.NoError(t, f.Start(binary, append(env, "GATE="+gate.URL)...))
	return f
}

func (f *function) gate(name string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gates[name] == nil {
		f.gates[name] = make(chan struct{})
	}
	return f.gates[name]
}

// open lets the function pass a gate.
func (f *function) open(name string) { close(f.gate(name)) }

func (f *function) do(t *testing.T, method, target string, body string, header ...string) *http.Response {
	t.Helper()
	req := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	resp, err := f.RoundTrip(req)
	require.NoError(t, err)
	return resp
}

func read(t *testing.T, r io.Reader) string {
	t.Helper()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(b)
}

func TestLinesArriveWhileTheInvocationRuns(t *testing.T) {
	t.Parallel()
	f := start(t)
	inv := f.Invoke(event(t, http.MethodPost, "/stream", ""))
	resp, err := inv.Response()
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "application/x-ndjson", resp.Header.Get("Content-Type"))
	lines := bufio.NewScanner(resp.Body)
	for i, want := range []string{`{"line":0}`, `{"line":1}`, `{"line":2}`} {
		require.True(t, lines.Scan())
		require.Equal(t, want, lines.Text())
		require.False(t, inv.Ended())
		f.open(string(rune('0' + i)))
	}
	require.False(t, lines.Scan())
	require.NoError(t, inv.Wait())
}

func TestFlushSendsTheHeaders(t *testing.T) {
	t.Parallel()
	f := start(t)
	inv := f.Invoke(event(t, http.MethodGet, "/flush", ""))
	resp, err := inv.Response()
	require.NoError(t, err)
	require.Equal(t, "yes", resp.Header.Get("X-Early"))
	require.False(t, inv.Ended())
	f.open("flushed")
	require.NoError(t, inv.Wait())
}

func TestAPanicDoesNotEndTheProcess(t *testing.T) {
	t.Parallel()
	f := start(t)
	resp := f.do(t, http.MethodGet, "/panic", "")
	require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
	require.Equal(t, http.Header{"Content-Type": {"application/problem+json"}}, resp.Header, "what was half done is not sent")
	require.JSONEq(t, `{"type":"internal","title":"Internal Server Error","status":500,"detail":"unexpected server error"}`, read(t, resp.Body))
	require.Eventually(t, func() bool {
		logged := f.logs.String()
		return strings.Contains(logged, "panic in a handler") && strings.Contains(logged, "main.go:")
	}, 10*time.Second, 5*time.Millisecond, "it is logged with its stack")

	for _, path := range []string{"/panic-late", "/abort"} {
		resp = f.do(t, http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, resp.StatusCode)
		body, err := io.ReadAll(resp.Body)
		require.Equal(t, "half\n", string(body))
		require.EqualError(t, err, "Handler.Panic: the answer was cut short by an internal error")
	}
	require.Equal(t, http.StatusOK, f.do(t, http.MethodGet, "/silent", "").StatusCode)
}

func TestHeadersOfAnAnswer(t *testing.T) {
	t.Parallel()
	f := start(t)
	resp := f.do(t, http.MethodGet, "/headers", "")
	require.Equal(t, http.StatusTeapot, resp.StatusCode, "neither the early one nor the late one")
	require.Equal(t, http.Header{"X-Two": {"a,b"}, "Set-Cookie": {"a=1; Path=/", "b=2"}}, resp.Header)
	require.Equal(t, "tea", read(t, resp.Body))

	head := f.do(t, http.MethodHead, "/headers", "")
	require.Equal(t, http.StatusTeapot, head.StatusCode)
	require.Empty(t, read(t, head.Body))
}

func TestAnswersWithoutABody(t *testing.T) {
	t.Parallel()
	f := start(t)
	for path, status := range map[string]int{"/no-content": http.StatusNoContent, "/silent": http.StatusOK} {
		inv := f.Invoke(event(t, http.MethodGet, path, ""))
		resp, err := inv.Response()
		require.NoError(t, err)
		require.Equal(t, status, resp.StatusCode)
		require.Empty(t, read(t, resp.Body))
		require.NoError(t, inv.Wait())
	}
}

func TestTheHandlerSeesTheRequest(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.Timeout = 100 * time.Second
	resp := f.do(t, http.MethodPatch, "https://abc.lambda-url.eu-central-1.on.aws/a%2Fb/c?x=1&x=2&y=%20;z", "{}",
		"X-Custom", "1", "X-Custom", "2", "Cookie", "a=1; b=2", "Content-Type", "application/json", "Authorization", "Bearer k")
	var got struct {
		Method, Host, Path, Query, URI, Remote string
		Header                                 http.Header
		Cookies                                []string
		Seconds                                int
	}
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&got))
	require.Equal(t, "PATCH", got.Method)
	require.Equal(t, "abc.lambda-url.eu-central-1.on.aws", got.Host)
	require.Equal(t, "/a/b/c", got.Path)
	require.Equal(t, "x=1&x=2&y=%20;z", got.Query)
	require.Equal(t, "/a%2Fb/c?x=1&x=2&y=%20;z", got.URI)
	require.Equal(t, "192.0.2.1:0", got.Remote)
	require.Equal(t, []string{"1,2"}, got.Header["X-Custom"])
	require.Equal(t, []string{"Bearer k"}, got.Header["Authorization"])
	require.Equal(t, []string{"a=1", "b=2"}, got.Cookies)
	require.InDelta(t, 100, got.Seconds, 5, "the deadline of the invocation")
}

func TestCookiesComeFromTheirListWhenThereIsNoHeader(t *testing.T) {
	t.Parallel()
	f := start(t)
	resp, err := f.Invoke([]byte(`{"version":"2.0","rawPath":"/","headers":{"host":"h"},"cookies":["a=1","b=2"],
		"requestContext":{"domainName":"h","http":{"method":"GET","sourceIp":"2001:db8::1"}}}`)).Response()
	require.NoError(t, err)
	body := read(t, resp.Body)
	require.Contains(t, body, `"cookies":["a=1","b=2"]`)
	require.Contains(t, body, `"remote":"[2001:db8::1]:0"`)
}

func TestBodiesArriveWholeAndWithTheirLength(t *testing.T) {
	t.Parallel()
	f := start(t)
	big := strings.Repeat("0123456789abcdef", (6<<20-4096)/16) // and the rest of the event
	for _, tt := range []struct{ name, contentType, body, length string }{
		{"text", "application/json", `{"a":"é"}`, "10"},
		{"binary, base64 on the way", "application/octet-stream", "\x00\xff\x01", "3"},
		{"one byte of padding", "application/octet-stream", "\x00\xff", "2"},
		{"two bytes of padding", "application/octet-stream", "\x00", "1"},
		{"6 MB", "text/plain", big, strconv.Itoa(len(big))},
		{"none", "text/plain", "", "0"},
	} {
		resp := f.do(t, http.MethodPost, "/echo", tt.body, "Content-Type", tt.contentType)
		require.True(t, tt.body == read(t, resp.Body), tt.name)
		require.Equal(t, tt.length, resp.Header.Get("X-Length"), tt.name)
	}
}

func TestEventsThatAreNoRequestsAreRefused(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, err := f.Invoke([]byte(`{"source":"aws.events"}`)).Response()
	require.ErrorContains(t, err, "this is no request of a Function URL (payload format 2.0); invoke the function over HTTP")

	resp, err := f.Invoke([]byte(`{"rawPath":"/%zz","requestContext":{"domainName":"h","http":{"method":"GET"}}}`)).Response()
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode)
	require.Contains(t, read(t, resp.Body), `"type":"bad_request"`)

	resp, err = f.Invoke([]byte(`{"rawPath":"/echo","body":"%%%","isBase64Encoded":true,"requestContext":{"domainName":"h","http":{"method":"POST"}}}`)).Response()
	require.NoError(t, err)
	require.Equal(t, http.StatusBadRequest, resp.StatusCode, "a body that is not base64 fails when it is read")
}

func TestAfterRunsWhenTheClientHasTheAnswer(t *testing.T) {
	t.Parallel()
	f := start(t, "AFTER=1")
	for _, path := range []string{"/headers", "/silent"} {
		inv := f.Invoke(event(t, http.MethodGet, path, ""))
		resp, err := inv.Response()
		require.NoError(t, err)
		if path == "/headers" {
			tea := make([]byte, 3)
			_, err = io.ReadFull(resp.Body, tea)
			require.NoError(t, err)
			require.Equal(t, "tea", string(tea))
		}
		require.False(t, inv.Ended())
		f.open("after")
		require.NoError(t, inv.Wait())
		f.mu.Lock()
		delete(f.gates, "after")
		f.mu.Unlock()
	}
}

func TestShutdownRunsBeforeTheEnd(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "bye")
	f := start(t, "SHUTDOWN="+file)
	f.do(t, http.MethodGet, "/silent", "")
	require.NoError(t, f.Close())
	require.FileExists(t, file)
}

func TestAProcessThatEndsFailsItsInvocation(t *testing.T) {
	t.Parallel()
	f := start(t)
	_, err := f.Invoke(event(t, http.MethodGet, "/exit", "")).Response()
	require.EqualError(t, err, "Runtime.ExitError: the process ended: exit status 7")
}

func TestATimeoutEndsTheProcess(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.Timeout = time.Second
	inv := f.Invoke(event(t, http.MethodGet, "/hang", ""))
	resp, err := inv.Response()
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.Equal(t, "waiting\n", string(body))
	require.EqualError(t, err, "Sandbox.Timedout: Task timed out after 1.00 seconds")

	require.Eventually(t, func() bool { return f.Start(binary) == nil }, 10*time.Second, 5*time.Millisecond, "another one can be started")
	require.Equal(t, http.StatusOK, f.do(t, http.MethodGet, "/silent", "").StatusCode)
}

func event(t *testing.T, method, target, body string) []byte {
	t.Helper()
	e, err := runtimetest.Event(httptest.NewRequest(method, target, strings.NewReader(body)))
	require.NoError(t, err)
	return e
}

// logs keeps what the function prints.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
