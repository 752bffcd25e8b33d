//go:build unix

package dev

import (
	"context"
	"os"
	"sync/atomic"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/process"
	"github.com/lambae/lambae/internal/sandbox/queue"
)

func processMaker(o Options, clientURL *atomic.Pointer[string]) (app.SandboxMaker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o.Logger.Warn(process.Warning)
	return func(q *queue.Queue, lost func(context.Context, string, string)) (sandbox.Driver, error) {
		return process.New(q, process.Options{Dir: folder(o.Env), Command: []string{self, "sandboxd"}, Path: os.Getenv("PATH"), Lost: lost,
			Logger: o.Logger, URL: func() string { return *clientURL.Load() }}), nil
	}, nil
}
