// Package app wires a server of its parts: a table below, handlers above. What
// differs between a laptop and Lambda is which table and which edges come in;
// everything from there on is the same.
package app

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/lambae/lambae/internal/api"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/mcp"
	"github.com/lambae/lambae/internal/provider"
	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/telemetry"
	"github.com/lambae/lambae/internal/turn"
)

// Version is the release, as GET /api/v1/meta tells it.
const Version = "0.1.0"

// Parts are what an [App] is made of.
type Parts struct {
	Table  table.Table
	File   *config.File
	Env    *config.Env
	Logger *slog.Logger
	// Resolve replaces ${…} at the moment of use.
	Resolve func(ctx context.Context, s string) (string, error)
	// Bedrock makes the client of bedrock entries; nil where none is linked.
	Bedrock func(ctx context.Context, baseURL string) (provider.BedrockClient, error)
	Region  string
	// Telemetry is nil when it is off.
	Telemetry *telemetry.Telemetry
	// Sandboxes makes the driver of sandboxes; nil when there is none.
	Sandboxes SandboxMaker
	// Ring and Doorbell are the two ends of sandboxes' doorbells that a gateway
	// holds: how one is rung, by its connection, and the URL at which a sandbox
	// listens, with {sandbox_id} in place of the sandbox.
	Ring     func(ctx context.Context, bell string)
	Doorbell string
	// Platform is set where requests have a time limit and answers a size limit.
	Platform bool
}

// SandboxMaker makes a driver. Commands may go through the queue. lost is to be
// called when a sandbox has ended by itself.
type SandboxMaker func(q *queue.Queue, lost func(ctx context.Context, id, detail string)) (sandbox.Driver, error)

// App is a server ready to serve.
type App struct {
	Store     *session.Store
	Directory *session.Directory
	Client    *api.Client
	Engine    *turn.Engine
	MCP       *mcp.Pool
	Sandboxes *turn.Sandboxes

	parts Parts
	stop  context.CancelCauseFunc
	halt  context.CancelCauseFunc
}

// New wires an App. It starts nothing that must be stopped but what [App.Close] does.
func New(p Parts) (*App, error) {
	registry, err := provider.NewRegistry(p.File.Providers, provider.Options{Resolve: p.Resolve, Bedrock: p.Bedrock, Region: p.Region, Wrap: p.Telemetry.Transport})
	if err != nil {
		return nil, fmt.Errorf("providers: %w", err)
	}
	a := &App{
		Store:     session.NewStore(p.Table, &session.Options{Logger: p.Logger, TurnTimeout: p.Env.TurnTimeout}),
		Directory: session.NewDirectory(p.Table, time.Now),
		parts:     p,
	}
	if len(p.File.MCP) > 0 {
		servers := make([]mcp.Server, len(p.File.MCP))
		for i, s := range p.File.MCP {
			servers[i] = mcp.Server(s)
		}
		a.MCP = mcp.NewPool(servers, &mcp.Options{Resolve: p.Resolve, Logger: p.Logger, Version: Version})
	}
	var stopping, halted context.Context
	stopping, a.stop = context.WithCancelCause(context.Background())
	halted, a.halt = context.WithCancelCause(context.Background())
	orders := queue.New(p.Table, &queue.Options{Ring: p.Ring})
	driver, err := a.sandboxDriver(p, orders)
	if err != nil {
		return nil, fmt.Errorf("sandboxes: %w", err)
	}
	a.Sandboxes = turn.NewSandboxes(turn.SandboxOptions{Driver: driver, Store: a.Store, Directory: a.Directory, Logger: p.Logger,
		MaxSubagents: p.Env.MaxSubagentsPerSession, SubagentTimeout: p.Env.SubagentTimeout, Transient: p.Platform, Expel: orders.End})
	a.Engine = &turn.Engine{Providers: registry, MCP: a.MCP, Sandboxes: a.Sandboxes, Telemetry: p.Telemetry, Logger: p.Logger, Halted: halted}
	a.Client = &api.Client{Store: a.Store, Directory: a.Directory, Engine: a.Engine, Providers: registry, MCP: a.MCP,
		Logger: p.Logger, Version: Version, Stopping: stopping}
	a.Client.Agents = &api.Agents{Queue: orders, Doorbell: p.Doorbell, Ended: a.Sandboxes.Ended, Failed: a.Sandboxes.NotRun}
	a.Engine.Ending = a.Client.Ending
	if p.Platform {
		a.Client.LimitMargin = 30 * time.Second
		a.Client.StreamLimit = 180 << 20
	}
	return a, nil
}

func (a *App) sandboxDriver(p Parts, orders *queue.Queue) (sandbox.Driver, error) {
	if p.Sandboxes == nil {
		return nil, nil
	}
	return p.Sandboxes(orders, func(ctx context.Context, id, detail string) {
		if err := a.Sandboxes.Lost(ctx, id, detail); err != nil {
			p.Logger.Warn("end of a sandbox not noted yet", "sandbox", id, "error", err)
		}
	})
}

// ClientHandler serves the client API.
func (a *App) ClientHandler() http.Handler { return a.Client.Handler() }

// AdminHandler serves the admin API. Without authenticate the platform in front
// must have authenticated the caller.
func (a *App) AdminHandler(authenticate func(ctx context.Context, secret string) error) http.Handler {
	return api.NewAdmin(api.AdminDeps{
		Directory: a.Directory,
		Config:    a.parts.File,
		Providers: a.Engine.Providers.List(),
		Events: func(ctx context.Context, id, cursor string, limit int) ([]json.RawMessage, *string, error) {
			return a.Client.Events(ctx, id, cursor, limit)
		},
		State: a.Store.Logged,
		Images: func(ctx context.Context, images []string) ([]api.ImageStatus, error) {
			return a.Engine.ImageStatuses(ctx, images), nil
		},
		Revoke:       a.Client.RevokeIn,
		Authenticate: authenticate,
		Logger:       a.parts.Logger,
		Now:          time.Now,
	})
}

// Traced makes a span of each request to h. Without telemetry it is h itself.
func (a *App) Traced(h http.Handler) http.Handler {
	if a.parts.Telemetry == nil {
		return h
	}
	return api.Routed(a.parts.Telemetry.Handler(h, api.Route))
}

// Sweep finishes what crashed processes left: revocations, sandboxes, and parts of
// writes that were given up. It is run at a start and now and then.
func (a *App) Sweep(ctx context.Context) {
	if err := a.Directory.FinishRevocations(ctx, a.Client.RevokeIn); err != nil {
		a.parts.Logger.Warn("revocations not finished", "error", err)
	}
	if err := a.Sandboxes.Sweep(ctx); err != nil {
		a.parts.Logger.Warn("sandboxes not all looked after", "error", err)
	}
	if err := a.Store.SweepParts(ctx, time.Hour); err != nil {
		a.parts.Logger.Warn("left-over parts not swept", "error", err)
	}
}

// Drain ends subscriptions and waiting calls, which clients repeat. Running
// turns go on.
func (a *App) Drain() { a.stop(api.ErrShutdown) }

// Halt closes the turns that still run, as broken.
func (a *App) Halt() { a.halt(api.ErrShutdown) }

// Close ends the connections to MCP servers and the table, after the last request.
func (a *App) Close() error {
	a.Drain()
	a.Halt()
	if a.MCP != nil {
		_ = a.MCP.Close()
	}
	_ = a.Sandboxes.Close()
	return a.parts.Table.Close()
}
