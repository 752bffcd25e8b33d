package claude

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

type addArgs struct {
	A int `json:"a" jsonschema:"the first number"`
	B int `json:"b"`
}

type sum struct {
	Total int `json:"total"`
}

func calculator() *LocalMCPServer {
	return NewMCPServer("calc", "1.2.3",
		Tool("add", "adds two numbers", func(_ context.Context, in addArgs) (sum, error) {
			return sum{in.A + in.B}, nil
		}),
		Tool("image", "draws", func(context.Context, struct{}) (*ToolResult, error) {
			return &ToolResult{Content: []mcp.Content{TextBlock("see:"), ImageBlock("image/png", []byte{1, 2, 3})}}, nil
		}),
		Tool("broken", "fails", func(context.Context, struct{}) (string, error) {
			return "", errors.New("out of ink")
		}),
	)
}

// Spec: can_use_tool; hook_callback; mcp_message; NewMCPServer and Tool
func TestCallbacksAnswerClaude(t *testing.T) {
	t.Parallel()
	opts := childOptions(t, "ask", "CHILD_DIALOG=1")
	opts.MCPServers = map[string]MCPServer{"calc": calculator()}
	opts.CanUseTool = func(_ context.Context, req PermissionRequest) (PermissionResult, error) {
		switch req.ToolName {
		case "Bash":
			if req.Title != "List files" || gjson.GetBytes(req.Raw, "novel").Int() != 1 || req.RequestID != "tool" {
				return Deny("the request lost something"), nil
			}
			return Allow(), nil
		case "Write":
			return Deny("read-only"), nil
		}
		return PermissionResult{}, errors.New("no opinion")
	}
	var hooked HookInput
	opts.Hooks = map[HookEvent][]HookMatcher{
		HookPreToolUse: {{Matcher: "Bash", Hooks: []HookFunc{func(_ context.Context, in HookInput) (HookOutput, error) {
			hooked = in
			return HookOutput{Specific: &HookSpecific{PermissionDecision: "allow"}}, nil
		}}}},
		HookStop: {{Hooks: []HookFunc{func(context.Context, HookInput) (HookOutput, error) {
			return HookOutput{Async: true}, nil
		}}}},
	}
	opts.Dialog = func(_ context.Context, req DialogRequest) (DialogResult, error) {
		return DialogResult{Behavior: "completed", Result: gjson.GetBytes(req.Payload, "of").Str + " blue"}, nil
	}
	opts.DialogKinds = []string{"colour"}

	result, err := Query(t.Context(), Text("go"), opts).Result()
	require.NoError(t, err)
	for name, want := range map[string]string{
		"tool":        `{"subtype":"success","request_id":"tool","response":{"behavior":"allow","updatedInput":{"command":"ls"},"toolUseID":"t1"}}`,
		"denied":      `{"subtype":"success","request_id":"denied","response":{"behavior":"deny","message":"read-only","toolUseID":"t2"}}`,
		"failed":      `{"subtype":"error","request_id":"failed","error":"no opinion"}`,
		"hook":        `{"subtype":"success","request_id":"hook","response":{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}}`,
		"stop":        `{"subtype":"success","request_id":"stop","response":{"async":true}}`,
		"nohook":      `{"subtype":"error","request_id":"nohook","error":"no hook has id \"hook_99\""}`,
		"elicit":      `{"subtype":"success","request_id":"elicit","response":{"action":"decline"}}`,
		"dialog":      `{"subtype":"success","request_id":"dialog","response":{"behavior":"completed","result":"sky blue"}}`,
		"unknown":     `{"subtype":"error","request_id":"unknown","error":"unsupported control request: teleport","error_code":"unsupported_request"}`,
		"initialized": `{"subtype":"success","request_id":"initialized","response":{"mcp_response":{"jsonrpc":"2.0","result":{},"id":0}}}`,
	} {
		require.JSONEq(t, want, gjson.Get(result.Result, name).Raw, name)
	}
	require.Equal(t, "Bash", hooked.ToolName)
	require.Equal(t, "t1", hooked.ToolUseID)

	answer := func(name string) gjson.Result { return gjson.Get(result.Result, name+".response.mcp_response") }
	require.Equal(t, "calc", answer("initialize").Get("result.serverInfo.name").Str)
	tools := answer("tools").Get("result.tools")
	require.Len(t, tools.Array(), 3)
	require.Equal(t, "the first number", tools.Get(`#(name=="add").inputSchema.properties.a.description`).Str)
	require.JSONEq(t, `["a","b"]`, tools.Get(`#(name=="add").inputSchema.required`).Raw)
	require.JSONEq(t, `{"total":42}`, answer("add").Get("result.structuredContent").Raw)
	require.Equal(t, "AQID", answer("image").Get("result.content.1.data").Str)
	require.Equal(t, "four", answer("image").Get("id").Str)
	require.True(t, answer("broken").Get("result.isError").Bool())
	require.Equal(t, "out of ink", answer("broken").Get("result.content.0.text").Str)
	require.True(t, answer("bad").Get("result.isError").Bool() || answer("bad").Get("error").Exists(), "input is validated")
	require.Contains(t, gjson.Get(result.Result, "noserver.error").Str, "Options.MCPServers")
}

// Spec: NewMCPServer and Tool
func TestToolOptionsReachTheSchema(t *testing.T) {
	t.Parallel()
	tool := Tool("find", "finds", func(context.Context, struct{}) (string, error) { return "", nil })
	tool.SearchHint, tool.AlwaysLoad = "needle", true
	server := NewMCPServer("s", "1", tool)
	server.Instructions = "be nice"
	clientEnd, serverEnd := mcp.NewInMemoryTransports()
	session, err := server.MCP().Connect(t.Context(), serverEnd, nil)
	require.NoError(t, err)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "c", Version: "1"}, nil).Connect(t.Context(), clientEnd, nil)
	require.NoError(t, err)
	defer session.Wait()
	defer client.Close()
	require.Equal(t, "be nice", client.InitializeResult().Instructions)
	list, err := client.ListTools(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, "needle", list.Tools[0].Meta["anthropic/searchHint"])
	require.Equal(t, true, list.Tools[0].Meta["anthropic/alwaysLoad"])
}

// Spec: NewMCPServer and Tool
func TestOneServerServesManyQueries(t *testing.T) {
	t.Parallel()
	server := calculator()
	for range 4 {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			opts := childOptions(t, "ask")
			opts.MCPServers = map[string]MCPServer{"calc": server}
			result, err := Query(t.Context(), Text("go"), opts).Result()
			require.NoError(t, err)
			require.Equal(t, int64(42), gjson.Get(result.Result, "add.response.mcp_response.result.structuredContent.total").Int())
		})
	}
}

// Spec: NewMCPServer and Tool
func TestToolThatCannotBeDescribedPanicsAtOnce(t *testing.T) {
	t.Parallel()
	require.Panics(t, func() {
		NewMCPServer("s", "1", Tool("bad", "", func(context.Context, chan int) (string, error) { return "", nil }))
	})
}

// Spec: can_use_tool
func TestWithdrawnRequestCancelsItsCallback(t *testing.T) {
	t.Parallel()
	opts := childOptions(t, "withdraw")
	cancelled := make(chan error, 1)
	opts.CanUseTool = func(ctx context.Context, _ PermissionRequest) (PermissionResult, error) {
		<-ctx.Done()
		cancelled <- context.Cause(ctx)
		return PermissionResult{}, ctx.Err()
	}
	result, err := Query(t.Context(), Text("go"), opts).Result()
	require.NoError(t, err)
	require.Equal(t, "withdrawn", result.Result)
	require.ErrorIs(t, <-cancelled, errWithdrawn)
}

// Spec: Close; can_use_tool
func TestClosingCancelsCallbacks(t *testing.T) {
	t.Parallel()
	opts := childOptions(t, "ask")
	entered, left := make(chan struct{}), make(chan struct{})
	var first sync.Once // the child goes on asking while it is told to end
	opts.CanUseTool = func(ctx context.Context, _ PermissionRequest) (PermissionResult, error) {
		first.Do(func() {
			close(entered)
			<-ctx.Done()
			close(left)
		})
		return PermissionResult{}, ctx.Err()
	}
	st := Query(t.Context(), Text("go"), opts)
	<-entered
	st.Close()
	<-left
	<-st.Done()
}
