// Package shell runs one command as a process group: with standard input, two
// streams of output, a time-out, and an end that takes all its processes along.
package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// drainGrace is how long output may still come after the command has ended: a
// process that it left in the background may hold the pipes for ever.
const drainGrace = 100 * time.Millisecond

// Command is a program to run.
type Command struct {
	Args    []string // the program first
	Dir     string   // "" is this process's
	Env     []string // nil is this process's
	Stdin   []byte
	Timeout time.Duration // 0 is none
	// Stdout and Stderr get the output as it comes, each from a goroutine of its
	// own; nil drops it. After Run has returned they are not written to any more.
	Stdout, Stderr io.Writer
	// Started is called with the id of the process group; it may be nil.
	Started func(group int)
	// Over is called when no process has the output open any more, at once or
	// long after Run has returned; it may be nil.
	Over func()
}

// Exit is how a command ended.
type Exit struct {
	Code     int // 128 + n after signal n
	TimedOut bool
}

// Run runs the command to its end. An error means that it could not be started,
// or that ctx ended first, which kills it.
func Run(ctx context.Context, c Command) (Exit, error) {
	if err := ctx.Err(); err != nil {
		return Exit{}, context.Cause(ctx)
	}
	cmd := exec.Command(c.Args[0], c.Args[1:]...)
	cmd.Dir, cmd.Env = c.Dir, c.Env
	ownGroup(cmd)
	var pipes drains
	cmd.Stdout = pipes.open(c.Stdout)
	cmd.Stderr = pipes.open(c.Stderr)
	stdin, closeStdin, err := input(c.Stdin)
	if err == nil {
		err = pipes.err
	}
	if err != nil {
		pipes.abandon()
		return Exit{}, fmt.Errorf("start a command: %w", err)
	}
	cmd.Stdin = stdin
	err = cmd.Start()
	pipes.started()
	closeStdin()
	if err != nil {
		pipes.abandon()
		return Exit{}, fmt.Errorf("start a command: %w", err)
	}
	if c.Started != nil {
		c.Started(cmd.Process.Pid)
	}
	if c.Over != nil {
		go func() {
			pipes.running.Wait()
			c.Over()
		}()
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var timeout <-chan time.Time
	if c.Timeout > 0 {
		t := time.NewTimer(c.Timeout)
		defer t.Stop()
		timeout = t.C
	}
	var exit Exit
	var failed error
	select {
	case err = <-ended:
	case <-timeout:
		exit.TimedOut = true
		KillGroup(cmd.Process.Pid)
		err = <-ended
	case <-ctx.Done():
		failed = context.Cause(ctx)
		KillGroup(cmd.Process.Pid)
		err = <-ended
	}
	pipes.settle()
	if failed != nil {
		return Exit{}, failed
	}
	if other := (*exec.ExitError)(nil); err != nil && !errors.As(err, &other) {
		return Exit{}, fmt.Errorf("wait for a command: %w", err)
	}
	exit.Code = code(cmd.ProcessState)
	return exit, nil
}

// input returns a file the command reads b from. Small input goes into a pipe at
// once; more is written by a goroutine, which ends with the pipe's readers.
func input(b []byte) (f *os.File, closeAfterStart func(), err error) {
	if len(b) == 0 {
		f, err = os.Open(os.DevNull)
		return f, func() { _ = f.Close() }, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	go func() {
		_, _ = io.Copy(w, bytes.NewReader(b)) // a command need not read its input
		_ = w.Close()
	}()
	return r, func() { _ = r.Close() }, nil
}

// drains are the pipes a command writes to. They are read to their end even when
// nobody wants it any more, so that what runs on in the background never blocks
// or dies of its output.
type drains struct {
	write   []*os.File
	read    []*drain
	running sync.WaitGroup
	err     error
}

type drain struct {
	from *os.File
	mu   sync.Mutex
	to   io.Writer // nil drops
	done chan struct{}
}

// open returns the command's end of a new pipe into w.
func (d *drains) open(w io.Writer) *os.File {
	if d.err != nil {
		return nil
	}
	r, pw, err := os.Pipe()
	if err != nil {
		d.err = err
		return nil
	}
	d.write = append(d.write, pw)
	d.read = append(d.read, &drain{from: r, to: w, done: make(chan struct{})})
	return pw
}

// started closes our copies of the command's ends and begins to read.
func (d *drains) started() {
	for _, w := range d.write {
		_ = w.Close()
	}
	for _, r := range d.read {
		d.running.Go(r.run)
	}
}

// abandon closes all when nothing was started.
func (d *drains) abandon() {
	for _, w := range d.write {
		_ = w.Close()
	}
	for _, r := range d.read {
		_ = r.from.Close()
	}
}

// settle waits for the rest of the output of a command that has ended, but not
// for that of processes it left in the background.
func (d *drains) settle() {
	grace := time.NewTimer(drainGrace)
	defer grace.Stop()
	for _, r := range d.read {
		select {
		case <-r.done:
		case <-grace.C:
			grace.Reset(0)
		}
	}
	for _, r := range d.read {
		r.mu.Lock()
		r.to = nil
		r.mu.Unlock()
	}
}

func (r *drain) run() {
	defer close(r.done)
	defer r.from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.from.Read(buf)
		r.mu.Lock()
		if n > 0 && r.to != nil {
			_, _ = r.to.Write(buf[:n])
		}
		r.mu.Unlock()
		if err != nil {
			return
		}
	}
}
