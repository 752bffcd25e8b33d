package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/shell"
)

// announce runs a command after a line on standard error that says that it runs,
// and as which process group: the engine makes each exec a session of its own.
// Without that line, what docker says and its exit code are the engine's.
const announce = `printf '%s %s\n' "$1" "$$" >&2; exec sh -c "$2"`

// Exec implements [sandbox.Driver].
func (d *Driver) Exec(ctx context.Context, id string, c sandbox.Command) (sandbox.Result, error) {
	var stdout, stderr sandbox.Buffer
	mark := newMark()
	head := &header{mark: mark, rest: tee(&stderr, sandbox.OutputWriter(c.Output, "stderr"))}
	run := shell.Command{
		Args: []string{d.o.Command, "exec", "-i", d.container(id), "sh", "-c", announce, "sh", mark, c.Command},
		Env:  d.environ(), Stdin: []byte(c.Stdin), Timeout: c.Timeout,
		Stdout: tee(&stdout, sandbox.OutputWriter(c.Output, "stdout")), Stderr: head,
	}
	exit, err := shell.Run(ctx, run)
	group, begun := head.group()
	if begun && (err != nil || exit.TimedOut) {
		// The docker command is dead; what it started is not.
		d.killGroup(context.WithoutCancel(ctx), id, group)
	}
	switch {
	case err != nil:
		return sandbox.Result{}, err
	case exit.TimedOut && !begun:
		return sandbox.Result{}, fmt.Errorf("the engine did not start the command within %s", c.Timeout)
	case !begun:
		said := complaint(head.said(), exit.Code)
		if gone(said) {
			return sandbox.Result{}, fmt.Errorf("%w: %s", sandbox.ErrGone, said)
		}
		return sandbox.Result{}, errors.New(said)
	}
	r := sandbox.Result{ExitCode: exit.Code, TimedOut: exit.TimedOut}
	if exit.TimedOut {
		r.ExitCode = 137
	}
	var cutOut, cutErr bool
	r.Stdout, cutOut = stdout.Text()
	r.Stderr, cutErr = stderr.Text()
	r.Truncated = cutOut || cutErr
	return r, nil
}

func (d *Driver) environ() []string {
	if d.o.Env != nil {
		return d.o.Env
	}
	return os.Environ()
}

// killGroup kills a process group in the container. There is no use in an error:
// the container or the group is gone.
func (d *Driver) killGroup(ctx context.Context, id, group string) {
	_, _ = d.docker(ctx, "exec", d.container(id), "sh", "-c", `kill -9 -"$1" 2>/dev/null || kill -9 "$1"`, "sh", group)
}

func tee(a io.Writer, b io.Writer) io.Writer {
	if b == nil {
		return a
	}
	return io.MultiWriter(a, b)
}

// header takes the announcing line off a stream.
type header struct {
	mark string
	rest io.Writer
	line []byte
	pid  string
	done bool // the first line was seen, or is not ours
}

// maxHeader is more than any announcing line has.
const maxHeader = 4096

func (h *header) Write(p []byte) (int, error) {
	if h.done {
		if h.pid == "" {
			h.keep(p)
			return len(p), nil
		}
		return h.rest.Write(p)
	}
	h.keep(p)
	line, rest, whole := bytes.Cut(h.line, []byte{'\n'})
	if !whole {
		return len(p), nil
	}
	h.done = true
	pid, ours := strings.CutPrefix(strings.TrimSuffix(string(line), "\r"), h.mark+" ")
	if _, err := strconv.Atoi(pid); !ours || err != nil {
		return len(p), nil
	}
	h.pid = pid
	if len(rest) > 0 {
		if _, err := h.rest.Write(rest); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// keep collects what the engine says instead of our line. Once the line has come
// the rest of the very same write may be longer than what is kept of a complaint.
func (h *header) keep(p []byte) {
	if h.done {
		p = p[:min(len(p), max(0, maxHeader-len(h.line)))]
	}
	h.line = append(h.line, p...)
}

func (h *header) group() (string, bool) { return h.pid, h.pid != "" }
func (h *header) said() string          { return string(h.line) }
