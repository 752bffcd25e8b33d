package app_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whatever is posted to the rpc endpoint, the answer is never a server error or
// a panic, every line of it is JSON, and it comes.
func FuzzRPC(f *testing.F) {
	for _, seed := range []string{
		``, `{`, `[]`, `null`, `"x"`, `5`, `{}`, `{"jsonrpc":"2.0"}`, "\xff\xfe{}", `{"jsonrpc":"2.0","id":null,"method":"nope"}`,
		`{"jsonrpc":"2.0","id":{"a":[1]},"method":"session.registerDriver","params":[]}`,
		`{"jsonrpc":"2.0","id":1,"method":"session.sendMessage","params":{"message":{"role":"user","content":"hi"},"stream":true}}`,
		`{"jsonrpc":"2.0","method":"session.sendMessage","params":{"message":{"content":[{"type":"text","text":"\u2028"}]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session.sendMessage","params":{"message":{"content":[{"type":"tool_result","tool_use_id":"x"}]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session.subscribe","params":{"since_event_id":"evt_0"}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session.updateClientTools","params":{"tools":[{"name":"a","input_schema":{"x":1e400}}]}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session.reportLocalSandbox","params":{"state":"running","image":"i","detail":{"deep":[[[[]]]]}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"session.reportLocalSubagent","params":{"state":"failed","subagent_id":"s","harness":"h","model":"m","exit_code":99999999999999999999}}`,
		strings.Repeat(`{"a":`, 300) + `1` + strings.Repeat(`}`, 300),
	} {
		f.Add([]byte(seed))
	}
	s := start(f, setup{turn: time.Second})
	_, key := s.key(s.profile(nil))
	handler := s.app.ClientHandler()
	f.Fuzz(func(t *testing.T, body []byte) {
		s := s.in(t)
		opened := s.call("POST", s.url+"/api/v1/sessions", key, `{"tools":[{"name":"a"}]}`).json(t)
		d := &driver{server: s, id: opened["session_id"].(string), key: opened["session_key"].(string)}
		d.result("session.registerDriver", `{}`)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if bytes.Contains(body, []byte("subscribe")) {
			time.AfterFunc(50*time.Millisecond, cancel) // a subscription ends with its client
		}
		req := httptest.NewRequestWithContext(ctx, "POST", "/api/v1/sessions/"+d.id+"/rpc", bytes.NewReader(body))
		req.Header.Set("Authorization", "Bearer "+d.key)
		rec := httptest.NewRecorder()
		handler.ServeHTTP(rec, req)
		require.NotErrorIs(t, ctx.Err(), context.DeadlineExceeded, "the call hangs")
		require.Less(t, rec.Code, http.StatusInternalServerError, rec.Body.String())
		for line := range bytes.Lines(rec.Body.Bytes()) {
			if len(bytes.TrimSpace(line)) > 0 {
				require.True(t, json.Valid(line), "%s", line)
			}
		}
	})
}
