package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lambae/lambae/internal/sandbox/fargate"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// watchEvery is how often the control plane is looked at.
const watchEvery = 100 * time.Millisecond

// platform runs the tasks of the control plane as processes.
type platform struct {
	ecs      *ecs
	bucket   bucket
	dir      string // of the tasks' folders
	endpoint string // of the emulator
	logger   *slog.Logger
	// changed is told of tasks that have ended.
	changed func(ctx context.Context, task map[string]any) error

	mu    sync.Mutex
	tasks map[string]*process // by ARN
	work  sync.WaitGroup
}

// process is a task's.
type process struct {
	cluster string
	stop    context.CancelFunc // ends it with all that it has started
}

// watch keeps processes and tasks the same until ctx ends, and then ends them all.
func (p *platform) watch(ctx context.Context) {
	for ctx.Err() == nil {
		if running, err := p.ecs.running(ctx); err == nil {
			p.compare(ctx, running)
		} else if ctx.Err() == nil {
			p.logger.Warn("tasks not seen", "error", err)
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
		}
	}
	p.work.Wait()
}

// compare starts what is new and ends what was stopped.
func (p *platform) compare(ctx context.Context, running map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for arn, cluster := range running {
		if p.tasks[arn] == nil {
			mine, stop := context.WithCancel(ctx)
			p.tasks[arn] = &process{cluster, stop}
			p.work.Go(func() { p.task(mine, cluster, arn) })
		}
	}
	for arn, t := range p.tasks {
		if _, there := running[arn]; !there {
			t.stop()
		}
	}
}

// task runs one task to its end and tells of it.
func (p *platform) task(ctx context.Context, cluster, arn string) {
	reason := "Essential container in task exited"
	if err := p.containers(ctx, cluster, arn); err != nil {
		p.logger.Warn("task ended", "task", arn, "error", err)
		reason += ": " + err.Error()
	}
	// The news must be told although the task was stopped.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer cancel()
	err := p.ecs.stop(ctx, cluster, arn, reason)
	_, whole, described := p.ecs.describe(ctx, cluster, arn)
	if err = errors.Join(err, described); err == nil {
		err = p.changed(ctx, whole)
	}
	if err != nil {
		p.logger.Warn("end of a task not told", "task", arn, "error", err)
	}
	p.mu.Lock()
	delete(p.tasks, arn)
	p.mu.Unlock()
}

// containers does what the two containers of the task do.
func (p *platform) containers(ctx context.Context, cluster, arn string) error {
	t, _, err := p.ecs.describe(ctx, cluster, arn)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.dir, t.StartedBy+"-"+arn[strings.LastIndex(arn, "/")+1:])
	if err := os.MkdirAll(filepath.Join(dir, "work"), 0o755); err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	sandboxd := filepath.Join(dir, "sandboxd")
	if err := p.fetch(ctx, t.variable(fargate.InitName, fargate.DownloadVariable), sandboxd); err != nil {
		return fmt.Errorf("%s: fetch sandboxd: %w", fargate.InitName, err)
	}
	boot, err := p.reachable(t.variable(fargate.ContainerName, fargate.BootVariable))
	if err != nil {
		return fmt.Errorf("%s: %w", fargate.ContainerName, err)
	}
	cmd := exec.CommandContext(ctx, sandboxd)
	cmd.Dir = filepath.Join(dir, "work")
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + cmd.Dir, fargate.BootVariable + "=" + boot,
		"ECS_CONTAINER_METADATA_URI_V4=http://169.254.170.2/v4/stand-in"}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil // it was stopped
	}
	return err
}

// fetch gets a program. A process that is forked while its file is open for
// writing would keep it from being run.
func (p *platform) fetch(ctx context.Context, link, file string) error {
	program, err := p.bucket.get(ctx, link)
	if err != nil {
		return err
	}
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	return os.WriteFile(file, program, 0o755)
}

// reachable puts the emulator's address in place of a Function URL's host name,
// which only AWS has.
func (p *platform) reachable(boot string) (string, error) {
	var b wire.Boot
	if err := json.Unmarshal([]byte(boot), &b); err != nil {
		return "", fmt.Errorf("%s: %w", fargate.BootVariable, err)
	}
	u, err := url.Parse(b.URL)
	if err != nil {
		return "", err
	}
	if id, _, found := strings.Cut(u.Host, ".lambda-url."); found {
		b.URL = strings.TrimSuffix(p.endpoint, "/") + "/_aws/lambda-url/" + id
	}
	out, err := json.Marshal(b)
	return string(out), err
}
