// Invoke runs a function's binary with one event and prints the answer as it is
// streamed:
//
//	invoke [-set name=value]... [-timeout 15m] [-i] BIN event.json
//
// Placeholders {{name}} in the event are replaced by what -set gives. The
// function gets this process's environment. The exit code is 0 for a status below
// 400, 1 for others and for invocations that fail, 2 for a wrong use.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/lambae/lambae/internal/lambdahttp/runtimetest"
)

func main() {
	err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
		os.Exit(2)
	case errors.As(err, new(usageError)):
		fmt.Fprintf(os.Stderr, "invoke: %v\n", err)
		os.Exit(2)
	default:
		fmt.Fprintf(os.Stderr, "invoke: %v\n", err)
		os.Exit(1)
	}
}

// usageError is a wrong command line or event.
type usageError struct{ error }

// run invokes the function once and writes its answer to out, the function's logs
// and, with -i, status and headers to logs.
func run(args []string, out io.Writer, logs *os.File) (err error) {
	flags := flag.NewFlagSet("invoke", flag.ContinueOnError)
	flags.SetOutput(logs)
	flags.Usage = func() {
		fmt.Fprintln(logs, "usage: invoke [flags] BIN event.json")
		flags.PrintDefaults()
	}
	values := map[string]string{}
	flags.Func("set", "`name=value` for a placeholder {{name}} of the event; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			return errors.New("write it as name=value")
		}
		values[name] = value
		return nil
	})
	timeout := flags.Duration("timeout", 15*time.Minute, "of the invocation, which the function sees as its deadline")
	include := flags.Bool("i", false, "print status and headers to standard error")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if flags.NArg() != 2 {
		flags.Usage()
		return usageError{errors.New("want a binary and an event")}
	}
	event, err := os.ReadFile(flags.Arg(1))
	if err != nil {
		return usageError{err}
	}
	if event, err = runtimetest.Fill(event, values); err != nil {
		return usageError{fmt.Errorf("%s: %w; give it one with -set name=value, or SET=\"name=value\" of make", flags.Arg(1), err)}
	}

	rt, err := runtimetest.Listen()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rt.Close()) }()
	rt.Timeout, rt.Logs = *timeout, logs
	if err := rt.Start(flags.Arg(0), os.Environ()...); err != nil {
		return err
	}
	inv := rt.Invoke(event)
	resp, err := inv.Response()
	if err != nil {
		return err
	}
	if *include {
		fmt.Fprintln(logs, resp.Status)
		resp.Header.Write(logs)
		fmt.Fprintln(logs)
	}
	if _, err := io.Copy(out, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode >= 400 {
		return fmt.Errorf("the function answered %s", resp.Status)
	}
	return nil
}
