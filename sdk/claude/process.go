package claude

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const (
	// closeGrace is how long claude may take to end after its input closed.
	closeGrace = 2 * time.Second
	// killDelay is how long it may ignore the SIGTERM that follows.
	killDelay = 5 * time.Second
	// drainGrace is how long output may still come once the process is gone.
	// Only a grandchild that inherited the pipe can make it last longer.
	drainGrace = time.Second
)

// localProcess is claude as a child of this program, leader of a process group
// of its own, so that whatever it starts ends with it.
type localProcess struct {
	cmd            *exec.Cmd
	stdin          *os.File
	stdout, stderr *os.File
}

func launchLocal(_ context.Context, spec LaunchSpec) (Process, error) {
	p := &localProcess{cmd: exec.Command(spec.Path, spec.Args...)}
	p.cmd.Dir, p.cmd.Env = spec.Dir, spec.Env
	ownGroup(p.cmd)

	// Pipes of our own rather than exec's: Wait must not depend on who else
	// holds them, nor cut off output that was not read yet.
	var childIn, childOut, childErr *os.File
	var files []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			files = append(files, r, w)
		}
		return r, w, err
	}
	var err error
	if childIn, p.stdin, err = pipe(); err == nil {
		if p.stdout, childOut, err = pipe(); err == nil {
			p.stderr, childErr, err = pipe()
		}
	}
	if err == nil {
		p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = childIn, childOut, childErr
		err = p.cmd.Start()
	}
	if err != nil {
		for _, f := range files {
			f.Close()
		}
		if errors.Is(err, os.ErrNotExist) && spec.Dir != "" {
			if _, statErr := os.Stat(spec.Dir); statErr != nil {
				return nil, fmt.Errorf("start claude: working directory: %w", statErr)
			}
		}
		return nil, fmt.Errorf("start claude: %w", err)
	}
	childIn.Close()
	childOut.Close()
	childErr.Close()
	return p, nil
}

func (p *localProcess) Stdin() io.WriteCloser { return p.stdin }
func (p *localProcess) Stdout() io.Reader     { return p.stdout }
func (p *localProcess) Stderr() io.Reader     { return p.stderr }

func (p *localProcess) Signal(sig os.Signal) error { return signalGroup(p.cmd.Process, sig) }

func (p *localProcess) Wait() error {
	err := p.cmd.Wait()
	// The leader is gone; end what it left behind in its group.
	_ = signalGroup(p.cmd.Process, os.Kill)
	deadline := time.Now().Add(drainGrace)
	_ = p.stdout.SetReadDeadline(deadline)
	_ = p.stderr.SetReadDeadline(deadline)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		failed := &ExitError{Code: exit.ExitCode()}
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
			failed.Signal = status.Signal().String()
		}
		return failed
	}
	return err
}

// closePipes frees the parent's ends once nothing reads them any more.
func (p *localProcess) closePipes() {
	p.stdin.Close()
	p.stdout.Close()
	p.stderr.Close()
}
