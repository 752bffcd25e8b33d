package claude

import (
	"errors"
	"fmt"
	"strings"
)

var (
	// ErrAborted matches every error that a cancelled context caused. The
	// context's own cause is in the chain as well.
	ErrAborted = errors.New("query aborted")

	// ErrClosed is returned by calls on a stream that has ended.
	ErrClosed = errors.New("stream is closed; start a new query")

	// ErrInputClosed is returned by Send once no more input can be given.
	ErrInputClosed = errors.New("input is closed; start the query with Conversation to send more messages")

	// ErrWarmUsed is returned by the second Query on one Warm.
	ErrWarmUsed = errors.New("warm process was already used; call Startup again for another query")

	// ErrSessionNotFound matches the errors of session functions for a session
	// that exists nowhere they looked.
	ErrSessionNotFound = errors.New("session not found")

	// ErrNotInstalled matches the error for a missing claude executable.
	ErrNotInstalled = errors.New("claude executable not found")

	// ErrUnsupportedByStore matches the errors for a store that lacks the
	// optional interface a function needs.
	ErrUnsupportedByStore = errors.New("not supported by this session store")

	// ErrLineTooLong matches the error for a message beyond MaxLineBytes.
	ErrLineTooLong = errors.New("message is too long")
)

// ExitError says that the claude process ended with a failure. Stderr holds
// the last 64 KiB of what it wrote there.
type ExitError struct {
	Code   int    // exit code; -1 when a signal ended the process
	Signal string // the signal's name, if one did
	Stderr string
}

func (e *ExitError) Error() string {
	what := fmt.Sprintf("claude exited with code %d", e.Code)
	if e.Signal != "" {
		what = "claude was ended by signal " + e.Signal
	}
	if tail := strings.TrimSpace(e.Stderr); tail != "" {
		lines := strings.Split(tail, "\n")
		return what + ": " + strings.TrimSpace(lines[len(lines)-1])
	}
	return what + "; set Options.Stderr to see what it printed"
}

// ControlError is claude's refusal of a control request.
type ControlError struct {
	Subtype string // which request, such as "set_model"
	Message string // claude's own words
	Code    string // machine-readable code, where claude gives one
}

func (e *ControlError) Error() string {
	return fmt.Sprintf("claude refused %s: %s", e.Subtype, e.Message)
}

// MirrorTimeoutError says that one append to a session store did not return in
// time. It is not retried, since the append may still land.
type MirrorTimeoutError struct{ Key SessionKey }

func (e *MirrorTimeoutError) Error() string {
	return fmt.Sprintf("append to session store for %s did not return within %s", e.Key, mirrorAppendTimeout)
}

// abortError ties a context's cause to ErrAborted.
type abortError struct{ cause error }

func (e *abortError) Error() string        { return "query aborted: " + e.cause.Error() }
func (e *abortError) Is(target error) bool { return target == ErrAborted }
func (e *abortError) Unwrap() error        { return e.cause }
