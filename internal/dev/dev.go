// Package dev runs a whole server in one process: both ports, the embedded store
// or a DynamoDB table, and a graceful stop. It is what `lambae dev` starts.
package dev

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/embedded"
)

// Options of a server.
type Options struct {
	Env    *config.Env
	File   *config.File
	Logger *slog.Logger
	Rotate bool // --rotate-admin-key
	// Starter is set when the configuration is the one a first start writes: then
	// the first start also makes a profile and a client key.
	Starter bool
	// ClientKeyFile is where that key is written.
	ClientKeyFile string
	// Command is how the user calls this program, for the hints printed.
	Command string
	Out     io.Writer
}

// How often left-overs of crashes, and events past their retention, are looked for.
const (
	sweepEvery  = 10 * time.Minute
	retainEvery = time.Hour
)

// Run serves until ctx ends, then lets running turns finish for
// BAE_SHUTDOWN_TIMEOUT. Its error says what to do.
func Run(ctx context.Context, o Options) error {
	fatal := make(chan error, 1)
	t, err := openTable(ctx, o, func(err error) { fatal <- err })
	if err != nil {
		return err
	}
	parts := app.Parts{Table: t, File: o.File, Env: o.Env, Logger: o.Logger}
	addEdges(&parts)
	flush, err := addTelemetry(ctx, &parts)
	if err != nil {
		return errors.Join(err, t.Close())
	}
	defer flush()
	var clientURL atomic.Pointer[string]
	if parts.Sandboxes, err = sandboxes(ctx, o, &clientURL); err != nil {
		return errors.Join(err, t.Close())
	}
	a, err := app.New(parts)
	if err != nil {
		return errors.Join(err, t.Close())
	}
	defer func() {
		if err := a.Close(); err != nil {
			o.Logger.Error("store not closed", "error", err)
		}
	}()
	return serve(ctx, o, a, &clientURL, fatal)
}

func serve(ctx context.Context, o Options, a *app.App, clientURL *atomic.Pointer[string], fatal <-chan error) error {
	// The admin port and its key come first: who sees /healthz answer may rely on
	// both being there.
	outcome, err := a.Directory.EnsureAdminKey(ctx, session.AdminKeyOptions{File: o.Env.AdminKeyFile, HashFile: o.Env.AdminKeyHashFile, Rotate: o.Rotate})
	if err != nil {
		return err
	}
	adminPort, err := listen(o.Env.AdminAddr, "BAE_ADMIN_ADDR")
	if err != nil {
		return err
	}
	admin := server(a.Traced(a.AdminHandler(a.Directory.VerifyAdminKey)), o.Logger)
	clientPort, err := listen(o.Env.Addr, "BAE_ADDR")
	if err != nil {
		_ = adminPort.Close()
		return err
	}
	client := server(a.Traced(a.ClientHandler()), o.Logger)
	url := localURL(clientPort.Addr())
	clientURL.Store(&url)
	a.Sweep(ctx)
	if err := firstRun(ctx, o, a); err != nil {
		_, _ = adminPort.Close(), clientPort.Close()
		return err
	}
	greet(o, outcome, clientPort.Addr().String(), adminPort.Addr().String())

	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return up(admin.Serve(adminPort)) })
	g.Go(func() error { return up(client.Serve(clientPort)) })
	g.Go(func() error {
		sweep(ctx, a)
		return nil
	})
	g.Go(func() error {
		a.Sandboxes.Watch(ctx)
		return nil
	})
	g.Go(func() error {
		var failed error
		select {
		case <-ctx.Done():
			o.Logger.Info("stopping; running turns may finish", "timeout", o.Env.ShutdownTimeout)
		case failed = <-fatal:
		}
		stop(o, a, client, admin)
		return failed
	})
	return g.Wait()
}

// stop ends the servers: first what clients repeat by themselves, then, when
// turns have had their time, whatever is left.
func stop(o Options, a *app.App, servers ...*http.Server) {
	a.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), o.Env.ShutdownTimeout)
	defer cancel()
	halt := context.AfterFunc(ctx, a.Halt)
	defer halt()
	waitForSockets(a)
	grace, done := context.WithTimeout(context.Background(), o.Env.ShutdownTimeout+2*time.Second)
	defer done()
	for _, s := range servers {
		if err := s.Shutdown(grace); err != nil {
			o.Logger.Warn("requests cut off", "error", err)
			_ = s.Close()
		}
	}
}

// waitForSockets lets WebSockets say goodbye: a server's Shutdown does not know them.
func waitForSockets(a *app.App) {
	for deadline := time.Now().Add(10 * time.Second); a.Client.OpenSockets() > 0 && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
}

func sweep(ctx context.Context, a *app.App) {
	sweep, retain := time.NewTicker(sweepEvery), time.NewTicker(retainEvery)
	defer sweep.Stop()
	defer retain.Stop()
	for {
		select {
		case <-sweep.C:
			a.Sweep(ctx)
		case <-retain.C:
			a.Retain(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

func up(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func server(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute,
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug)}
}

func listen(addr, variable string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("%w; choose another address with %s", err, variable)
	}
	return l, nil
}

func openTable(ctx context.Context, o Options, fatal func(error)) (table.Table, error) {
	if name := o.Env.Store.Table; name != "" {
		return openDynamo(ctx, name)
	}
	return embedded.Open(o.Env.Store.Path, &embedded.Options{OnFatal: fatal})
}

// lookupEnv is the environment for ${NAME} references.
func lookupEnv(name string) (string, bool) { return os.LookupEnv(name) }
