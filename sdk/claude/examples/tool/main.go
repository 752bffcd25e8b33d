// tool gives Claude a Go function to call:
//
//	go run ./sdk/claude/examples/tool "How many days until the end of the year?"
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/lambae/lambae/sdk/claude"
)

type span struct {
	From string `json:"from" jsonschema:"first day, as 2006-01-02"`
	To   string `json:"to" jsonschema:"last day, as 2006-01-02"`
}

type days struct {
	Days int `json:"days"`
}

func between(_ context.Context, in span) (days, error) {
	from, err := time.Parse(time.DateOnly, in.From)
	if err != nil {
		return days{}, err
	}
	to, err := time.Parse(time.DateOnly, in.To)
	if err != nil {
		return days{}, err
	}
	return days{int(to.Sub(from).Hours() / 24)}, nil
}

func today(context.Context, struct{}) (string, error) { return time.Now().Format(time.DateOnly), nil }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	calendar := claude.NewMCPServer("calendar", "1.0.0",
		claude.Tool("today", "returns today's date", today),
		claude.Tool("between", "counts the days between two dates", between),
	)
	result, err := claude.Query(ctx, claude.Text(strings.Join(os.Args[1:], " ")), &claude.Options{
		MCPServers:   map[string]claude.MCPServer{"calendar": calendar},
		AllowedTools: []string{"mcp__calendar__today", "mcp__calendar__between"},
	}).Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Result)
}
