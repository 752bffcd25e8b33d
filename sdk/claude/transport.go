package claude

import (
	"io"
	"os"
)

// Transport carries newline-delimited JSON between a [Stream] and claude,
// wherever it runs: a child process, or a server (see [DirectConnect]).
// ReadLine and Write are called from one goroutine each; Close and CloseInput
// from any.
type Transport interface {
	// ReadLine returns the next line, or io.EOF after the last one.
	ReadLine() ([]byte, error)
	// WriteLine sends one line; a newline is added.
	WriteLine(line []byte) error
	// CloseInput says that no more lines follow.
	CloseInput() error
	// Close begins to end the other side, politely first and by force in the
	// end, and does not wait for it.
	Close() error
	// Wait blocks until the other side has ended and returns why.
	Wait() error
}

// LaunchSpec is the process a [Options.Launch] function should start.
type LaunchSpec struct {
	Path string   // the executable
	Args []string // without the executable
	Dir  string
	Env  []string
}

// Process is a started claude. *exec.Cmd with its pipes is easily made one.
type Process interface {
	Stdin() io.WriteCloser
	Stdout() io.Reader
	// Stderr may return nil.
	Stderr() io.Reader
	// Signal sends a signal to the process and what it started.
	Signal(os.Signal) error
	// Wait blocks until the process has ended; a non-zero exit is an
	// *[ExitError].
	Wait() error
}
