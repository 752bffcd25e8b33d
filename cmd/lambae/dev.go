package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/dev"
	"github.com/lambae/lambae/internal/telemetry"
)

// devOptions are the flags of "lambae dev".
type devOptions struct {
	config, store, addr, adminAddr, adminKeyFile, data string
	rotateAdminKey                                     bool
}

func (a *app) devCommand() *command {
	c := newCommand("dev", "run the whole server on this machine")
	c.details = `Serves the client API and the admin API from one process until Ctrl-C, then
lets running turns finish. A first start without a configuration makes one,
with a profile and a client key, and prints what to try.

Each flag stands for a BAE_* variable and wins over it; see the README for all
variables.`
	var o devOptions
	c.flags.StringVar(&o.config, "config", "", "`file` with the configuration; default $BAE_CONFIG")
	c.flags.StringVar(&o.store, "store", "", "where sessions are kept, embedded:`path` or dynamodb:table; default $BAE_STORE")
	c.flags.StringVar(&o.addr, "addr", "", "`address` of the client API; default $BAE_ADDR or 127.0.0.1:8080")
	c.flags.StringVar(&o.adminAddr, "admin-addr", "", "`address` of the admin API, loopback only; default $BAE_ADMIN_ADDR or 127.0.0.1:8081")
	c.flags.StringVar(&o.adminKeyFile, "admin-key-file", "", "`file` to write the admin key to; default $BAE_ADMIN_KEY_FILE or .lambae/admin.key")
	c.flags.BoolVar(&o.rotateAdminKey, "rotate-admin-key", false, "replace the admin key by a new one")
	c.flags.StringVar(&o.data, "data", "", "`folder` for the keys and the embedded store; default $LAMBAE_HOME or .lambae")
	c.run = func(ctx context.Context, _ []string) error { return a.dev(ctx, o) }
	return c
}

// dev runs until ctx ends.
func (a *app) dev(ctx context.Context, o devOptions) error {
	home := home(cmp.Or(o.data, string(a.home())))
	env, err := config.ParseEnv(a.lookup(map[string]string{
		"BAE_CONFIG":         o.config,
		"BAE_STORE":          cmp.Or(o.store, a.env("BAE_STORE"), "embedded:"+filepath.Join(string(home), "lambae.db")),
		"BAE_ADDR":           o.addr,
		"BAE_ADMIN_ADDR":     o.adminAddr,
		"BAE_ADMIN_KEY_FILE": cmp.Or(o.adminKeyFile, a.env("BAE_ADMIN_KEY_FILE"), home.adminKeyFile()),
	}))
	if err != nil {
		return &usageError{err.Error()}
	}
	starter, err := a.starter(o, env, home)
	if err != nil {
		return err
	}
	file, err := config.Load(env.ConfigPath)
	if err != nil {
		return &usageError{err.Error()}
	}
	logger := slog.New(telemetry.NewLogHandler(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: env.LogLevel})))
	if _, err := os.Stat(env.ConfigPath); errors.Is(err, fs.ErrNotExist) {
		logger.Warn("there is no such configuration file: the server has no model providers", "file", env.ConfigPath)
	}
	for _, key := range file.Unused {
		logger.Warn("configuration key is not used", "file", env.ConfigPath, "key", key)
	}
	return dev.Run(ctx, dev.Options{
		Env: env, File: file, Logger: logger, Rotate: o.rotateAdminKey,
		Starter: starter, ClientKeyFile: home.clientKeyFile(), Command: os.Args[0], Out: a.stdout,
	})
}

// lookup is the environment with what the flags say on top.
func (a *app) lookup(flags map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v := cmp.Or(flags[name], a.env(name))
		return v, v != ""
	}
}

// starter sees to it that a start without any configuration has one, and
// reports whether the configuration is the one made here.
func (a *app) starter(o devOptions, env *config.Env, home home) (bool, error) {
	if o.config != "" || a.env("BAE_CONFIG") != "" {
		return false, nil
	}
	if _, err := os.Stat(env.ConfigPath); err == nil {
		return false, nil
	}
	env.ConfigPath = filepath.Join(string(home), "bae-config.toml")
	_, err := os.Stat(env.ConfigPath)
	if !errors.Is(err, fs.ErrNotExist) {
		return true, err
	}
	if err := os.MkdirAll(string(home), 0o700); err != nil {
		return true, fmt.Errorf("make the data folder: %w", err)
	}
	_, text := dev.StarterConfig(a.lookup(nil))
	if err := os.WriteFile(env.ConfigPath, []byte(text), 0o600); err != nil {
		return true, fmt.Errorf("write a first configuration: %w", err)
	}
	return true, nil
}
