// Package dockertest has a docker command for tests on machines without an
// engine: it knows the few subcommands the docker driver uses and runs processes
// in place of containers. It isolates nothing and needs Linux.
package dockertest

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Engine is a stand-in with containers of its own.
type Engine struct {
	Command string   // the docker command
	Root    string   // its state: a folder per container
	Env     []string // the environment that makes the command use Root
}

var build = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "docker-stand-in")
	if err != nil {
		return "", err
	}
	command := filepath.Join(dir, "docker")
	out, err := exec.Command("go", "build", "-o", command, "github.com/lambae/lambae/internal/sandbox/docker/dockertest/standin").CombinedOutput()
	if err != nil {
		return "", &buildError{string(out), err}
	}
	return command, nil
})

type buildError struct {
	said string
	err  error
}

func (e *buildError) Error() string {
	return "build the docker stand-in: " + e.err.Error() + "\n" + e.said
}

// New returns a stand-in whose containers end with the test. Images whose name
// begins with "missing" cannot be pulled; those with "slow" are not there until
// [Engine.FinishPulls]; all others are there.
func New(t testing.TB) *Engine {
	t.Helper()
	command, err := build()
	if err != nil {
		t.Fatal(err)
	}
	e := &Engine{Command: command, Root: t.TempDir()}
	e.Env = append(os.Environ(), "DOCKER_STAND_IN="+e.Root)
	t.Cleanup(func() {
		for _, c := range e.Containers() {
			e.Kill(t, c)
		}
	})
	return e
}

// Containers are the names of the containers there are.
func (e *Engine) Containers() (names []string) {
	found, _ := filepath.Glob(filepath.Join(e.Root, "containers", "*"))
	for _, f := range found {
		names = append(names, filepath.Base(f))
	}
	return names
}

// Kill ends a container as a crash would.
func (e *Engine) Kill(t testing.TB, container string) {
	cmd := exec.Command(e.Command, "stop", container)
	cmd.Env = e.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Logf("container %s not killed: %s", container, out)
	}
}

// FinishPulls lets the pulls of slow images end.
func (e *Engine) FinishPulls(t testing.TB) {
	if err := os.WriteFile(filepath.Join(e.Root, "pulled"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Args are the arguments of every run so far, one run a line.
func (e *Engine) Args(t testing.TB) string {
	b, err := os.ReadFile(filepath.Join(e.Root, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
