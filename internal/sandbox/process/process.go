//go:build unix

// Package process runs sandboxes as child processes on the server's own machine:
// a sandboxd each, in a fresh folder, with a cleaned environment. It isolates
// nothing. A command can do what the server's user can, so it is used only where
// it was asked for by name, to try things out.
//
// A sandboxd outlives the server's process for some minutes and is found again by
// the lock that it holds on a file of its folder.
package process

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/agent"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// Warning is what a start must say where this driver is used.
const Warning = "BAE_SANDBOX_DRIVER=process isolates nothing: commands of a model run on this machine as the server's user"

// Options of a [Driver].
type Options struct {
	// Dir has a folder per sandbox.
	Dir string
	// Command starts sandboxd: its program and arguments.
	Command []string
	// URL is where the server is reached from this machine, without a path. It is
	// asked for at each start.
	URL func() string
	// Path is the PATH of commands.
	Path string
	// Lost is told that a sandbox ended by itself; nil when nobody wants to know.
	Lost   func(ctx context.Context, sandbox, detail string)
	Logger *slog.Logger
}

// Driver runs child processes. It implements [sandbox.Driver]; commands go
// through the queue.
type Driver struct {
	*queue.Queue
	o Options

	ctx  context.Context // of the children's ends
	stop context.CancelFunc
	work sync.WaitGroup
}

var _ sandbox.Driver = (*Driver)(nil)

// New returns a driver.
func New(q *queue.Queue, o Options) *Driver {
	d := &Driver{Queue: q, o: o}
	d.ctx, d.stop = context.WithCancel(context.Background())
	return d
}

// Name implements [sandbox.Driver].
func (d *Driver) Name() string { return "process" }

// Images implements [sandbox.Driver]. An image is but a name here.
func (d *Driver) Images(_ context.Context, names []string) []sandbox.ImageStatus {
	out := make([]sandbox.ImageStatus, len(names))
	for i, n := range names {
		out[i] = sandbox.ImageStatus{Name: n, Status: sandbox.ImageAvailable}
	}
	return out
}

const (
	lockFile = "lock"
	home     = "home"
	logFile  = "sandboxd.log"
	// enrollFor is how long a sandboxd may take until it takes commands.
	enrollFor = 30 * time.Second
	// endFor is how long it may take to end when told to.
	endFor = 3 * time.Second
)

// Start implements [sandbox.Driver].
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (err error) {
	dir, err := filepath.Abs(filepath.Join(d.o.Dir, s.ID))
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, home), 0o700)
	}
	if err != nil {
		return fmt.Errorf("make a folder for the sandbox: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Stop(context.WithoutCancel(ctx), s.ID))
		}
	}()
	code, err := d.Prepare(ctx, s.ID)
	if err != nil {
		return err
	}
	boot, err := json.Marshal(wire.Boot{URL: d.o.URL(), Sandbox: s.ID, Code: code, Dir: filepath.Join(dir, home), Lock: filepath.Join(dir, lockFile)})
	if err != nil {
		return err
	}
	child, err := d.spawn(dir, s.ID, boot)
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	enrolled, cancel := context.WithTimeout(ctx, enrollFor)
	defer cancel()
	go func() { // no reader of d.work: a sandboxd outlives this driver
		_ = child.Wait()
		close(ended)
		cancel()
	}()
	err = d.Enrolled(enrolled, s.ID)
	select {
	case <-ended:
		return fmt.Errorf("sandboxd ended at once: %s", d.lastWords(dir))
	default:
	}
	if err != nil {
		return fmt.Errorf("sandboxd did not report within %s: %w", enrollFor, err)
	}
	d.work.Go(func() { d.watch(s.ID, ended) })
	return nil
}

// spawn starts sandboxd in a session of its own, so that what interrupts the
// server does not end it.
func (d *Driver) spawn(dir, id string, boot []byte) (*exec.Cmd, error) {
	log, err := os.OpenFile(filepath.Join(dir, logFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the sandbox's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(d.o.Command[0], d.o.Command[1:]...)
	cmd.Dir = filepath.Join(dir, home)
	cmd.Env = []string{"PATH=" + d.o.Path, "HOME=" + cmd.Dir, "TMPDIR=" + cmd.Dir, "LANG=C.UTF-8", agent.Cookie + "=" + id}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Stdin, cmd.Stderr = bytes.NewReader(boot), log
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start sandboxd: %w", err)
	}
	return cmd, nil
}

func (d *Driver) lastWords(dir string) string {
	b, _ := os.ReadFile(filepath.Join(dir, logFile))
	if text := strings.TrimSpace(string(b)); text != "" {
		return text
	}
	return "it said nothing"
}

// watch tells when a sandboxd ends.
func (d *Driver) watch(id string, ended <-chan struct{}) {
	select {
	case <-ended:
	case <-d.ctx.Done():
		return
	}
	if _, err := os.Stat(filepath.Join(d.o.Dir, id)); err == nil && d.o.Lost != nil {
		d.o.Lost(d.ctx, id, "sandboxd has ended: "+d.lastWords(filepath.Join(d.o.Dir, id)))
	}
}

// Running implements [sandbox.Driver].
func (d *Driver) Running(_ context.Context, ids []string) (map[string]bool, error) {
	running := map[string]bool{}
	for _, id := range ids {
		if held(filepath.Join(d.o.Dir, id, lockFile)) {
			running[id] = true
		}
	}
	return running, nil
}

// held reports whether a process has the lock.
func held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(syscall.Flock(int(f.Fd()), syscall.LOCK_SH|syscall.LOCK_NB), syscall.EWOULDBLOCK)
}

// Stop implements [sandbox.Driver].
func (d *Driver) Stop(ctx context.Context, id string) error {
	if err := d.End(ctx, id); err != nil {
		return err
	}
	dir := filepath.Join(d.o.Dir, id)
	lock := filepath.Join(dir, lockFile)
	if held(lock) && !released(ctx, lock, endFor) {
		// It does not listen. While the lock is held, the number in it is its own.
		if pid := owner(lock); pid > 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		if !released(ctx, lock, endFor) {
			return fmt.Errorf("sandboxd of %s does not end", id)
		}
	}
	sweep(id)
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove the sandbox's folder: %w", err)
	}
	return nil
}

// released waits until nobody has the lock.
func released(ctx context.Context, lock string, d time.Duration) bool {
	for deadline := time.Now().Add(d); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(2 * time.Millisecond) {
		if !held(lock) {
			return true
		}
	}
	return !held(lock)
}

func owner(lock string) int {
	b, _ := os.ReadFile(lock)
	pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
	return pid
}

// Close implements [sandbox.Driver].
func (d *Driver) Close() error {
	d.stop()
	d.work.Wait()
	return nil
}
