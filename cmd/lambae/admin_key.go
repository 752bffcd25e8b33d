package main

import (
	"context"
	"fmt"

	"github.com/lambae/lambae/sdk/lambae/admin"
)

func (a *app) keyListCommand() *command {
	var f listFlags
	c := a.adminCommandOf("list", "list the active client keys", func(ctx context.Context, client *admin.Client, _ []string) error {
		return show(a, f, client.Keys(ctx), []string{"ID", "NAME", "PREFIX", "PROFILE", "CREATED", "LAST USED"},
			func(k admin.Key) []string {
				return []string{k.ID, k.Name, k.Prefix, k.ProfileID, when(&k.CreatedAt, "-"), when(k.LastUsedAt, "never")}
			})
	})
	f.define(c.flags)
	return c
}

func (a *app) keyCreateCommand() *command {
	var name, profileName string
	var asJSON, quiet bool
	c := a.adminCommandOf("create", "create a client key", func(ctx context.Context, client *admin.Client, _ []string) error {
		profile, err := findProfile(ctx, client, profileName)
		if err != nil {
			return err
		}
		created, err := client.CreateKey(ctx, name, profile.ID)
		if err != nil {
			return err
		}
		return a.showNewKey(created, profile.Name, asJSON, quiet)
	})
	c.check = func() error {
		if name == "" {
			return usagef("--name is needed")
		}
		if profileName == "" {
			return usagef("--profile is needed; see lambae admin profile list")
		}
		return nil
	}
	c.details = `The key is shown once: the server keeps only its hash. For scripts:

  export BAE_CLIENT_KEY=$(lambae admin key create --name ci --profile main --quiet)`
	c.flags.StringVar(&name, "name", "", "`name` to tell keys apart")
	c.flags.StringVar(&profileName, "profile", "", "`profile` of its sessions, by id or name")
	c.flags.BoolVar(&quiet, "quiet", false, "print the key and nothing else")
	defineJSON(c.flags, &asJSON, "print JSON")
	return c
}

func (a *app) showNewKey(created *admin.CreatedKey, profile string, asJSON, quiet bool) error {
	if asJSON {
		return jsonDocument(a.stdout, created)
	}
	if quiet {
		_, err := fmt.Fprintln(a.stdout, created.Key)
		return err
	}
	err := aligned(a.stdout, [][]string{
		{"id", created.ID},
		{"name", created.Name},
		{"profile", profile + " (" + created.ProfileID + ")"},
		{"key", created.Key},
	})
	fmt.Fprintln(a.stderr, "Keep the key now: it is not shown again.")
	return err
}

func (a *app) keyRevokeCommand() *command {
	c := a.adminCommandOf("revoke", "end a client key for good", func(ctx context.Context, client *admin.Client, args []string) error {
		if err := client.RevokeKey(ctx, args[0]); err != nil {
			return err
		}
		_, err := fmt.Fprintf(a.stdout, "revoked key %s\n", args[0])
		return err
	})
	c.args = []argument{{"key id", false}}
	c.details = "Its session keys stop working with it; sessions that no other key has entered\nare closed."
	return c
}
