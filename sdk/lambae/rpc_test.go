package lambae_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

func TestARemoteSandboxLives(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{Images: []string{"img"}})
	session := open(t, server)
	_, err := session.ExecRemoteSandbox(t.Context(), "true")
	require.Equal(t, lambae.CodeSandboxNotRunning, rpcError(t, err).Code)
	_, err = session.StartRemoteSandbox(t.Context(), "other")
	require.Equal(t, lambae.CodeSandboxImageNotAllowed, rpcError(t, err).Code)

	started, err := session.StartRemoteSandbox(t.Context(), "img")
	require.NoError(t, err)
	require.Equal(t, "img", started.Image)
	require.NotNil(t, started.StartedAt)
	_, err = session.StartRemoteSandbox(t.Context(), "img")
	require.ErrorContains(t, err, "session.startRemoteSandbox on "+session.ID+": a remote sandbox is already running")
	result, err := session.ExecRemoteSandbox(t.Context(), "echo hi")
	require.NoError(t, err)
	require.Equal(t, &lambae.ExecResult{Stdout: "echo hi\n"}, result)
	stopped, err := session.StopRemoteSandbox(t.Context())
	require.NoError(t, err)
	require.Equal(t, started.SandboxID, stopped.SandboxID)

	var last lambae.SandboxPayload
	events := all(t, session)
	require.NoError(t, json.Unmarshal(events[len(events)-1].Payload, &last))
	require.Equal(t, "explicit", last.Reason)
}

// Every call, as it is sent. A nil error is what the answer {"id":1,"result":{}} gives.
func TestCallsAreSentAsTheProtocolWantsThem(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call   func(context.Context, *lambae.Session) error
		method string
		params string
	}{
		"register": {func(ctx context.Context, s *lambae.Session) error { return s.RegisterDriver(ctx) },
			"session.registerDriver", `{}`},
		"unsubscribe": {func(ctx context.Context, s *lambae.Session) error { return s.Unsubscribe(ctx) },
			"session.unsubscribe", `{}`},
		"update tools": {func(ctx context.Context, s *lambae.Session) error { return s.UpdateClientTools(ctx, nil) },
			"session.updateClientTools", `{"tools":[]}`},
		"start": {func(ctx context.Context, s *lambae.Session) error {
			_, err := s.StartRemoteSandbox(ctx, "i<1>")
			return err
		},
			"session.startRemoteSandbox", `{"image":"i<1>"}`},
		"stop": {func(ctx context.Context, s *lambae.Session) error { _, err := s.StopRemoteSandbox(ctx); return err },
			"session.stopRemoteSandbox", `{}`},
		"exec": {func(ctx context.Context, s *lambae.Session) error {
			_, err := s.ExecRemoteSandbox(ctx, "a && b")
			return err
		},
			"session.execRemoteSandbox", `{"command":"a && b"}`},
		"cancel": {func(ctx context.Context, s *lambae.Session) error {
			_, err := s.CancelSubagent(ctx, "sba_1")
			return err
		},
			"session.cancelSubagent", `{"subagent_id":"sba_1"}`},
		"report a sandbox": {func(ctx context.Context, s *lambae.Session) error {
			return s.ReportLocalSandbox(ctx, lambae.LocalSandbox{State: lambae.SandboxError, Image: "i", ContainerID: "c", Detail: "d"})
		}, "session.reportLocalSandbox", `{"container_id":"c","detail":"d","image":"i","state":"error"}`},
		"report the bare machine": {func(ctx context.Context, s *lambae.Session) error {
			return s.ReportLocalSandbox(ctx, lambae.LocalSandbox{State: lambae.SandboxRunning, Unsandboxed: true})
		}, "session.reportLocalSandbox", `{"container_id":null,"detail":null,"image":null,"state":"running","unsandboxed":true}`},
		"report a subagent": {func(ctx context.Context, s *lambae.Session) error {
			return s.ReportLocalSubagent(ctx, lambae.LocalSubagent{State: lambae.SubagentStart, SubagentID: "sba_1", Harness: "h", Model: "m"})
		}, "session.reportLocalSubagent", `{"detail":null,"harness":"h","model":"m","reason":null,"state":"start","subagent_id":"sba_1"}`},
		"report a failed subagent": {func(ctx context.Context, s *lambae.Session) error {
			return s.ReportLocalSubagent(ctx, lambae.LocalSubagent{
				State: lambae.SubagentFailed, SubagentID: "sba_1", Harness: "h", Model: "m", Reason: "nonzero_exit", ExitCode: new(2)})
		}, "session.reportLocalSubagent", `{"detail":null,"exit_code":2,"harness":"h","model":"m","reason":"nonzero_exit","state":"failed","subagent_id":"sba_1"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			record := &recorder{response: "\n" + `{"jsonrpc":"2.0","method":"session.event","params":{}}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n"}
			session, err := answering(t, record.ServeHTTP).Session("ses_a", "bae_ses_k")
			require.NoError(t, err)
			require.NoError(t, test.call(t.Context(), session))
			require.Equal(t, []string{`{"jsonrpc":"2.0","id":1,"method":"` + test.method + `","params":` + test.params + `}`}, record.bodies)

			refusing := &recorder{response: `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"session is closed, not open"}}`}
			session, err = answering(t, refusing.ServeHTTP).Session("ses_a", "bae_ses_k")
			require.NoError(t, err)
			refused := rpcError(t, test.call(t.Context(), session))
			require.Equal(t, &lambae.RPCError{Code: lambae.CodeSession, Message: "session is closed, not open"}, refused)
		})
	}
}

func TestOutputOfACommandIsPassedOn(t *testing.T) {
	t.Parallel()
	record := &recorder{response: `{"jsonrpc":"2.0","method":"session.sandbox.output","params":{"session_id":"ses_a","stream":"stdout","text":"one\n"}}
{"jsonrpc":"2.0","method":"session.event","params":{"stream":"stdout","text":"no output"}}
{"jsonrpc":"2.0","method":"session.sandbox.output","params":{"session_id":"ses_a","stream":"stderr","text":"two"}}
{"jsonrpc":"2.0","id":1,"result":{"stdout":"one\n","stderr":"two","exit_code":3,"truncated":true}}
`}
	session, err := answering(t, record.ServeHTTP).Session("ses_a", "bae_ses_k")
	require.NoError(t, err)
	var pieces []string
	result, err := session.WatchRemoteSandbox(t.Context(), "make", func(stream, text string) { pieces = append(pieces, stream+": "+text) })
	require.NoError(t, err)
	require.Equal(t, []string{"stdout: one\n", "stderr: two"}, pieces)
	require.Equal(t, &lambae.ExecResult{Stdout: "one\n", Stderr: "two", ExitCode: 3, Truncated: true}, result)
	require.Equal(t, []string{`{"jsonrpc":"2.0","id":1,"method":"session.execRemoteSandbox","params":{"command":"make","stream":true}}`}, record.bodies)
}

func TestCallsAreRepeatedOnlyWhenThatIsHarmless(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		call  func(context.Context, *lambae.Session) error
		tries int
	}{
		"registering is": {func(ctx context.Context, s *lambae.Session) error { return s.RegisterDriver(ctx) }, 4},
		"running a command is not": {func(ctx context.Context, s *lambae.Session) error {
			_, err := s.ExecRemoteSandbox(ctx, "x")
			return err
		}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tries := 0
			session, err := answering(t, func(w http.ResponseWriter, _ *http.Request) {
				tries++
				_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"res`)
			}).Session("ses_a", "bae_ses_k")
			require.NoError(t, err)
			require.ErrorContains(t, test.call(t.Context(), session), "the answer was cut off")
			require.Equal(t, test.tries, tries)
		})
	}
}

func TestPayloadsAreTyped(t *testing.T) {
	t.Parallel()
	for kind, test := range map[lambae.EventType]struct {
		payload string
		want    any
	}{
		lambae.EventClientMessage: {`{"role":"user","content":"hi"}`, new(lambae.UserMessage("hi"))},
		lambae.EventToolCall: {`{"id":"t1","name":"x","input":{"a":1},"dispatch":"mcp","server_name":null}`,
			&lambae.ToolCallPayload{ToolUse: lambae.ToolUse{ID: "t1", Name: "x", Input: []byte(`{"a":1}`), Dispatch: "mcp"}}},
		lambae.EventToolResult: {`{"tool_use_id":"t1","dispatch":"client","is_error":true,"content":"no"}`,
			&lambae.ToolResultPayload{ToolResult: lambae.ToolResult{ToolUseID: "t1", Content: lambae.Text("no"), IsError: true}, Dispatch: "client"}},
		lambae.EventProviderRequest: {`{"attempt":1,"kind":"fallback","provider":"p","base_url":"u","model":"m","max_tokens":9,"messages":[],"tools":[{"name":"a"}]}`,
			&lambae.ProviderRequestPayload{Attempt: 1, Kind: "fallback", Provider: "p", BaseURL: "u", Model: "m", MaxTokens: 9,
				Messages: []lambae.Message{}, Tools: []json.RawMessage{json.RawMessage(`{"name":"a"}`)}}},
		lambae.EventProviderResponse: {`{"attempt":0,"kind":"primary","provider":"p","ok":false,"status":null,"error":"e","body":null}`,
			&lambae.ProviderResponsePayload{Kind: "primary", Provider: "p", Error: "e", Body: json.RawMessage("null")}},
		lambae.EventSandboxResponse: {`{"sandbox_id":"sbx_1","ok":false,"result":{"stdout":"a","stderr":"b","exit_code":3}}`,
			&lambae.SandboxResponsePayload{SandboxID: new("sbx_1"), Result: &lambae.ExecResult{Stdout: "a", Stderr: "b", ExitCode: 3}}},
		lambae.EventSessionOpen: {`{"client_version":null,"tools":["a"],"sandbox_tools":[],"subagent_tools":[]}`,
			&lambae.OpenPayload{Tools: []string{"a"}, SandboxTools: []string{}, SubagentTools: []string{}}},
		lambae.EventSandboxError: {`{"image":"i","sandbox_id":"sbx_1","phase":"exec","detail":"d","dispatch":"remote"}`,
			&lambae.SandboxPayload{Image: new("i"), SandboxID: "sbx_1", Phase: "exec", Detail: new("d"), Dispatch: "remote"}},
		lambae.EventSubagentFailed: {`{"dispatch":"remote","subagent_id":"sba_1","harness":"h","model":"m","detail":null,"reason":"timeout","exit_code":null}`,
			&lambae.SubagentPayload{Dispatch: "remote", SubagentID: "sba_1", Harness: "h", Model: "m", Reason: new("timeout")}},
		lambae.EventSessionError: {`{"reason":"driver_turn_abandoned","owner_client_key_id":"key_1"}`, &lambae.ErrorPayload{Reason: "driver_turn_abandoned"}},
		lambae.EventSessionClose: {`{"reason":"client_close"}`, &lambae.ClosePayload{Reason: "client_close"}},
		"session.news":           {`[1]`, json.RawMessage(`[1]`)},
	} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			got, err := lambae.Event{Type: kind, Payload: json.RawMessage(test.payload)}.Decode()
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
	_, err := lambae.Event{ID: "evt_1", Type: lambae.EventToolCall, Payload: json.RawMessage(`[]`)}.Decode()
	require.ErrorContains(t, err, "payload of tool.call evt_1")
}
