package dev

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/session"
)

// StarterConfig is the configuration a first start writes when it is given none:
// the provider whose usual API-key variable is set, else echo, and all of them
// as comments to go on from.
func StarterConfig(lookup func(string) (string, bool)) (provider, text string) {
	provider = "echo"
	if v, ok := lookup("OPENAI_API_KEY"); ok && v != "" {
		provider = "openai"
	}
	if v, ok := lookup("ANTHROPIC_API_KEY"); ok && v != "" {
		provider = "anthropic"
	}
	entries := []struct{ name, text string }{
		{"echo", "# Answers without a network; for trying lambae out.\n" + `[[providers.entries]]
name = "echo"
provider = "echo"
model = "echo"
`},
		{"anthropic", `[[providers.entries]]
name = "anthropic"
provider = "anthropic"
model = "claude-sonnet-4-6"
auth_token = "${ANTHROPIC_API_KEY}"
max_tokens = 8096
`},
		{"openai", `[[providers.entries]]
name = "openai"
provider = "openai"
model = "gpt-5"
auth_token = "${OPENAI_API_KEY}"
max_tokens = 8096
`},
	}
	var b strings.Builder
	b.WriteString("# Written by the first start of `lambae dev`. Edit it and start again.\n")
	for _, e := range entries {
		b.WriteString("\n")
		if e.name == "echo" || e.name == provider {
			b.WriteString(e.text)
			continue
		}
		for line := range strings.Lines(e.text) {
			b.WriteString("# " + line)
		}
	}
	b.WriteString(`
# [[mcp.servers]]
# name = "files"
# transport = "stdio"
# command = "npx"
# args = ["-y", "@modelcontextprotocol/server-filesystem", "."]
`)
	return provider, b.String()
}

// defaultProfile is the profile a first start makes.
const defaultProfile = "default"

// firstRun makes a profile and a client key where there are none yet. A start
// that finds the key file changes nothing.
func firstRun(ctx context.Context, o Options, a *app.App) error {
	if !o.Starter {
		return nil
	}
	if _, err := os.Stat(o.ClientKeyFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	chosen := o.File.Providers[len(o.File.Providers)-1].Name // the starter's order: what it chose is last
	p, err := a.Directory.CreateProfile(ctx, session.Profile{
		Name: defaultProfile, PrimaryProvider: chosen,
		AllowedTools: []string{"get_current_time", "ask_user"}, // those `lambae chat` brings,
	})
	if errors.Is(err, session.ErrDuplicateName) {
		if p, err = findProfile(ctx, a.Directory, defaultProfile); err != nil {
			return err
		}
	} else if err != nil {
		return fmt.Errorf("make the default profile: %w", err)
	}
	_, secret, err := a.Directory.CreateClientKey(ctx, "first", p.ID)
	if err != nil {
		return fmt.Errorf("make a client key: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(o.ClientKeyFile), 0o700); err != nil {
		return fmt.Errorf("write the client key: %w", err)
	}
	if err := os.WriteFile(o.ClientKeyFile, []byte(secret+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the client key: %w", err)
	}
	return nil
}

func findProfile(ctx context.Context, d *session.Directory, name string) (session.Profile, error) {
	for cursor := ""; ; {
		page, err := d.ListProfiles(ctx, cursor, 200)
		if err != nil {
			return session.Profile{}, err
		}
		for _, p := range page.Items {
			if p.Name == name {
				return p, nil
			}
		}
		if page.Next == nil {
			return session.Profile{}, fmt.Errorf("the profile %q cannot be found", name)
		}
		cursor = *page.Next
	}
}

// greet prints where things are and what to try.
func greet(o Options, admin session.AdminKeyOutcome, clientAddr, adminAddr string) {
	adminKey := o.Env.AdminKeyFile
	switch admin {
	case session.AdminKeyProvisioned:
		adminKey = "provisioned by its hash in " + o.Env.AdminKeyHashFile
	case session.AdminKeyElsewhere:
		adminKey = "not on this machine; --rotate-admin-key makes a new one in " + adminKey
	}
	fmt.Fprintf(o.Out, "lambae %s\n\n", app.Version)
	fmt.Fprintf(o.Out, "  client API  http://%s   key: %s\n", clientAddr, clientKeyHint(o))
	fmt.Fprintf(o.Out, "  admin API   http://%s   key: %s\n", adminAddr, adminKey)
	if o.Env.Exposed() {
		fmt.Fprintf(o.Out, "\n  The client API is reachable from other machines (BAE_ADDR=%s).\n", o.Env.Addr)
	}
	fmt.Fprintf(o.Out, "\nTry, in another terminal:\n\n")
	if !o.Starter {
		at := flags("127.0.0.1:8081", adminAddr, ".lambae/admin.key", o.Env.AdminKeyFile)
		fmt.Fprintf(o.Out, "  %s admin profile create --name main --provider %s%s\n  %s admin key create --name me --profile main%s\n\n", o.Command, firstProvider(o), at, o.Command, at)
		return
	}
	at := flags("127.0.0.1:8080", clientAddr, ".lambae/client.key", o.ClientKeyFile)
	fmt.Fprintf(o.Out, "  %s chat%s\n  %s tail%s\n", o.Command, at, o.Command, at)
	fmt.Fprintf(o.Out, "  curl -sS -H \"Authorization: Bearer $(cat %s)\" -d '{}' http://%s/api/v1/sessions\n\n", o.ClientKeyFile, clientAddr)
}

// flags are what a command needs to find the server and its key, where they are not
// where it looks by itself.
func flags(presetAddr, addr, presetKey, key string) (flags string) {
	if addr != presetAddr {
		flags = " --url http://" + addr
	}
	if key != presetKey {
		flags += " --key-file " + key
	}
	return flags
}

func clientKeyHint(o Options) string {
	if o.Starter {
		return o.ClientKeyFile
	}
	return "make one with the admin API"
}

func firstProvider(o Options) string {
	if len(o.File.Providers) > 0 {
		return o.File.Providers[0].Name
	}
	return "NAME"
}
