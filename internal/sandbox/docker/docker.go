// Package docker runs sandboxes as containers, through the docker command, so
// that Podman and remote contexts work as well. A container does nothing but
// sleep; commands come by "docker exec". Containers are found again by name and
// label, and what was launched in one keeps its state in a folder of the container, so that neither needs this process to live.
package docker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/shell"
)

// Options of a [Driver]. The zero value works.
type Options struct {
	// Command is the docker command; docker by default.
	Command string
	// Env is its environment; nil is this process's.
	Env []string
	// Memory, CPUs and PIDs bound a container: 2g, 2 and 512 by default.
	Memory string
	CPUs   string
	PIDs   int
	// Network is the containers' network; the engine's default when empty.
	Network string
	// Runs is the folder in the containers where launched commands keep their
	// state; /tmp/.lambae by default.
	Runs string
}

// Driver runs containers. It implements [sandbox.Driver].
type Driver struct {
	o Options

	mu     sync.Mutex
	ids    map[string]string // containers this process started, by sandbox
	images map[string]*image

	stop   context.CancelFunc
	ctx    context.Context // of pulls
	pulls  sync.WaitGroup
	closed sync.Once
}

var _ sandbox.Driver = (*Driver)(nil)

// label marks our containers. Its value is the sandbox's id.
const label = "lambae.sandbox"

// stopGrace is what a container gets between the signal and its death. Nothing
// in it is worth more: a stop is the end of a sandbox.
const stopGrace = 1

// New returns a driver. It does not ask whether there is an engine, see [Driver.Ping].
func New(o *Options) *Driver {
	d := &Driver{ids: map[string]string{}, images: map[string]*image{}}
	if o != nil {
		d.o = *o
	}
	if d.o.Command == "" {
		d.o.Command = "docker"
	}
	if d.o.Memory == "" {
		d.o.Memory = "2g"
	}
	if d.o.CPUs == "" {
		d.o.CPUs = "2"
	}
	if d.o.Runs == "" {
		d.o.Runs = "/tmp/.lambae"
	}
	if d.o.PIDs == 0 {
		d.o.PIDs = 512
	}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// Name implements [sandbox.Driver].
func (d *Driver) Name() string { return "docker" }

// Ping asks whether an engine answers.
func (d *Driver) Ping(ctx context.Context) error {
	_, err := d.docker(ctx, "version", "--format={{.Server.Version}}")
	return err
}

// Start implements [sandbox.Driver]. The container cannot gain privileges, has no
// capabilities, no mounts of the host, and bounded processes, memory and CPUs.
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) error {
	if err := d.ensure(ctx, s.Image); err != nil {
		return err
	}
	args := []string{
		"run", "-d", "--rm", "--init", "--name=" + name(s.ID),
		"--label=" + label + "=" + s.ID, "--label=lambae.session=" + s.Session,
		"--security-opt=no-new-privileges", "--cap-drop=ALL",
		fmt.Sprintf("--pids-limit=%d", d.o.PIDs), "--memory=" + d.o.Memory, "--memory-swap=" + d.o.Memory, "--cpus=" + d.o.CPUs,
		"--log-driver=none", "--entrypoint=",
	}
	if d.o.Network != "" {
		args = append(args, "--network="+d.o.Network)
	}
	out, err := d.docker(ctx, append(args, s.Image, "sleep", "infinity")...)
	if err != nil {
		// What was half made must not stay behind.
		_ = d.Stop(context.WithoutCancel(ctx), s.ID)
		return err
	}
	lines := strings.Fields(out)
	if len(lines) == 0 {
		return errors.New("docker run did not say which container it started")
	}
	d.mu.Lock()
	d.ids[s.ID] = lines[len(lines)-1]
	d.mu.Unlock()
	return nil
}

// Stop implements [sandbox.Driver].
func (d *Driver) Stop(ctx context.Context, id string) error {
	_, err := d.docker(ctx, "stop", fmt.Sprintf("-t=%d", stopGrace), d.container(id))
	d.mu.Lock()
	delete(d.ids, id)
	d.mu.Unlock()
	if err != nil && !gone(err.Error()) {
		return err
	}
	return nil
}

// Running implements [sandbox.Driver].
func (d *Driver) Running(ctx context.Context, ids []string) (map[string]bool, error) {
	out, err := d.docker(ctx, "ps", "--no-trunc", "--filter=label="+label, "--format={{.Names}}")
	if err != nil {
		return nil, err
	}
	running := map[string]bool{}
	for _, n := range strings.Fields(out) {
		if id, ours := strings.CutPrefix(n, namePrefix); ours {
			running[id] = true
		}
	}
	for _, id := range ids {
		if !running[id] {
			delete(running, id)
		}
	}
	return running, nil
}

// Close implements [sandbox.Driver].
func (d *Driver) Close() error {
	d.closed.Do(func() {
		d.stop()
		d.pulls.Wait()
	})
	return nil
}

const namePrefix = "lambae-"

func name(id string) string { return namePrefix + id }

// container is what the engine knows a sandbox by.
func (d *Driver) container(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.ids[id]; c != "" {
		return c
	}
	return name(id)
}

// gone reports whether the engine's complaint is that there is no such container
// any more.
func gone(complaint string) bool {
	c := strings.ToLower(complaint)
	return strings.Contains(c, "no such container") || strings.Contains(c, "is not running") ||
		strings.Contains(c, "no container with name") || strings.Contains(c, "container state improper")
}

// docker runs the docker command and returns its output. Its error is what the
// command complained of.
func (d *Driver) docker(ctx context.Context, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	exit, err := shell.Run(ctx, d.command(args, &stdout, &stderr))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s %s: %w", d.o.Command, args[0], err)
	case exit.Code != 0:
		return "", errors.New(complaint(stderr.String(), exit.Code))
	}
	return stdout.String(), nil
}

func (d *Driver) command(args []string, stdout, stderr io.Writer) shell.Command {
	return shell.Command{Args: append([]string{d.o.Command}, args...), Env: d.environ(), Stdout: stdout, Stderr: stderr}
}

// complaint is what the docker command says went wrong, for people.
func complaint(stderr string, code int) string {
	text := strings.TrimSpace(strings.ToValidUTF8(stderr, "\uFFFD"))
	for _, prefix := range []string{"docker: ", "Error response from daemon: ", "Error: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	if text == "" {
		return fmt.Sprintf("the docker command ended with code %d and no word", code)
	}
	const most = 2000
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}

func newMark() string {
	b := make([]byte, 12)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return "lambae:" + hex.EncodeToString(b)
}

// remaining is what is left of a launched command's time-out.
func remaining(c sandbox.Command) time.Duration {
	if c.Started.IsZero() {
		return c.Timeout
	}
	return max(c.Timeout-time.Since(c.Started), time.Millisecond)
}
