// Package sandbox says what a sandbox driver does. A sandbox is where a model's
// commands run: one per session, started from an image of the session's profile
// (protocol, "session.startRemoteSandbox" and "Remote subagents").
//
// The drivers are below: docker runs containers, process runs child processes,
// fargate runs tasks on AWS. The last two have sandboxd inside (package agent),
// which fetches its commands from rows of the table (package queue); package
// shell runs one command. This package and the drivers know nothing of sessions'
// logs, turns or events: package turn writes those.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// Driver starts sandboxes and runs commands in them. It is safe for concurrent
// use. Sandboxes outlive the Driver and its process wherever they can, and are
// found again by their ids.
type Driver interface {
	// Name is the value of BAE_SANDBOX_DRIVER that chooses this driver.
	Name() string
	// Images says which of the images can be started, in the order asked, without
	// waiting for those that are still being fetched.
	Images(ctx context.Context, images []string) []ImageStatus
	// Start starts a sandbox and returns when commands can be run in it. After an
	// error nothing of it is left running.
	Start(ctx context.Context, s Spec) error
	// Exec runs a command and waits for its end. A command that exits with any
	// code, or that is killed, has a Result; an error means that it could not be
	// run, or that nobody knows how it ended. When ctx ends, the command is killed.
	Exec(ctx context.Context, sandbox string, c Command) (Result, error)
	// Launch starts a command that runs on by itself, whatever becomes of this
	// process. Who launches a command's id again changes nothing.
	Launch(ctx context.Context, sandbox string, c Command) error
	// Follow waits for the end of a launched command, also one of an earlier
	// process. [ErrNoCommand] when it was never launched, [ErrGone] when the
	// sandbox has ended.
	Follow(ctx context.Context, sandbox string, c Command) (Result, error)
	// Kill ends a launched command with all its processes. One that has ended is
	// no error.
	Kill(ctx context.Context, sandbox, command string) error
	// Stop ends a sandbox with all that runs in it. One that has ended is no error.
	Stop(ctx context.Context, sandbox string) error
	// Running says which of the sandboxes run. One that is not in the answer has
	// ended; what cannot be asked for is an error.
	Running(ctx context.Context, sandboxes []string) (map[string]bool, error)
	// Close lets go of the sandboxes without ending them.
	Close() error
}

// Spec is a sandbox to start.
type Spec struct {
	ID      string // sbx_…
	Image   string
	Session string
	// Server is the URL at which the client reached the server that asked for it.
	Server string
}

// Command is a shell command, run as sh -c.
type Command struct {
	// ID names a launched command; it is a subagent's. [Driver.Exec] needs none.
	ID      string
	Command string
	Stdin   string
	// Timeout is how long the command may run; then its processes are killed.
	Timeout time.Duration
	// Started is when a launched command was launched. [Driver.Follow] needs it to
	// know what is left of Timeout.
	Started time.Time
	// Output gets the output as it comes, on one of the two streams "stdout" and
	// "stderr"; it may be nil. Nothing that it does holds up the command.
	Output func(stream, text string)
}

// Result is how a command ended. Output is valid UTF-8, cut to [MaxOutput].
type Result struct {
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	ExitCode  int    `json:"exit_code"` // 128 + n after signal n
	TimedOut  bool   `json:"timed_out,omitempty"`
	Truncated bool   `json:"truncated,omitempty"`
}

// Statuses of an image.
const (
	ImagePending   = "pending"
	ImageAvailable = "available"
	ImageError     = "error"
)

// ImageStatus is an element of a session.sandbox.available event.
type ImageStatus struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Detail string `json:"detail,omitempty"`
}

var (
	// ErrGone is returned for a sandbox that has ended.
	ErrGone = errors.New("the sandbox has ended")
	// ErrNoCommand is returned for a command that was never launched.
	ErrNoCommand = errors.New("the command was never started")
)

// RunError says that a command could not be run, and will not be.
type RunError struct{ Detail string }

func (e *RunError) Error() string { return e.Detail }

// NoDriver is what goes wrong without a driver, and how to get one.
const NoDriver = "this server has no sandbox driver; run a Docker or Podman engine, or set BAE_SANDBOX_DRIVER=process to run commands on this machine without isolation"

// TimeoutError says that a command was killed because it ran for too long.
func TimeoutError(after time.Duration) error {
	return fmt.Errorf("the command ran for longer than %s and was killed", after)
}

// OutputWriter turns writes into calls of output for one stream; nil when there
// is no output to call.
func OutputWriter(output func(stream, text string), stream string) io.Writer {
	if output == nil {
		return nil
	}
	return &outputWriter{output: output, stream: stream}
}
