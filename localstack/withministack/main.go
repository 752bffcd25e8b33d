// Command withministack runs a command with a MiniStack of its own:
//
//	go run ./localstack/withministack go test ./...
//
// The command finds it in LAMBAE_TEST_DYNAMODB. Where that is set already, the
// command runs with what it names. Without a command, MiniStack runs until it
// is interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/lambae/lambae/internal/table/tabletest/ministack"
)

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "withministack:", err)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	// What a terminal interrupts, it interrupts the command as well; and the
	// command decides when to end.
	interrupt := make(chan os.Signal, 1)
	signal.Notify(interrupt, os.Interrupt, syscall.SIGTERM)

	if os.Getenv(ministack.EndpointVariable) == "" {
		s, err := ministack.Start(context.Background(), ".")
		if err != nil {
			return 1, err
		}
		defer s.Stop()
		if err := os.Setenv(ministack.EndpointVariable, s.Endpoint); err != nil {
			return 1, err
		}
	}
	if len(args) == 0 {
		fmt.Printf("export %s=%s\n", ministack.EndpointVariable, os.Getenv(ministack.EndpointVariable))
		<-interrupt
		return 0, nil
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	go func() {
		for s := range interrupt {
			if s == syscall.SIGTERM {
				_ = cmd.Process.Signal(s)
			}
		}
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(exit.ExitCode(), 1), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}
