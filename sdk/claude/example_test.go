package claude_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/lambae/lambae/sdk/claude"
)

// The examples without output need claude and a model; those with one run as
// tests.

func ExampleQuery() {
	result, err := claude.Query(context.Background(), claude.Text("What is 2 + 2?"), &claude.Options{
		Model: "sonnet", Tools: []string{},
	}).Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Result)
}

func ExampleConversation() {
	ctx := context.Background()
	chat := claude.Query(ctx, claude.Conversation(claude.UserText("Pick a number.")), nil)
	defer chat.Close()
	for _, next := range []string{"Double it.", ""} {
		for msg, err := range chat.Turn() {
			if err != nil {
				log.Fatal(err)
			}
			if m, ok := msg.(*claude.AssistantMessage); ok {
				fmt.Println(m.Text())
			}
		}
		if next != "" {
			if err := chat.Send(ctx, claude.UserText(next)); err != nil {
				log.Fatal(err)
			}
		}
	}
}

func ExampleOptions_canUseTool() {
	opts := &claude.Options{
		CanUseTool: func(_ context.Context, req claude.PermissionRequest) (claude.PermissionResult, error) {
			if req.ToolName == "Bash" && strings.Contains(string(req.Input), "rm ") {
				return claude.Deny("nothing is deleted here"), nil
			}
			return claude.Allow(), nil
		},
	}
	_, _ = claude.Query(context.Background(), claude.Text("Tidy up."), opts).Result()
}

func ExampleTool() {
	type input struct {
		City string `json:"city" jsonschema:"the city to look up"`
	}
	weather := claude.Tool("weather", "tells the weather in a city",
		func(_ context.Context, in input) (string, error) { return "sunny in " + in.City, nil })
	opts := &claude.Options{
		MCPServers:   map[string]claude.MCPServer{"local": claude.NewMCPServer("local", "1.0.0", weather)},
		AllowedTools: []string{"mcp__local__weather"},
	}
	_, _ = claude.Query(context.Background(), claude.Text("What is the weather in Bern?"), opts).Result()
}

func ExampleHookFunc() {
	audit := func(_ context.Context, in claude.HookInput) (claude.HookOutput, error) {
		log.Printf("%s: %s %s", in.Event, in.ToolName, in.ToolInput)
		return claude.HookOutput{}, nil
	}
	opts := &claude.Options{Hooks: map[claude.HookEvent][]claude.HookMatcher{
		claude.HookPreToolUse: {{Matcher: "Bash|Write", Hooks: []claude.HookFunc{audit}}},
	}}
	_, _ = claude.Query(context.Background(), claude.Text("Build it."), opts).Result()
}

func ExampleStartup() {
	ctx := context.Background()
	warm, err := claude.Startup(ctx, nil, 0) // ahead of time
	if err != nil {
		log.Fatal(err)
	}
	stream, err := warm.Query(ctx, claude.Text("Hello")) // when it matters
	if err != nil {
		log.Fatal(err)
	}
	_, _ = stream.Result()
}

func ExampleListSessions() {
	store := &claude.InMemoryStore{}
	opts := claude.SessionOptions{Store: store, Dir: "/srv"}
	id := "11111111-2222-4333-8444-555555555555"
	project, _ := claude.ProjectKey("/srv")
	_ = store.Append(context.Background(), claude.SessionKey{ProjectKey: project, SessionID: id},
		[]claude.Entry{claude.Entry(`{"type":"user","uuid":"a","message":{"role":"user","content":"Fix the build"}}`)})
	_ = claude.RenameSession(context.Background(), id, "The build", &opts)

	sessions, err := claude.ListSessions(context.Background(), &claude.ListOptions{SessionOptions: opts})
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range sessions {
		fmt.Printf("%s (%s)\n", s.Summary, s.FirstPrompt)
	}
	// Output: The build (Fix the build)
}

func ExampleParseDirectConnectURL() {
	target, err := claude.ParseDirectConnectURL("cc://build-host:8080/secret")
	fmt.Println(target.URL, err)
	// Output: http://build-host:8080 <nil>
}

func ExampleProjectKey() {
	key, err := claude.ProjectKey("/srv/my.project")
	fmt.Println(key, err)
	// Output: -srv-my-project <nil>
}
