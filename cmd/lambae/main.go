// Command lambae is the command line of lambae: a chat in the terminal, a view
// of any session's events, the administration of a server, and the server
// itself for a laptop. Run "lambae help".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lambae/lambae/internal/sandbox/agent"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "sandboxd" {
		// This is how the server starts the process of a sandbox: itself, as sandboxd.
		os.Exit(agent.Main(os.Stdin, os.Stderr, os.Environ()))
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
	world := &app{
		stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		env: os.Getenv, now: time.Now, interrupts: interrupts,
	}
	os.Exit(world.run(context.Background(), os.Args[1:]))
}
