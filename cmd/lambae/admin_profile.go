package main

import (
	"context"
	"flag"
	"fmt"
	"strconv"
	"strings"

	"github.com/lambae/lambae/sdk/lambae/admin"
)

// profileArg names a profile, by id or by its name.
var profileArg = argument{"profile id or name", false}

// profileFlags are those that set a profile, in the order they are asked for.
func profileFlags(flags *flag.FlagSet, spec *admin.ProfileSpec) {
	flags.StringVar(&spec.Name, "name", "", "`name`, unique")
	flags.StringVar(&spec.PrimaryProvider, "provider", "", "`provider` that answers, by its name in the configuration")
	flags.Var((*list)(&spec.FallbackProviders), "fallback", "`provider` to try when it fails; may repeat, in order")
	flags.Var((*list)(&spec.MCPServers), "mcp", "MCP `server` whose tools sessions have; may repeat")
	flags.Var((*list)(&spec.AllowedTools), "tool", "`name` of a tool that clients may declare; may repeat")
	flags.Var((*list)(&spec.AvailableSandboxes), "sandbox", "`image` that sandboxes may run; may repeat")
	flags.StringVar(&spec.SystemPrompt, "system-prompt", "", "`text` that models get before the conversation")
	flags.IntVar(&spec.EventTTLDays, "event-ttl-days", 0, "`days` to keep events; 0 for ever")
	flags.IntVar(&spec.SandboxIdleMinutes, "sandbox-idle-minutes", 0, "`minutes` until a sandbox that is not used stops; 0 for the server's default")
}

func (a *app) profileListCommand() *command {
	var f listFlags
	c := a.adminCommandOf("list", "list the profiles", func(ctx context.Context, client *admin.Client, _ []string) error {
		return show(a, f, client.Profiles(ctx), []string{"ID", "NAME", "PROVIDER", "FALLBACKS", "MCP", "TOOLS", "SANDBOXES"},
			func(p admin.Profile) []string {
				return []string{p.ID, p.Name, p.PrimaryProvider, joined(p.FallbackProviders), joined(p.MCPServers),
					joined(p.AllowedTools), joined(p.AvailableSandboxes)}
			})
	})
	f.define(c.flags)
	return c
}

func (a *app) profileShowCommand() *command {
	var asJSON bool
	c := a.adminCommandOf("show", "show one profile", func(ctx context.Context, client *admin.Client, args []string) error {
		profile, err := findProfile(ctx, client, args[0])
		if err != nil {
			return err
		}
		return a.showProfile(profile, asJSON)
	})
	c.args = []argument{profileArg}
	defineJSON(c.flags, &asJSON, "print JSON")
	return c
}

func (a *app) profileCreateCommand() *command {
	var spec admin.ProfileSpec
	var asJSON bool
	c := a.adminCommandOf("create", "create a profile", func(ctx context.Context, client *admin.Client, _ []string) error {
		created, err := client.CreateProfile(ctx, spec)
		if err != nil {
			return err
		}
		if asJSON {
			return jsonDocument(a.stdout, created)
		}
		_, err = fmt.Fprintf(a.stdout, "created profile %s (%s)\n", created.Name, created.ID)
		return err
	})
	c.check = func() error { return needed(spec) }
	profileFlags(c.flags, &spec)
	defineJSON(c.flags, &asJSON, "print JSON")
	return c
}

func (a *app) profileReplaceCommand() *command {
	var spec admin.ProfileSpec
	var asJSON bool
	c := a.adminCommandOf("replace", "set everything of a profile", func(ctx context.Context, client *admin.Client, args []string) error {
		profile, err := findProfile(ctx, client, args[0])
		if err != nil {
			return err
		}
		if profile, err = client.ReplaceProfile(ctx, profile.ID, spec); err != nil {
			return err
		}
		return a.showProfile(profile, asJSON)
	})
	c.args = []argument{profileArg}
	c.details = "What is not given is reset. To change a few things and keep the rest, use\n\"lambae admin profile edit\"."
	c.check = func() error { return needed(spec) }
	profileFlags(c.flags, &spec)
	defineJSON(c.flags, &asJSON, "print JSON")
	return c
}

func (a *app) profileEditCommand() *command {
	var spec admin.ProfileSpec
	var asJSON bool
	var c *command
	c = a.adminCommandOf("edit", "change what is given of a profile", func(ctx context.Context, client *admin.Client, args []string) error {
		profile, err := findProfile(ctx, client, args[0])
		if err != nil {
			return err
		}
		if profile, err = client.ReplaceProfile(ctx, profile.ID, edited(profile.ProfileSpec, spec, c.given())); err != nil {
			return err
		}
		return a.showProfile(profile, asJSON)
	})
	c.args = []argument{profileArg}
	c.details = "A list that is given replaces the old one; --tool= makes it empty."
	profileFlags(c.flags, &spec)
	defineJSON(c.flags, &asJSON, "print JSON")
	return c
}

func (a *app) profileDeleteCommand() *command {
	c := a.adminCommandOf("delete", "delete a profile that no key uses", func(ctx context.Context, client *admin.Client, args []string) error {
		profile, err := findProfile(ctx, client, args[0])
		if err != nil {
			return err
		}
		if err := client.DeleteProfile(ctx, profile.ID); err != nil {
			return err
		}
		_, err = fmt.Fprintf(a.stdout, "deleted profile %s (%s)\n", profile.Name, profile.ID)
		return err
	})
	c.args = []argument{profileArg}
	return c
}

// needed checks what a profile cannot be without.
func needed(spec admin.ProfileSpec) error {
	if strings.TrimSpace(spec.Name) == "" {
		return usagef("--name is needed")
	}
	if strings.TrimSpace(spec.PrimaryProvider) == "" {
		return usagef("--provider is needed; see lambae admin provider list")
	}
	return nil
}

// edited is old with what was given of change.
func edited(old, change admin.ProfileSpec, given map[string]bool) admin.ProfileSpec {
	for name, take := range map[string]func(){
		"name":                 func() { old.Name = change.Name },
		"provider":             func() { old.PrimaryProvider = change.PrimaryProvider },
		"fallback":             func() { old.FallbackProviders = change.FallbackProviders },
		"mcp":                  func() { old.MCPServers = change.MCPServers },
		"tool":                 func() { old.AllowedTools = change.AllowedTools },
		"sandbox":              func() { old.AvailableSandboxes = change.AvailableSandboxes },
		"system-prompt":        func() { old.SystemPrompt = change.SystemPrompt },
		"event-ttl-days":       func() { old.EventTTLDays = change.EventTTLDays },
		"sandbox-idle-minutes": func() { old.SandboxIdleMinutes = change.SandboxIdleMinutes },
	} {
		if given[name] {
			take()
		}
	}
	return old
}

// findProfile takes an id or a name.
func findProfile(ctx context.Context, client *admin.Client, name string) (*admin.Profile, error) {
	if strings.HasPrefix(name, "pro_") {
		return client.Profile(ctx, name)
	}
	var names []string
	for profile, err := range client.Profiles(ctx) {
		if err != nil {
			return nil, err
		}
		if profile.Name == name {
			return &profile, nil
		}
		names = append(names, profile.Name)
	}
	return nil, fmt.Errorf("no profile has the name %q%s", name, didYouMean(name, names, ""))
}

func (a *app) showProfile(profile *admin.Profile, asJSON bool) error {
	if asJSON {
		return jsonDocument(a.stdout, profile)
	}
	days := "for ever"
	if profile.EventTTLDays > 0 {
		days = strconv.Itoa(profile.EventTTLDays) + " days"
	}
	idle := "after the server's default"
	if profile.SandboxIdleMinutes > 0 {
		idle = fmt.Sprintf("after %d minutes", profile.SandboxIdleMinutes)
	}
	return aligned(a.stdout, [][]string{
		{"id", profile.ID},
		{"name", profile.Name},
		{"provider", profile.PrimaryProvider},
		{"fallbacks", joined(profile.FallbackProviders)},
		{"mcp servers", joined(profile.MCPServers)},
		{"allowed tools", joined(profile.AllowedTools)},
		{"sandboxes", joined(profile.AvailableSandboxes)},
		{"sandbox stops", idle},
		{"system prompt", orDash(profile.SystemPrompt)},
		{"events kept", days},
		{"created", when(&profile.CreatedAt, "-")},
		{"updated", when(&profile.UpdatedAt, "-")},
	})
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
