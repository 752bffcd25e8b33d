// hooks logs every event of a session and keeps Claude out of .env files:
//
//	go run ./sdk/claude/examples/hooks "What is configured here?"
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"

	"github.com/lambae/lambae/sdk/claude"
)

func logEvent(_ context.Context, in claude.HookInput) (claude.HookOutput, error) {
	log.Println(in.Event, in.ToolName)
	return claude.HookOutput{}, nil
}

func guard(_ context.Context, in claude.HookInput) (claude.HookOutput, error) {
	if !strings.Contains(string(in.ToolInput), ".env") {
		return claude.HookOutput{}, nil
	}
	return claude.HookOutput{Specific: &claude.HookSpecific{
		PermissionDecision: "deny", PermissionDecisionReason: ".env files are off limits",
	}}, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	hooks := make(map[claude.HookEvent][]claude.HookMatcher)
	for _, event := range claude.HookEvents() {
		hooks[event] = []claude.HookMatcher{{Hooks: []claude.HookFunc{logEvent}}}
	}
	// A guard that fails must not let the call through.
	hooks[claude.HookPreToolUse] = append(hooks[claude.HookPreToolUse],
		claude.HookMatcher{Hooks: []claude.HookFunc{guard}, BlockOnFailure: true})
	result, err := claude.Query(ctx, claude.Text(strings.Join(os.Args[1:], " ")), &claude.Options{Hooks: hooks}).Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Result)
}
