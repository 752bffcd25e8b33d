package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/shell"
)

// folder is where a launched command keeps its input, the first bytes of both
// streams, its process group, and its exit code as soon as it has one.
func (d *Driver) folder(command string) string { return d.o.Runs + "/" + command }

// launch starts $2 in the background with the folder $1, keeping $3 bytes of each
// stream. Who finds the folder there has launched it before. The spools read on
// when they have enough, so that no command dies of its output.
const launch = `umask 077
mkdir -p "${1%/*}" || exit
mkdir "$1" 2>/dev/null || exit 0
cat >"$1/in"
spool() { head -c "$2" >"$1"; cat >/dev/null; }
(
	trap '' HUP
	{ { sh -c "$2" <"$1/in" 3>&-; echo $? >"$1/code~"; mv "$1/code~" "$1/code"; } 2>&1 1>&3 3>&- | spool "$1/err" "$3"; } 3>&1 | spool "$1/out" "$3"
) </dev/null >/dev/null 2>&1 &
echo $$ >"$1/group~"; mv "$1/group~" "$1/group"`

// await waits for the code of the command with the folder $1 and tells it, then
// the streams, each cut to $2 bytes. Output of processes that the command left in
// the background is not waited for longer than a moment.
const await = `nap() { sleep 0.1 2>/dev/null || sleep 1; }
[ -e "$1/group" ] || nap; [ -e "$1/group" ] || nap
[ -e "$1/group" ] || { echo none; exit; }
until [ -e "$1/code" ]; do nap; done
nap
echo "$(cat "$1/code")"
head -c "$2" "$1/out"
head -c "$2" "$1/err" >&2`

// kill ends the command with the folder $1. Its shell is killed with it, so the
// code is written here.
const kill = `[ -e "$1/group" ] && [ ! -e "$1/code" ] || exit 0
kill -9 -"$(cat "$1/group")" 2>/dev/null || kill -9 "$(cat "$1/group")" 2>/dev/null
[ -e "$1/code" ] || echo 137 >"$1/code"`

// Launch implements [sandbox.Driver].
func (d *Driver) Launch(ctx context.Context, id string, c sandbox.Command) error {
	r, err := d.script(ctx, id, launch, c.Stdin, d.folder(c.ID), c.Command, strconv.Itoa(sandbox.MaxOutput+1))
	if err != nil {
		return err
	}
	if r.code != 0 {
		return fmt.Errorf("launch a command in the container: %s", complaint(r.stderr.String(), r.code))
	}
	return nil
}

// Follow implements [sandbox.Driver].
func (d *Driver) Follow(ctx context.Context, id string, c sandbox.Command) (sandbox.Result, error) {
	limited, cancel := context.WithTimeoutCause(ctx, remaining(c), errTimeout)
	defer cancel()
	r, err := d.script(limited, id, await, "", d.folder(c.ID), strconv.Itoa(sandbox.MaxOutput+1))
	if errors.Is(err, errTimeout) {
		return sandbox.Result{ExitCode: 137, TimedOut: true}, d.Kill(context.WithoutCancel(ctx), id, c.ID)
	}
	if err != nil {
		return sandbox.Result{}, err
	}
	head, out, _ := bytes.Cut(r.stdout.Bytes(), []byte{'\n'})
	if string(head) == "none" {
		return sandbox.Result{}, sandbox.ErrNoCommand
	}
	code, err := strconv.Atoi(string(head))
	if err != nil || r.code != 0 {
		return sandbox.Result{}, fmt.Errorf("read a launched command's result: %s", complaint(r.stderr.String(), r.code))
	}
	res := sandbox.Result{ExitCode: code}
	var stdout, stderr sandbox.Buffer
	_, _ = stdout.Write(out)
	_, _ = stderr.Write(r.stderr.Bytes())
	var cutOut, cutErr bool
	res.Stdout, cutOut = stdout.Text()
	res.Stderr, cutErr = stderr.Text()
	res.Truncated = cutOut || cutErr
	return res, nil
}

var errTimeout = errors.New("the command's time is over")

// Kill implements [sandbox.Driver].
func (d *Driver) Kill(ctx context.Context, id, command string) error {
	_, err := d.script(ctx, id, kill, "", d.folder(command))
	if errors.Is(err, sandbox.ErrGone) {
		return nil
	}
	return err
}

// scripted is how a script of ours ended.
type scripted struct {
	stdout, stderr bytes.Buffer
	code           int
}

// script runs a script of ours in the container.
func (d *Driver) script(ctx context.Context, id, script, stdin string, args ...string) (*scripted, error) {
	var r scripted
	head := &header{mark: newMark(), rest: &r.stderr}
	// The script announces itself, since its own exit code must not be taken for
	// that of the docker command.
	whole := `printf '%s %s\n' "$0" "$$" >&2` + "\n" + script
	c := d.command(append([]string{"exec", "-i", d.container(id), "sh", "-c", whole, head.mark}, args...), &r.stdout, nil)
	c.Stderr, c.Stdin = head, []byte(stdin)
	exit, err := shell.Run(ctx, c)
	if group, begun := head.group(); begun && err != nil {
		d.killGroup(context.WithoutCancel(ctx), id, group)
	}
	if err != nil {
		return nil, err
	}
	if _, begun := head.group(); !begun {
		said := complaint(head.said(), exit.Code)
		if gone(said) {
			return nil, fmt.Errorf("%w: %s", sandbox.ErrGone, said)
		}
		return nil, errors.New(said)
	}
	r.code = exit.Code
	return &r, nil
}
