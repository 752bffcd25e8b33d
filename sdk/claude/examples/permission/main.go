// permission asks on the terminal before Claude uses a tool:
//
//	go run ./sdk/claude/examples/permission "Write a haiku to haiku.txt"
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"

	"github.com/lambae/lambae/sdk/claude"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var one sync.Mutex // questions may overlap; the terminal is one
	answers := bufio.NewReader(os.Stdin)
	opts := &claude.Options{
		PermissionMode: claude.PermissionDefault,
		CanUseTool: func(_ context.Context, req claude.PermissionRequest) (claude.PermissionResult, error) {
			one.Lock()
			defer one.Unlock()
			fmt.Printf("%s %s\nallow? [y/N] ", req.ToolName, req.Input)
			answer, err := answers.ReadString('\n')
			if err != nil {
				return claude.PermissionResult{}, fmt.Errorf("read the answer: %w", err)
			}
			if strings.HasPrefix(strings.ToLower(answer), "y") {
				return claude.Allow(), nil
			}
			return claude.Deny("the user said no"), nil
		},
	}
	result, err := claude.Query(ctx, claude.Text(strings.Join(os.Args[1:], " ")), opts).Result()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(result.Result)
}
