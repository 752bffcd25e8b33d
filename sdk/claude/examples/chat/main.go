// chat is a conversation on the terminal, with words as they come:
//
//	go run ./sdk/claude/examples/chat
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"

	"github.com/lambae/lambae/sdk/claude"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	chat := claude.Query(ctx, claude.Conversation(), &claude.Options{
		SystemPrompt: &claude.SystemPrompt{Preset: true}, IncludePartialMessages: true,
	})
	defer chat.Close()
	lines := bufio.NewScanner(os.Stdin)
	for fmt.Print("> "); lines.Scan(); fmt.Print("\n> ") {
		if err := chat.Send(ctx, claude.UserText(lines.Text())); err != nil {
			log.Fatal(err)
		}
		for msg, err := range chat.Turn() {
			if err != nil {
				log.Fatal(err)
			}
			if m, ok := msg.(*claude.PartialMessage); ok {
				fmt.Print(m.TextDelta())
			}
		}
	}
}
