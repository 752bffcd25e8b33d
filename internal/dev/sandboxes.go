package dev

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/docker"
	"github.com/lambae/lambae/internal/sandbox/queue"
)

// networkVariable names the engine's network that containers are put on; unset it
// is the engine's default.
const networkVariable = "BAE_SANDBOX_NETWORK"

// pingFor is how long a start waits for a container engine to answer.
const pingFor = 3 * time.Second

// sandboxes chooses the driver of sandboxes (admin-and-config, "Environment").
// clientURL is where this machine reaches the client API, once it is known.
func sandboxes(ctx context.Context, o Options, clientURL *atomic.Pointer[string]) (app.SandboxMaker, error) {
	switch o.Env.SandboxDriver {
	case config.SandboxNone:
		return nil, nil
	case config.SandboxProcess:
		return processMaker(o, clientURL)
	case config.SandboxFargate:
		return nil, fmt.Errorf("BAE_SANDBOX_DRIVER=fargate is for the deployed server: tasks on AWS cannot reach this machine; use docker, process or none")
	}
	d := docker.New(&docker.Options{Network: os.Getenv(networkVariable)})
	ping, cancel := context.WithTimeout(ctx, pingFor)
	defer cancel()
	if err := d.Ping(ping); err != nil {
		if o.Env.SandboxDriver == config.SandboxDocker {
			return nil, fmt.Errorf("BAE_SANDBOX_DRIVER=docker, but no container engine answers: %w", err)
		}
		o.Logger.Debug("no sandboxes: no container engine answers", "error", err)
		return nil, d.Close()
	}
	return func(*queue.Queue, func(context.Context, string, string)) (sandbox.Driver, error) { return d, nil }, nil
}

// folder is where the processes of sandboxes live: beside the store, which finds
// them again, or else where temporary files go.
func folder(env *config.Env) string {
	if env.Store.Path != "" {
		return filepath.Join(filepath.Dir(env.Store.Path), "sandboxes")
	}
	return filepath.Join(os.TempDir(), "lambae-sandboxes")
}

// localURL is how this machine reaches a listener.
func localURL(addr net.Addr) string {
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return "http://" + addr.String()
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}
