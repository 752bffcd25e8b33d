package lambae_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/lambaetest"
)

// A session with a tool that runs in this very program.
func Example() {
	server := lambaetest.New(lambaetest.Options{
		AllowedTools: []string{"weather"},
		Model: func(turn lambaetest.Turn) ([]lambae.Block, error) {
			last := turn.Messages[len(turn.Messages)-1].Content.Blocks()[0]
			if result, ok := last.ToolResult(); ok {
				return []lambae.Block{lambae.TextBlock("It is " + result.Content.Text() + " there.")}, nil
			}
			return []lambae.Block{lambaetest.ToolUse("tu_1", "weather", `{"city":"Bern"}`)}, nil
		},
	})
	defer server.Close()
	ctx := context.Background()

	client, err := lambae.New(server.URL, server.ClientKey, nil)
	if err != nil {
		log.Fatal(err)
	}
	tools := []lambae.ClientTool{
		lambae.TypedTool(lambae.Tool{
			Name:        "weather",
			Description: "The weather in a city.",
			InputSchema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
		}, func(_ context.Context, input struct{ City string }) (string, error) {
			return "sunny in " + input.City, nil
		}),
	}
	session, err := client.Open(ctx, &lambae.OpenRequest{Tools: lambae.Declarations(tools)})
	if err != nil {
		log.Fatal(err)
	}
	result, err := session.Run(ctx, lambae.UserMessage("What is the weather in Bern?"), &lambae.RunOptions{Tools: tools})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Text())
	// Output: It is sunny in Bern there.
}

// Watching a session from its beginning to its end.
func ExampleSession_Subscribe() {
	server := lambaetest.New(lambaetest.Options{})
	defer server.Close()
	ctx := context.Background()
	session, err := server.Client().Open(ctx, nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := session.Run(ctx, lambae.UserMessage("Hello!"), nil); err != nil {
		log.Fatal(err)
	}
	if err := session.Close(ctx); err != nil {
		log.Fatal(err)
	}
	for event, err := range session.Subscribe(ctx, &lambae.SubscribeOptions{Since: lambae.Beginning}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(event.Type)
	}
	// Output:
	// session.open
	// session.driver.register
	// client.message.send
	// provider.request
	// provider.response
	// server.message.send
	// session.close
}

// Telling errors apart.
func ExampleAPIError() {
	server := lambaetest.New(lambaetest.Options{})
	defer server.Close()
	client, err := lambae.New(server.URL, "bae_wrong", nil)
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Open(context.Background(), nil)
	if problem, ok := errors.AsType[*lambae.APIError](err); ok && problem.Type == lambae.TypeUnauthorized {
		fmt.Println("check the key:", problem.Detail)
	}
	// Output: check the key: invalid client key
}
