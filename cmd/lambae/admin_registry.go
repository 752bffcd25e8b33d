package main

import (
	"context"

	"github.com/lambae/lambae/sdk/lambae/admin"
)

func (a *app) providerListCommand() *command {
	var f listFlags
	c := a.adminCommandOf("list", "list the model providers", func(ctx context.Context, client *admin.Client, _ []string) error {
		providers, err := client.Providers(ctx)
		if err != nil {
			return err
		}
		return show(a, f, allOf(providers), []string{"NAME", "FORMAT", "MODEL", "BASE URL"},
			func(p admin.Provider) []string { return []string{p.Name, p.Provider, p.Model, orDash(p.BaseURL)} })
	})
	f.define(c.flags)
	return c
}

func (a *app) mcpListCommand() *command {
	var f listFlags
	c := a.adminCommandOf("list", "list the MCP servers", func(ctx context.Context, client *admin.Client, _ []string) error {
		servers, err := client.MCPServers(ctx)
		if err != nil {
			return err
		}
		return show(a, f, allOf(servers), []string{"NAME", "TRANSPORT"},
			func(s admin.MCPServer) []string { return []string{s.Name, s.Transport} })
	})
	f.define(c.flags)
	return c
}

func (a *app) configShowCommand() *command {
	c := a.adminCommandOf("show", "print the configuration as JSON", func(ctx context.Context, client *admin.Client, _ []string) error {
		config, err := client.Config(ctx)
		if err != nil {
			return err
		}
		return jsonDocument(a.stdout, config)
	})
	c.details = "Secrets are masked by the server."
	return c
}

func (a *app) sandboxStatusCommand() *command {
	var f listFlags
	c := a.adminCommandOf("status", "show which sandbox images are ready", func(ctx context.Context, client *admin.Client, _ []string) error {
		profiles, err := client.SandboxStatus(ctx)
		if err != nil {
			return err
		}
		if f.json {
			return show(a, f, allOf(profiles), nil, nil)
		}
		var images [][]string
		for _, profile := range profiles {
			for _, image := range profile.Images {
				images = append(images, []string{profile.ProfileID, image.Name, image.Status, orDash(image.Detail)})
			}
		}
		return show(a, f, allOf(images), []string{"PROFILE", "IMAGE", "STATUS", "DETAIL"}, func(row []string) []string { return row })
	})
	f.define(c.flags)
	return c
}
