package runtimetest_test

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/lambae/lambae/internal/lambdahttp/runtimetest"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// binary is the test function, built once for all tests.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "runtimetest")
	if err == nil {
		binary, err = runtimetest.BuildIn(dir, "./testdata/function")
	}
	if err != nil {
		log.Fatal(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

func start(t *testing.T, env ...string) *runtimetest.Runtime {
	t.Helper()
	r := runtimetest.New(t)
	require.NoError(t, r.Start(binary, env...))
	return r
}

func TestABufferedAnswerIsAResponseToo(t *testing.T) {
	t.Parallel()
	r := start(t)
	resp, err := r.Invoke([]byte(`{"answer":{"statusCode":201,"headers":{"content-type":"a/b"},"cookies":["c=1"],"body":"aGk=","isBase64Encoded":true}}`)).Response()
	require.NoError(t, err)
	require.Equal(t, 201, resp.StatusCode)
	require.Equal(t, http.Header{"Content-Type": {"a/b"}, "Set-Cookie": {"c=1"}}, resp.Header)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "hi", string(body))

	_, err = r.Invoke([]byte(`{"answer":{"statusCode":200,"body":"%","isBase64Encoded":true}}`)).Response()
	require.EqualError(t, err, "Runtime.InvalidResponse: the body is not base64")
}

func TestAnAnswerThatIsNoHTTPIsAPayload(t *testing.T) {
	t.Parallel()
	r := start(t)
	inv := r.Invoke([]byte(`{"answer":{"batchItemFailures":[]}}`))
	payload, err := inv.Payload()
	require.NoError(t, err)
	require.JSONEq(t, `{"batchItemFailures":[]}`, string(payload))
	_, err = inv.Response()
	require.EqualError(t, err, "the function's answer is not that of an HTTP request")
}

func TestInvocationsRunOneAfterTheOther(t *testing.T) {
	t.Parallel()
	r := start(t)
	var all []*runtimetest.Invocation
	for i := range 20 {
		answer, _ := json.Marshal(map[string]any{"answer": i})
		all = append(all, r.Invoke(answer))
	}
	for i, inv := range all {
		payload, err := inv.Payload()
		require.NoError(t, err)
		var got int
		require.NoError(t, json.Unmarshal(payload, &got))
		require.Equal(t, i, got)
		require.True(t, inv.Ended())
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	t.Run("an error of the function", func(t *testing.T) {
		t.Parallel()
		r := start(t)
		err := r.Invoke([]byte(`{"fail":"no"}`)).Wait()
		var failure *runtimetest.FunctionError
		require.ErrorAs(t, err, &failure)
		require.Equal(t, runtimetest.FunctionError{Type: "errorString", Message: `"no"`}, *failure)
		require.NoError(t, r.Invoke([]byte(`{}`)).Wait(), "the process goes on")
	})
	t.Run("a process that ends, with all that waits for it", func(t *testing.T) {
		t.Parallel()
		r := start(t)
		running, waiting := r.Invoke([]byte(`{"exit":1}`)), r.Invoke([]byte(`{}`))
		for _, inv := range []*runtimetest.Invocation{running, waiting} {
			require.EqualError(t, inv.Wait(), "Runtime.ExitError: the process ended: exit status 9")
		}
		require.EqualError(t, r.Invoke([]byte(`{}`)).Wait(), "Runtime.NotRunning: no function runs; start one first")
		require.NoError(t, r.Start(binary))
		require.NoError(t, r.Invoke([]byte(`{}`)).Wait())
	})
	t.Run("a start that fails", func(t *testing.T) {
		t.Parallel()
		err := start(t, "FAIL_AT_START=1").Invoke([]byte(`{}`)).Wait()
		require.Error(t, err) // the process may have ended before or after Invoke
		require.Regexp(t, `exit status 3|no function runs`, err.Error())
	})
	t.Run("a start that reports why", func(t *testing.T) {
		t.Parallel()
		r := start(t, "HOLD=1")
		inv := r.Invoke([]byte(`{}`))
		post(t, r, "/2018-06-01/runtime/init/error", `{"errorType":"Config","errorMessage":"no table"}`, http.StatusAccepted)
		require.NoError(t, r.Close()) // it ends, as such a process does
		require.EqualError(t, inv.Wait(), "Config: no table")
	})
	t.Run("an event that is too large", func(t *testing.T) {
		t.Parallel()
		err := start(t).Invoke(make([]byte, 6<<20+1)).Wait()
		require.EqualError(t, err, "RequestTooLarge: the event has 6291457 bytes, Lambda takes 6291456")
	})
	t.Run("a second process", func(t *testing.T) {
		t.Parallel()
		require.EqualError(t, start(t).Start(binary), "a process runs already")
	})
	t.Run("no binary", func(t *testing.T) {
		t.Parallel()
		require.ErrorContains(t, runtimetest.New(t).Start("/no/such/file"), "start function: ")
	})
	t.Run("after the close", func(t *testing.T) {
		t.Parallel()
		r := start(t)
		require.NoError(t, r.Close())
		require.EqualError(t, r.Start(binary), "runtime API is closed")
	})
}

// The API as a runtime that keeps to no rule would use it.
func TestAnswersThatBreakTheProtocol(t *testing.T) {
	t.Parallel()
	const streaming = "application/vnd.awslambda.http-integration-response"
	for _, tt := range []struct{ name, contentType, body, err string }{
		{"no separator", streaming, `{"statusCode":200}`, "Runtime.InvalidResponse: the streamed answer ended before its body"},
		{"no status", streaming, "{}\x00\x00\x00\x00\x00\x00\x00\x00x", "Runtime.InvalidResponse: the streamed answer does not begin with its status and headers"},
		{"whole", streaming, "{\"statusCode\":200}\x00\x00\x00\x00\x00\x00\x00\x00x", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := start(t, "HOLD=1")
			inv := r.Invoke([]byte(`{}`))
			// The process holds its own call of next back; this one takes its place.
			resp, err := http.Get("http://" + r.Addr() + "/2018-06-01/runtime/invocation/next")
			require.NoError(t, err)
			resp.Body.Close()
			id := resp.Header.Get("Lambda-Runtime-Aws-Request-Id")
			require.Equal(t, inv.ID, id)
			post(t, r, "/2018-06-01/runtime/invocation/other/response", tt.body, http.StatusBadRequest)
			post(t, r, "/2018-06-01/runtime/invocation/other/error", tt.body, http.StatusBadRequest)
			req, err := http.NewRequest(http.MethodPost, "http://"+r.Addr()+"/2018-06-01/runtime/invocation/"+id+"/response", strings.NewReader(tt.body))
			require.NoError(t, err)
			req.Header.Set("Content-Type", tt.contentType)
			resp, err = http.DefaultClient.Do(req)
			require.NoError(t, err)
			resp.Body.Close()
			if tt.err == "" {
				require.NoError(t, inv.Wait())
			} else {
				require.EqualError(t, inv.Wait(), tt.err)
			}
		})
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
}

func post(t *testing.T, r *runtimetest.Runtime, path, body string, status int) {
	t.Helper()
	resp, err := http.Post("http://"+r.Addr()+path, "application/json", strings.NewReader(body))
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, status, resp.StatusCode)
}

func TestEvent(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, contentType, body string
		sent                    string
		base64                  bool
	}{
		{"JSON is text", "application/json; charset=utf-8", `{"a":"é"}`, `{"a":"é"}`, false},
		{"text is text", "text/csv", "a,b", "a,b", false},
		{"all else is base64", "application/x-ndjson", "{}", "e30=", true},
		{"an unknown type too", "", "{}", "e30=", true},
		{"nothing is nothing", "application/octet-stream", "", "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			req := httptest.NewRequest(http.MethodPut, "https://id.example/a%2Fb?x=1&x=2", strings.NewReader(tt.body))
			req.Header.Set("Content-Type", tt.contentType)
			req.Header.Add("Cookie", "a=1")
			req.Header.Add("Cookie", "b=2")
			raw, err := runtimetest.Event(req)
			require.NoError(t, err)
			var e events.LambdaFunctionURLRequest
			require.NoError(t, json.Unmarshal(raw, &e))
			require.Equal(t, tt.sent, e.Body)
			require.Equal(t, tt.base64, e.IsBase64Encoded)
			require.Equal(t, "/a%2Fb", e.RawPath)
			require.Equal(t, "x=1&x=2", e.RawQueryString)
			require.Equal(t, map[string]string{"x": "1,2"}, e.QueryStringParameters)
			require.Equal(t, []string{"a=1", "b=2"}, e.Cookies)
			require.Equal(t, "a=1; b=2", e.Headers["cookie"])
			require.Equal(t, "id.example", e.Headers["host"])
			require.Equal(t, "PUT", e.RequestContext.HTTP.Method)
			require.Equal(t, "192.0.2.1", e.RequestContext.HTTP.SourceIP)
			require.WithinDuration(t, time.Now(), time.UnixMilli(e.RequestContext.TimeEpoch), time.Minute)
		})
	}
}

func TestAClientThatGivesUpDoesNotWait(t *testing.T) {
	t.Parallel()
	r := start(t, "HOLD=1")
	req := httptest.NewRequest(http.MethodGet, "/", nil)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := r.RoundTrip(req.WithContext(ctx))
	require.ErrorIs(t, err, ctx.Err())
}
