package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/lambae/lambae/sdk/lambae"
)

// chatTools are the client tools of the chat: harmless, and telling about the
// machine they run on. ask is nil when nobody is there to ask.
func chatTools(now func() time.Time, ask func(ctx context.Context, question string) (string, error)) []lambae.ClientTool {
	tools := []lambae.ClientTool{lambae.TypedTool(lambae.Tool{
		Name:        "get_current_time",
		Description: "The current time on the user's computer.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"timezone":{"type":"string","description":"An IANA name such as Europe/Zurich. Default: the user's own."}}}`),
	}, func(_ context.Context, input struct{ Timezone string }) (string, error) {
		if input.Timezone == "" {
			return now().Format(time.RFC3339), nil
		}
		zone, err := time.LoadLocation(input.Timezone)
		if err != nil {
			return "", fmt.Errorf("no time zone %q: give an IANA name such as Europe/Zurich", input.Timezone)
		}
		return now().In(zone).Format(time.RFC3339), nil
	})}
	if ask == nil {
		return tools
	}
	return append(tools, lambae.TypedTool(lambae.Tool{
		Name:        "ask_user",
		Description: "Ask the user a question and wait for the answer.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string"}},"required":["question"]}`),
	}, func(ctx context.Context, input struct{ Question string }) (string, error) {
		if input.Question == "" {
			return "", errors.New("question must not be empty")
		}
		return ask(ctx, input.Question)
	}))
}

// asker puts a question to the user, if there is one.
func (c *chat) asker() func(ctx context.Context, question string) (string, error) {
	if !c.input.interactive() {
		return nil
	}
	return func(ctx context.Context, question string) (string, error) {
		c.view.question(question)
		answer, err := c.input.line(ctx, c.view.style.bold("answer › "))
		if errors.Is(err, io.EOF) {
			return "", errors.New("the user did not answer")
		}
		return answer, err
	}
}
