package runtimetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Lambda's limits.
const (
	maxEvent      = 6 << 20
	maxTimeout    = 15 * time.Minute
	shutdownGrace = 500 * time.Millisecond // after SIGTERM
)

// Runtime is a Runtime API with one process at most. Its fields are set before
// they count: Logs before Start, Timeout before Invoke.
type Runtime struct {
	// Timeout of an invocation, which the function sees as its deadline and
	// which, once over, ends the process. Zero is 15 minutes.
	Timeout time.Duration
	// Logs gets what the process writes to its standard output and error. Nil is
	// this process's standard error.
	Logs io.Writer

	listener net.Listener
	server   *http.Server

	mu       sync.Mutex
	queue    []*Invocation
	current  *Invocation
	wake     chan struct{} // closed and replaced when the queue grows
	process  *exec.Cmd
	exited   chan struct{}
	signals  bool  // an extension is registered: SIGTERM comes before SIGKILL
	initFail error // what the process reported at its start
	closed   bool
}

// Listen starts a Runtime API on a free port of this machine.
func Listen() (*Runtime, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("runtime API: %w", err)
	}
	r := &Runtime{listener: l, wake: make(chan struct{})}
	r.server = &http.Server{Handler: r.routes()}
	go r.server.Serve(l)
	return r, nil
}

// New is [Listen] for a test, which closes it and gets the logs.
func New(t testing.TB) *Runtime {
	t.Helper()
	r, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	r.Logs = testLog{t}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// Addr is the value of AWS_LAMBDA_RUNTIME_API.
func (r *Runtime) Addr() string { return r.listener.Addr().String() }

// Start runs a binary as a function, with the environment Lambda would give it,
// PATH and HOME of this process, and env ("NAME=value") over them. After it ended
// another may be started, as Lambda does.
func (r *Runtime) Start(bin string, env ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errors.New("runtime API is closed")
	}
	if r.process != nil {
		return errors.New("a process runs already")
	}
	cmd := exec.Command(bin)
	cmd.Env = append([]string{
		"AWS_LAMBDA_RUNTIME_API=" + r.Addr(),
		"AWS_LAMBDA_FUNCTION_NAME=test",
		"AWS_LAMBDA_FUNCTION_VERSION=$LATEST",
		"AWS_LAMBDA_FUNCTION_MEMORY_SIZE=512",
		"AWS_LAMBDA_INITIALIZATION_TYPE=on-demand",
		"AWS_EXECUTION_ENV=AWS_Lambda_provided.al2023",
		"AWS_REGION=eu-central-1",
		"_HANDLER=bootstrap",
		"TZ=:UTC",
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + os.Getenv("HOME"),
	}, env...)
	cmd.Stdout, cmd.Stderr = r.Logs, r.Logs
	if r.Logs == nil {
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	}
	cmd.WaitDelay = time.Second // for what it started and left behind
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start function: %w", err)
	}
	r.process, r.signals, r.initFail = cmd, false, nil
	exited := make(chan struct{})
	r.exited = exited
	go func() {
		defer close(exited)
		cmd.Wait()
		r.lost(cmd.ProcessState.String())
	}()
	return nil
}

// Invoke hands an event to the function as soon as it is free. It does not wait:
// the invocation tells how it goes.
func (r *Runtime) Invoke(event []byte) *Invocation {
	inv := newInvocation(rand.Text(), event)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case len(event) > maxEvent:
		inv.finish(&FunctionError{"RequestTooLarge", fmt.Sprintf("the event has %d bytes, Lambda takes %d", len(event), maxEvent)})
	case r.process == nil:
		inv.finish(&FunctionError{"Runtime.NotRunning", "no function runs; start one first"})
	default:
		r.queue = append(r.queue, inv)
		close(r.wake)
		r.wake = make(chan struct{})
	}
	return inv
}

// Close ends the process, as Lambda ends an instance, and the API.
func (r *Runtime) Close() error {
	r.mu.Lock()
	r.closed = true
	process, exited, signals := r.process, r.exited, r.signals
	r.mu.Unlock()
	if process != nil {
		if signals {
			process.Process.Signal(syscall.SIGTERM)
			select {
			case <-exited:
			case <-time.After(shutdownGrace):
			}
		}
		process.Process.Kill()
		<-exited
	}
	return r.server.Close()
}

// next gives the process its next event and makes it current.
func (r *Runtime) next(ctx context.Context) *Invocation {
	for {
		r.mu.Lock()
		if len(r.queue) > 0 {
			inv := r.queue[0]
			r.queue = r.queue[1:]
			r.current = inv
			r.mu.Unlock()
			inv.start(r.timeout(), func() { r.timedOut(inv) })
			return inv
		}
		wake := r.wake
		r.mu.Unlock()
		select {
		case <-wake:
		case <-ctx.Done():
			return nil
		}
	}
}

func (r *Runtime) timeout() time.Duration {
	if r.Timeout > 0 {
		return r.Timeout
	}
	return maxTimeout
}

// timedOut ends a process that did not finish its invocation.
func (r *Runtime) timedOut(inv *Invocation) {
	inv.finish(&FunctionError{"Sandbox.Timedout", fmt.Sprintf("Task timed out after %.2f seconds", r.timeout().Seconds())})
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.process != nil {
		r.process.Process.Kill()
	}
}

// lost fails what the process that ended leaves behind.
func (r *Runtime) lost(how string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.process = nil
	err := r.initFail
	if err == nil {
		err = &FunctionError{"Runtime.ExitError", "the process ended: " + how}
	}
	if r.current != nil {
		r.current.finish(err)
	}
	for _, inv := range r.queue {
		inv.finish(err)
	}
	r.current, r.queue = nil, nil
}

// running returns the current invocation if it has this id.
func (r *Runtime) running(id string) *Invocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.current == nil || r.current.ID != id {
		return nil
	}
	return r.current
}

// testLog writes lines to a test's log.
type testLog struct{ t testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	l.t.Logf("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}
