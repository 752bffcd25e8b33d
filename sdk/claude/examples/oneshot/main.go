// oneshot asks one question and prints the answer:
//
//	go run ./sdk/claude/examples/oneshot "What does this repository do?"
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	prompt := strings.Join(os.Args[1:], " ")
	if prompt == "" {
		log.Fatal("usage: oneshot PROMPT")
	}
	result, err := claude.Query(ctx, claude.Text(prompt), nil).Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Result)
	fmt.Fprintf(os.Stderr, "%d turns, $%.4f, session %s\n", result.NumTurns, result.TotalCostUSD, result.SessionID)
}
