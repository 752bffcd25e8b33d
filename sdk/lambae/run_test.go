package lambae_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

// script is a model that gives one answer after the other, and then what it was
// told last.
func script(answers ...[]lambae.Block) lambaetest.Model {
	return func(turn lambaetest.Turn) ([]lambae.Block, error) {
		if len(answers) == 0 {
			return []lambae.Block{lambae.TextBlock(string(turn.Messages[len(turn.Messages)-1].Content.Raw()))}, nil
		}
		answer := answers[0]
		answers = answers[1:]
		return answer, nil
	}
}

func tool(name string, handler lambae.ToolHandler) lambae.ClientTool {
	return lambae.ClientTool{Tool: lambae.Tool{Name: name}, Handler: handler}
}

func says(text string) lambae.ToolHandler {
	return func(context.Context, lambae.ToolUse) (lambae.Content, error) { return lambae.Text(text), nil }
}

func TestRunAnswersItsOwnToolsOnly(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{
		Model: script([]lambae.Block{
			lambae.TextBlock("let me see"), lambaetest.ToolUse("t1", "a", `{"q":1}`),
			lambaetest.ToolUse("t2", "list", `{}`), lambaetest.ToolUse("t3", "b", `{}`),
		}),
		ServerTools: map[string]func([]byte) string{"list": func([]byte) string { return "files" }},
	})
	tools := []lambae.ClientTool{
		tool("a", func(_ context.Context, call lambae.ToolUse) (lambae.Content, error) {
			return lambae.Text("got " + string(call.Input)), nil
		}),
		tool("b", func(context.Context, lambae.ToolUse) (lambae.Content, error) {
			return lambae.Content{}, errors.New("out of order")
		}),
	}
	session, err := server.Client().Open(t.Context(), &lambae.OpenRequest{Tools: lambae.Declarations(tools)})
	require.NoError(t, err)
	var sent []string
	result, err := session.Run(t.Context(), lambae.UserMessage("go"), &lambae.RunOptions{Tools: tools, Hooks: lambae.Hooks{
		BeforeSend: func(_ context.Context, message lambae.Message) error {
			sent = append(sent, string(message.Content.Raw()))
			return nil
		},
	}})
	require.NoError(t, err)
	own := `{"type":"tool_result","tool_use_id":"t1","content":"got {\"q\":1}"},` +
		`{"type":"tool_result","tool_use_id":"t3","content":"out of order","is_error":true}`
	require.Equal(t, []string{`"go"`, "[" + own + "]"}, sent)
	require.Equal(t, `[{"type":"tool_result","tool_use_id":"t2","content":[{"type":"text","text":"files"}]},`+own+"]", result.Text())

	events := all(t, session)
	require.Equal(t, ids(events[2:]), ids(result.Events), "open and register come before the run")
}

func TestRunAnswersCallsItHasNoHandlerFor(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{Model: script([]lambae.Block{lambaetest.ToolUse("t1", "a", `{}`)})})
	result, err := open(t, server, lambae.Tool{Name: "a"}).Run(t.Context(), lambae.UserMessage("go"), nil)
	require.NoError(t, err)
	require.Contains(t, result.Text(), `tool \"a\" is declared but this client has no handler for it`)
}

func TestRunFallsBackToItsOwnNames(t *testing.T) {
	t.Parallel()
	asked := 0
	var bodies []string
	client := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "registerDriver") {
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"registered":true}}`)
			return
		}
		bodies = append(bodies, string(body))
		content := `[{"type":"tool_use","id":"t1","name":"a","input":{}},{"type":"tool_use","id":"t2","name":"theirs","input":{}}]`
		if asked++; asked > 1 {
			content = `"done"`
		}
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"message":{"role":"assistant","content":`+content+`},"events":[]}}`)
	})
	session, err := client.Session("ses_a", "bae_ses_k")
	require.NoError(t, err)
	result, err := session.Run(t.Context(), lambae.UserMessage("go"), &lambae.RunOptions{Tools: []lambae.ClientTool{tool("a", says("A"))}})
	require.NoError(t, err)
	require.Equal(t, "done", result.Text())
	require.Len(t, bodies, 2)
	require.Contains(t, bodies[1], `"content":[{"type":"tool_result","tool_use_id":"t1","content":"A"}]`)
}

func TestUpdatedToolsCountFromTheNextCall(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{Model: script([]lambae.Block{lambaetest.ToolUse("t1", "b", `{}`)})})
	session := open(t, server)
	tools := []lambae.ClientTool{tool("b", says("B"))}
	require.NoError(t, session.UpdateClientTools(t.Context(), lambae.Declarations(tools)))
	result, err := session.Run(t.Context(), lambae.UserMessage("go"), &lambae.RunOptions{Tools: tools})
	require.NoError(t, err)
	require.Contains(t, result.Text(), `"content":"B"`)

	err = session.UpdateClientTools(t.Context(), []lambae.Tool{{Name: "c"}})
	require.Equal(t, lambae.CodeToolNotAllowed, rpcError(t, err).Code)
}

func TestATypedToolDecodesItsInput(t *testing.T) {
	t.Parallel()
	type input struct{ City string }
	weather := lambae.TypedTool(lambae.Tool{Name: "weather"}, func(_ context.Context, in input) (string, error) {
		return "sunny in " + in.City, nil
	})
	content, err := weather.Handler(t.Context(), lambae.ToolUse{Name: "weather", Input: []byte(`{"city":"Bern"}`)})
	require.NoError(t, err)
	require.Equal(t, "sunny in Bern", content.Text())
	_, err = weather.Handler(t.Context(), lambae.ToolUse{Name: "weather", Input: []byte(`{"city":5}`)})
	require.ErrorContains(t, err, "input of weather")
	content, err = weather.Handler(t.Context(), lambae.ToolUse{Name: "weather"})
	require.NoError(t, err)
	require.Equal(t, "sunny in ", content.Text())
}

func TestEveryHookCanEndARun(t *testing.T) {
	t.Parallel()
	stop := errors.New("stop")
	for name, test := range map[string]struct {
		hooks lambae.Hooks
		ran   bool // the tool
	}{
		"before a send":      {lambae.Hooks{BeforeSend: func(context.Context, lambae.Message) error { return stop }}, false},
		"on an update":       {lambae.Hooks{OnUpdate: func(context.Context, lambae.Update) error { return stop }}, false},
		"after an answer":    {lambae.Hooks{AfterReceive: func(context.Context, *lambae.Result) error { return stop }}, false},
		"before a tool call": {lambae.Hooks{BeforeToolCall: func(context.Context, lambae.ToolUse) error { return stop }}, false},
		"after a tool call":  {lambae.Hooks{AfterToolCall: func(context.Context, lambae.ToolUse, lambae.ToolResult) error { return stop }}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := start(t, lambaetest.Options{Model: script([]lambae.Block{lambaetest.ToolUse("t1", "a", `{}`)})})
			session := open(t, server, lambae.Tool{Name: "a"})
			ran := false
			_, err := session.Run(t.Context(), lambae.UserMessage("go"), &lambae.RunOptions{
				Tools: []lambae.ClientTool{tool("a", func(context.Context, lambae.ToolUse) (lambae.Content, error) {
					ran = true
					return lambae.Content{}, nil
				})},
				Hooks: test.hooks,
			})
			require.ErrorIs(t, err, stop)
			require.Equal(t, test.ran, ran)
		})
	}
}

func TestAnInterruptedToolEndsTheRunAndTheNextMessageAbandonsIt(t *testing.T) {
	t.Parallel()
	server := start(t, lambaetest.Options{Model: script([]lambae.Block{lambaetest.ToolUse("t1", "a", `{}`)})})
	session := open(t, server, lambae.Tool{Name: "a"})
	ctx, cancel := context.WithCancel(t.Context())
	_, err := session.Run(ctx, lambae.UserMessage("go"), &lambae.RunOptions{Tools: []lambae.ClientTool{
		tool("a", func(ctx context.Context, _ lambae.ToolUse) (lambae.Content, error) {
			cancel()
			return lambae.Content{}, ctx.Err()
		}),
	}})
	require.ErrorIs(t, err, context.Canceled)
	result, err := session.Run(t.Context(), lambae.UserMessage("never mind"), nil)
	require.NoError(t, err)
	require.Contains(t, result.Text(), "abandoned before returning a result")
	require.Contains(t, result.Text(), "never mind")
}
