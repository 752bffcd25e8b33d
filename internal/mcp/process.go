package mcp

import (
	"bufio"
	"errors"
	"io"
	"iter"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// How long a server may take to go: after its input ended, after SIGTERM, and
// then to let go of its standard error.
const (
	exitGrace  = 2 * time.Second
	termGrace  = time.Second
	drainGrace = time.Second
)

// process is a child with its pipes, in a process group of its own where there
// are such. Writing to it is writing to its standard input.
type process struct {
	cmd           *exec.Cmd
	stdin, stdout *os.File
	stderr        *os.File
	exited        chan struct{} // closed when the child is gone, with its group
	drained       chan struct{} // closed when stderr ended
	lastLine      string        // of stderr, once drained
	closeOnce     sync.Once
}

// startProcess starts cmd. Its Stdin, Stdout and Stderr must be unset.
func startProcess(cmd *exec.Cmd, log *slog.Logger) (*process, error) {
	p := &process{cmd: cmd, exited: make(chan struct{}), drained: make(chan struct{})}
	var theirs, ours []*os.File
	pipe := func(childReads bool) (child, parent *os.File, err error) {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, nil, err
		}
		if childReads {
			child, parent = r, w
		} else {
			child, parent = w, r
		}
		theirs, ours = append(theirs, child), append(ours, parent)
		return child, parent, nil
	}
	// Pipes of our own, not cmd's: its Wait would close them under the reader.
	stdin, in, err1 := pipe(true)
	stdout, out, err2 := pipe(false)
	stderr, errs, err3 := pipe(false)
	err := errors.Join(err1, err2, err3)
	if err == nil {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		isolate(cmd)
		err = cmd.Start()
	}
	for _, f := range theirs {
		f.Close()
	}
	if err != nil {
		for _, f := range ours {
			f.Close()
		}
		return nil, err
	}
	p.stdin, p.stdout, p.stderr = in, out, errs

	go func() {
		defer close(p.exited)
		cmd.Wait()
		// What the server started goes with it, and lets go of the pipes. The group
		// number cannot be another's yet: numbers are given out in turn.
		kill(cmd.Process)
	}()
	go func() {
		defer close(p.drained)
		p.lastLine = logStderr(errs, log)
	}()
	return p, nil
}

// Write implements [io.Writer].
func (p *process) Write(b []byte) (int, error) { return p.stdin.Write(b) }

// Close ends the process: its input ends, then it is asked and at last made to
// stop, with all of its group. It returns when the process is gone.
func (p *process) Close() error {
	p.closeOnce.Do(func() {
		p.stdin.Close()
		if !closed(p.exited, exitGrace) {
			terminate(p.cmd.Process)
			if !closed(p.exited, termGrace) {
				kill(p.cmd.Process)
				<-p.exited
			}
		}
		// What it said last is in the pipe still. A grandchild that left the group
		// may hold that open for long.
		closed(p.drained, drainGrace)
		p.stdout.Close()
		p.stderr.Close()
		<-p.drained
	})
	return nil
}

// closed waits for c at most d long.
func closed(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// ended says how the process went and the last line of its standard error. Both
// are empty while it runs.
func (p *process) ended() (how, stderr string) {
	select {
	case <-p.exited:
		how = "the process ended: " + p.cmd.ProcessState.String()
	default:
		return "", ""
	}
	select {
	case <-p.drained:
		stderr = p.lastLine
	default:
	}
	return how, stderr
}

// lines yields the lines of r without blank ones, cut to limit bytes.
func lines(r io.Reader, limit int) iter.Seq[string] {
	return func(yield func(string) bool) {
		br := bufio.NewReaderSize(r, limit)
		for {
			line, isPrefix, err := br.ReadLine()
			text := strings.ToValidUTF8(strings.TrimSpace(string(line)), "\uFFFD")
			for isPrefix && err == nil {
				_, isPrefix, err = br.ReadLine()
			}
			if text != "" && !yield(text) {
				return
			}
			if err != nil {
				return
			}
		}
	}
}
