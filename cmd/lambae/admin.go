package main

import (
	"context"
	"flag"
	"fmt"
	"iter"

	"github.com/lambae/lambae/sdk/lambae/admin"
)

func (a *app) adminCommand() *command {
	group := newGroup("admin", "look after a server: profiles, keys, sessions",
		newGroup("profile", "profiles: what the clients of a key can use",
			a.profileListCommand(), a.profileShowCommand(), a.profileCreateCommand(),
			a.profileReplaceCommand(), a.profileEditCommand(), a.profileDeleteCommand()),
		newGroup("key", "client keys", a.keyListCommand(), a.keyCreateCommand(), a.keyRevokeCommand()),
		newGroup("session", "sessions of all clients", a.sessionListCommand(), a.sessionEventsCommand()),
		newGroup("provider", "model providers the server is configured with", a.providerListCommand()),
		newGroup("mcp", "MCP servers the server is configured with", a.mcpListCommand()),
		newGroup("config", "the server's configuration", a.configShowCommand()),
		newGroup("sandbox", "sandbox images of the profiles", a.sandboxStatusCommand()),
	)
	group.details = `The admin API of a server on this machine is at ` + defaultAdminURL + `; its key is in
.lambae/admin.key. A server on AWS is found by its stage, with --aws; requests are then
signed with your AWS credentials.`
	var o adminFlags
	defineAWS(group.flags, &o.aws)
	return group
}

// adminCommandOf makes a command that talks to the admin API.
func (a *app) adminCommandOf(name, summary string, run func(ctx context.Context, client *admin.Client, args []string) error) *command {
	c := newCommand(name, summary)
	var o adminFlags
	o.define(c.flags)
	c.run = func(ctx context.Context, args []string) error {
		client, err := a.admin(ctx, o)
		if err != nil {
			return err
		}
		return run(ctx, client, args)
	}
	return c
}

// listFlags are those of every list.
type listFlags struct {
	limit int
	json  bool
}

func (f *listFlags) define(flags *flag.FlagSet) {
	flags.IntVar(&f.limit, "limit", 0, "show at most `n`; default all")
	defineJSON(flags, &f.json, "print JSON, one object a line")
}

func defineJSON(flags *flag.FlagSet, target *bool, usage string) {
	flags.BoolVar(target, "json", false, usage)
}

// show writes a list as a table or as JSON.
func show[T any](a *app, f listFlags, items iter.Seq2[T, error], headers []string, row func(T) []string) error {
	var rows [][]string
	shown := 0
	for item, err := range items {
		if err != nil {
			return err
		}
		if f.json {
			if err := jsonLine(a.stdout, item); err != nil {
				return err
			}
		} else {
			rows = append(rows, row(item))
		}
		if shown++; shown == f.limit {
			break
		}
	}
	if f.json {
		return nil
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.stderr, "none")
		return nil
	}
	return table(a.stdout, headers, rows)
}

// allOf is a list that comes whole.
func allOf[T any](items []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, item := range items {
			if !yield(item, nil) {
				return
			}
		}
	}
}
