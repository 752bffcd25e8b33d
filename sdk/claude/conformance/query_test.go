//go:build claude

package conformance

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

type pair struct {
	A int `json:"a"`
	B int `json:"b"`
}

func adder() *claude.LocalMCPServer {
	return claude.NewMCPServer("calc", "1.0.0", claude.Tool("add", "adds two numbers",
		func(_ context.Context, in pair) (map[string]int, error) {
			return map[string]int{"sum": in.A + in.B}, nil
		}))
}

// Spec: Query; NewMCPServer and Tool; can_use_tool; hook_callback
// Spec: mcp_message; agreement with the binary
func TestToolCallThroughInProcessServerWithPermissionAndHooks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	opts := p.options(t)
	opts.MCPServers = map[string]claude.MCPServer{"calc": adder()}
	var mu sync.Mutex
	var order []string
	note := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, what)
	}
	opts.CanUseTool = func(_ context.Context, req claude.PermissionRequest) (claude.PermissionResult, error) {
		note("permission " + req.ToolName + " " + req.MCPServer.Source)
		return claude.Allow(), nil
	}
	hook := func(_ context.Context, in claude.HookInput) (claude.HookOutput, error) {
		note(strings.TrimSpace(string(in.Event) + " " + in.ToolName))
		return claude.HookOutput{}, nil
	}
	opts.Hooks = map[claude.HookEvent][]claude.HookMatcher{}
	for _, event := range claude.HookEvents() {
		switch event {
		case claude.HookMessageDisplay, claude.HookInstructionsLoaded, claude.HookConfigChange, claude.HookPostToolBatch:
		default:
			opts.Hooks[event] = []claude.HookMatcher{{Hooks: []claude.HookFunc{hook}}}
		}
	}
	prompt := script(step{Tool: "mcp__calc__add", In: json.RawMessage(`{"a":2,"b":40}`)}, step{Text: "it is 42"})
	all, result := run(t, claude.Query(t.Context(), claude.Text(prompt), opts))

	init := initOf(t, all)
	require.Contains(t, init.Tools, "mcp__calc__add")
	require.Equal(t, []claude.MCPServerInit{{Name: "calc", Status: "connected", Source: "sdk"}}, init.MCPServers)
	var toolResult string
	for _, m := range all {
		if echo, ok := m.(*claude.UserEcho); ok {
			blocks, err := echo.Content().Blocks()
			require.NoError(t, err)
			toolResult += blocks[0].ResultText() + string(blocks[0].Content)
		}
	}
	require.Contains(t, toolResult, "42")
	require.Equal(t, "it is 42", result.Result)
	require.Equal(t, claude.ResultSuccess, result.Subtype)
	// PermissionRequest hooks and the permission callback are asked at the same
	// time, so their order is open; that of the others is not.
	order = slices.DeleteFunc(order, func(what string) bool { return strings.HasPrefix(what, "PermissionRequest") })
	require.Equal(t, []string{
		"UserPromptSubmit", "PreToolUse mcp__calc__add", "permission mcp__calc__add sdk", "PostToolUse mcp__calc__add", "Stop",
	}, order)
}

func initOf(t *testing.T, all []claude.Message) claude.Init {
	t.Helper()
	for _, m := range all {
		if system, ok := m.(*claude.SystemMessage); ok {
			if init, ok := system.Init(); ok {
				return init
			}
		}
	}
	t.Fatal("no init message")
	return claude.Init{}
}

// Spec: can_use_tool; agreement with the binary
func TestDeniedToolDoesNotRun(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	opts := p.options(t)
	opts.CanUseTool = func(context.Context, claude.PermissionRequest) (claude.PermissionResult, error) {
		return claude.Deny("nobody writes here"), nil
	}
	target := filepath.Join(p.project, "file.txt")
	in, _ := json.Marshal(map[string]string{"file_path": target, "content": "x"})
	_, result := run(t, claude.Query(t.Context(), claude.Text(script(step{Tool: "Write", In: in}, step{Text: "denied"})), opts))
	require.NoFileExists(t, target)
	require.Len(t, result.PermissionDenials, 1)
	require.Equal(t, "Write", result.PermissionDenials[0].ToolName)
	calls := p.model.mainCalls()
	require.Contains(t, calls[len(calls)-1].body, "nobody writes here")
}

// Spec: can_use_tool; agreement with the binary
func TestAllowedToolRunsWithUpdatedInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	opts := p.options(t)
	target := filepath.Join(p.project, "file.txt")
	opts.CanUseTool = func(_ context.Context, req claude.PermissionRequest) (claude.PermissionResult, error) {
		allow := claude.Allow()
		allow.UpdatedInput, _ = json.Marshal(map[string]string{"file_path": target, "content": "changed"})
		return allow, nil
	}
	in, _ := json.Marshal(map[string]string{"file_path": target, "content": "asked for"})
	run(t, claude.Query(t.Context(), claude.Text(script(step{Tool: "Write", In: in}, step{Text: "done"})), opts))
	written, err := os.ReadFile(target)
	require.NoError(t, err)
	require.Equal(t, "changed", string(written))
}

// Spec: interrupt; agreement with the binary
func TestInterruptInTheMiddleOfATurn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	st := claude.Query(t.Context(), claude.Conversation(claude.UserText(script(step{Wait: true, Text: "too late"}))), p.options(t))
	defer st.Close()
	require.Eventually(t, func() bool { return len(p.model.mainCalls()) > 0 }, 20*time.Second, 10*time.Millisecond)
	_, err := st.Interrupt(t.Context())
	require.NoError(t, err)
	var result *claude.ResultMessage
	for m, err := range st.Turn() {
		require.NoError(t, err)
		result, _ = m.(*claude.ResultMessage)
	}
	require.NotEqual(t, "too late", result.Result)
	p.model.open()
	require.NoError(t, st.Send(t.Context(), claude.UserText("still there?")))
	for m, err := range st.Turn() {
		require.NoError(t, err)
		result, _ = m.(*claude.ResultMessage)
	}
	require.Equal(t, "ok: still there?", result.Result)
	st.Close()
	<-st.Done()
}

// Spec: set_model; agreement with the binary
func TestSetModelAppliesToTheNextRoundTripOfTheTurn(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	opts := p.options(t)
	opts.MCPServers = map[string]claude.MCPServer{"calc": adder()}
	var st *claude.Stream
	opts.CanUseTool = func(ctx context.Context, _ claude.PermissionRequest) (claude.PermissionResult, error) {
		return claude.Allow(), st.SetModel(ctx, "claude-opus-5-5")
	}
	st = claude.Query(t.Context(), claude.Text(script(
		step{Tool: "mcp__calc__add", In: json.RawMessage(`{"a":1,"b":1}`)}, step{Text: "two"})), opts)
	run(t, st)
	calls := p.model.mainCalls()
	require.Contains(t, calls[0].model, "sonnet")
	require.Contains(t, calls[len(calls)-1].model, "opus")
}

// Spec: set_permission_mode; agreement with the binary
func TestSetPermissionModeIsAnsweredWithTheMode(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	st := claude.Query(t.Context(), claude.Conversation(), p.options(t))
	mode, err := st.SetPermissionMode(t.Context(), claude.PermissionPlan)
	require.NoError(t, err)
	require.Equal(t, claude.PermissionPlan, mode)
	_, err = st.SetPermissionMode(t.Context(), "nonsense")
	var refused *claude.ControlError
	require.ErrorAs(t, err, &refused)
	status, err := st.MCPServerStatus(t.Context())
	require.NoError(t, err)
	require.Empty(t, status)
	st.Close()
	<-st.Done()
}

// The stream ends by itself after the last result.
//
// Spec: Query; agreement with the binary
func TestSequenceEndsWhenEverythingIsAnswered(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	opts := p.options(t)
	opts.CanUseTool = func(context.Context, claude.PermissionRequest) (claude.PermissionResult, error) {
		return claude.Allow(), nil
	}
	seq := func(yield func(claude.UserMessage) bool) {
		_ = yield(claude.UserText("one")) && yield(claude.UserText("two"))
	}
	all, _ := run(t, claude.Query(t.Context(), claude.Sequence(seq), opts))
	var said string
	for _, m := range all {
		if a, ok := m.(*claude.AssistantMessage); ok {
			said += a.Text()
		}
	}
	require.Contains(t, said, "two")
}

// Spec: cancellation; agreement with the binary
func TestCancellationEndsClaude(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	ctx, cancel := context.WithCancel(t.Context())
	st := claude.Query(ctx, claude.Text(script(step{Wait: true})), p.options(t))
	require.Eventually(t, func() bool { return len(p.model.mainCalls()) > 0 }, 20*time.Second, 10*time.Millisecond)
	cancel()
	_, err := st.Result()
	require.ErrorIs(t, err, claude.ErrAborted)
	<-st.Done()
}

// Spec: wire; agreement with the binary
func TestPartialMessagesCarryTheTextAsItComes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	opts := p.options(t)
	opts.IncludePartialMessages = true
	all, _ := run(t, claude.Query(t.Context(), claude.Text("hi"), opts))
	var text string
	for _, m := range all {
		if partial, ok := m.(*claude.PartialMessage); ok {
			text += partial.TextDelta()
		}
	}
	require.Equal(t, "ok: hi", text)
}

// A failed query is a result and an exit error.
//
// Spec: a child that exits non-zero; agreement with the binary
func TestResumeOfUnknownSessionFails(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	opts := p.options(t)
	opts.Resume = "11111111-2222-4333-8444-555555555555"
	result, err := claude.Query(t.Context(), claude.Text("hi"), opts).Result()
	require.NotNil(t, result)
	require.Equal(t, claude.ResultErrorDuringExecution, result.Subtype)
	require.Contains(t, strings.Join(result.Errors, " "), "No conversation found")
	var exit *claude.ExitError
	require.ErrorAs(t, err, &exit)
}

// Spec: options; agreement with the binary
func TestSubagentTextIsForwardedWithItsParent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	opts := p.options(t)
	opts.ForwardSubagentText = true
	opts.Agents = map[string]claude.Agent{"helper": {Description: "helps", Prompt: "You help."}}
	opts.AllowedTools = []string{"Agent", "Task"}
	in, _ := json.Marshal(map[string]any{"description": "help", "prompt": "say hello", "subagent_type": "helper", "run_in_background": false})
	all, result := run(t, claude.Query(t.Context(), claude.Text(script(step{Tool: "Agent", In: in}, step{Text: "helped"})), opts))
	require.Equal(t, "helped", result.Result)
	var forwarded []string
	for _, m := range all {
		if a, ok := m.(*claude.AssistantMessage); ok && a.ParentToolUseID != "" {
			forwarded = append(forwarded, a.Text())
		}
	}
	require.Contains(t, forwarded, "ok: say hello")
	ids, err := claude.ListSubagents(t.Context(), result.SessionID, &claude.SessionOptions{ConfigDir: p.config})
	require.NoError(t, err)
	require.Len(t, ids, 1)
	messages, err := claude.GetSubagentMessages(t.Context(), result.SessionID, ids[0],
		&claude.MessagesOptions{SessionOptions: claude.SessionOptions{ConfigDir: p.config}})
	require.NoError(t, err)
	require.Equal(t, "say hello", messages[0].Text())
	require.True(t, gjson.ValidBytes(messages[0].Message))
}
