package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
)

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// app is the world a command runs in.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string
	now            func() time.Time
	interrupts     <-chan os.Signal // Ctrl-C and SIGTERM; nil when none can come
}

// run is one call of the program with its own streams and environment.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, env func(string) string) int {
	world := &app{stdin: stdin, stdout: stdout, stderr: stderr, env: env, now: time.Now}
	return world.run(ctx, args)
}

// run runs one command and turns its error into words and an exit code.
func (a *app) run(ctx context.Context, args []string) int {
	if len(args) == 1 && args[0] == "--version" { // what every program has
		args = []string{"version"}
	}
	root := a.commands()
	called, args, err := root.find(args)
	if err == nil {
		err = a.call(ctx, called, args)
	}
	switch usage, isUsage := errors.AsType[*usageError](err); {
	case err == nil:
		return exitOK
	case errors.Is(err, errHelp):
		_, _ = io.WriteString(a.stdout, called.help())
		return exitOK
	case isUsage:
		fmt.Fprintf(a.stderr, "%s: %s\nSee: %s\n", called.path(), usage.message, called.helpPath())
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitFailure // the user knows: it was them
	default:
		fmt.Fprintf(a.stderr, "%s: %s\n", called.path(), explain(err))
		return exitFailure
	}
}

func (a *app) call(ctx context.Context, called *command, args []string) error {
	args, err := called.parse(args)
	if err != nil {
		return err
	}
	if !called.handlesInterrupts {
		var cancel context.CancelFunc
		ctx, cancel = a.untilInterrupted(ctx)
		defer cancel()
	}
	return called.run(ctx, args)
}

// untilInterrupted gives a context that the first interrupt ends. The second
// then ends the process, as if nobody caught it.
func (a *app) untilInterrupted(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-a.interrupts:
			signal.Reset(os.Interrupt, syscall.SIGTERM)
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// terminal is the file behind a stream if that is a terminal.
func terminal(stream any) (file *os.File, ok bool) {
	file, ok = stream.(*os.File)
	return file, ok && term.IsTerminal(int(file.Fd()))
}

// styleFor is how to write to a stream: colours on terminals that want them
// (https://no-color.org).
func (a *app) styleFor(stream any) style {
	_, ok := terminal(stream)
	return style{terminal: ok, colours: ok && a.env("NO_COLOR") == "" && a.env("TERM") != "dumb"}
}
