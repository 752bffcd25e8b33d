package main_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"

	"github.com/lambae/lambae/internal/lambdahttp/runtimetest"
	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

// send says something in the open session and returns the last line of the answer.
func (d *deployment) send(text string) string {
	d.t.Helper()
	req := httptest.NewRequest(http.MethodPost, "/api/v1/sessions/"+d.values["session_id"]+"/rpc",
		strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"session.sendMessage","params":{"message":{"role":"user","content":"`+text+`"}}}`))
	req.Header.Set("Authorization", "Bearer "+d.values["session_key"])
	req.Header.Set("Content-Type", "application/json")
	event, err := runtimetest.Event(req)
	require.NoError(d.t, err)
	call := d.runtime.Invoke(event)
	resp, err := call.Response()
	require.NoError(d.t, err)
	lines := strings.Split(strings.TrimSpace(body(d.t, resp)), "\n")
	require.NoError(d.t, call.Wait())
	return lines[len(lines)-1]
}

// The function's limit leaves a second here, since a turn is closed half a minute
// before it.
func TestATurnThatReachesTheTimeLimitIsClosedAndTheNextOneRuns(t *testing.T) {
	t.Parallel()
	d := deploy(t, echoConfig)
	d.open()
	d.runtime.Timeout = 31 * time.Second
	answer := d.send("/sleep 3s")
	require.Equal(t, int64(-32000), gjson.Get(answer, "error.code").Int(), answer)
	require.Contains(t, answer, "time limit")
	d.runtime.Timeout = 15 * time.Minute
	require.Contains(t, d.send("still there?"), "You said: still there?")
	events := body(t, d.answer("events.json"))
	require.Equal(t, int64(1), gjson.Get(events, `items.#(payload.reason=="driver_turn_abandoned")#|#`).Int(), events)
}

func TestASecretThatCannotBeReadFailsTheAttemptAndIsNamed(t *testing.T) {
	t.Parallel()
	for refusal, says := range map[string]string{
		`{"__type":"ResourceNotFoundException","Message":"Secrets Manager can't find the specified secret."}`:                      "can't find",
		`{"__type":"AccessDeniedException","Message":"the role is not authorized to perform: secretsmanager:GetSecretValue on x"}`: "secretsmanager:GetSecretValue",
	} {
		t.Run(says, func(t *testing.T) {
			t.Parallel()
			store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusBadRequest)
				_, _ = w.Write([]byte(refusal))
			}))
			t.Cleanup(store.Close)
			d := deploy(t, `
[[providers.entries]]
name = "main"
provider = "anthropic"
model = "m"
auth_token = "${secretsmanager:lambae/no-such-secret}"
`, "AWS_ENDPOINT_URL_SECRETSMANAGER="+store.URL)
			d.open()
			d.send("hello")
			response := gjson.Get(body(t, d.answer("events.json")), `items.#(event_type=="provider.response").payload`)
			require.Equal(t, "false", response.Get("ok").Raw)
			require.Contains(t, response.Get("error").String(), "${secretsmanager:lambae/no-such-secret}: read from Secrets Manager")
			require.Contains(t, response.Get("error").String(), says)
		})
	}
}

// Its caller learns nothing of the table, the log says what to allow.
func TestAMissingPermissionIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	target, err := url.Parse(ministack.Endpoint(t))
	require.NoError(t, err)
	proxy := httputil.NewSingleHostReverseProxy(target)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".PutItem") {
			proxy.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"__type":"com.amazon.coral.service#AccessDeniedException","Message":"not authorized to perform: dynamodb:PutItem"}`))
	}))
	t.Cleanup(srv.Close)
	d := deploy(t, echoConfig, "AWS_ENDPOINT_URL="+srv.URL)
	resp := d.answer("open.json")
	require.Equal(t, http.StatusInternalServerError, resp.StatusCode)
	require.NotContains(t, body(t, resp), "dynamodb")
	require.Eventually(t, func() bool {
		return strings.Contains(d.logs.String(), "a permission on the table is missing: allow the role dynamodb:PutItem")
	}, 10*time.Second, 10*time.Millisecond)
}
