package main

import (
	"context"
	"errors"
)

// devOptions are the flags of "lambae dev".
type devOptions struct {
	config, store, addr, adminAddr, adminKeyFile, data string
	rotateAdminKey                                     bool
}

func (a *app) devCommand() *command {
	c := newCommand("dev", "run the whole server on this machine")
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
func (a *app) dev(context.Context, devOptions) error {
	return errors.New("this build holds the clients only, no server")
}
