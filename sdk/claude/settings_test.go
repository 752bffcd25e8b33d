package claude

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func settingsPlace(t *testing.T) (opts *Options, write func(path, content string)) {
	home, project := t.TempDir(), t.TempDir()
	write = func(path, content string) {
		path = filepath.Join(map[string]string{"user": home + "/.claude", "project": project + "/.claude", "root": project, "home": home}[filepath.Dir(path)], filepath.Base(path))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	}
	return &Options{Dir: project, Env: []string{"HOME=" + home}}, write
}

// Spec: ResolveSettings
func TestResolveSettingsMergesByTier(t *testing.T) {
	t.Parallel()
	opts, write := settingsPlace(t)
	write("user/settings.json", `{"model":"u","env":{"A":"1","B":"1"},"permissions":{"allow":["Read"],"deny":["X"]}}`)
	write("project/settings.json", `{"model":"p","env":{"B":"2"},"permissions":{"allow":["Bash","Read"]}}`)
	write("project/settings.local.json", `{"outputStyle":"o","permissions":{"allow":["Local"]}}`)
	opts.Settings = map[string]any{"model": "f"}
	opts.ManagedSettings = map[string]any{"permissions": map[string]any{"deny": []any{"Managed"}}, "model": "not from a parent"}
	r, err := ResolveSettings(opts)
	require.NoError(t, err)
	require.Equal(t, "f", r.Model())
	require.Equal(t, []string{"Read", "Bash", "Local"}, r.PermissionRules("allow"))
	require.Equal(t, []string{"X", "Managed"}, r.PermissionRules("deny"))
	require.Equal(t, map[string]any{"A": "1", "B": "2"}, r.Effective["env"])
	require.Equal(t, SourceFlag, r.Provenance["model"].Source)
	require.Equal(t, SourceProject, r.Provenance["env"].Source)
	require.Equal(t, filepath.Join(opts.Dir, ".claude", "settings.json"), r.Provenance["env"].Path)
	require.Equal(t, SettingsOrigin{Source: SourceManaged, Policy: "parent"}, r.Provenance["permissions"])
	require.Len(t, r.Sources, 5)

	opts.SettingSources = []SettingSource{SourceLocal}
	r, err = ResolveSettings(opts)
	require.NoError(t, err)
	require.Equal(t, []string{"Local"}, r.PermissionRules("allow"))
}

// A policy that is there and cannot be read gives way to a weaker one; that must
// show.
//
// Spec: ResolveSettings
func TestResolveSettingsTellsOfAPolicyItCannotRead(t *testing.T) {
	t.Parallel()
	opts, write := settingsPlace(t)
	r, err := ResolveSettings(opts)
	require.NoError(t, err)
	require.Empty(t, r.Skipped, "there is none")
	write("user/remote-settings.json", `{bad`)
	r, err = ResolveSettings(opts)
	require.NoError(t, err)
	require.Len(t, r.Skipped, 1)
	require.ErrorContains(t, r.Skipped[0], "remote-settings.json")
}

// Spec: ResolveSettings
func TestResolveSettingsSkipsWhatItCannotUse(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"damaged": `{bad`, "null": `null`, "a list": `[1]`, "comments": "// c\n{}", "a wrong type": `{"model":5}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			opts, write := settingsPlace(t)
			write("user/settings.json", `{"model":"u"}`)
			write("project/settings.json", content)
			r, err := ResolveSettings(opts)
			require.NoError(t, err)
			require.Equal(t, "u", r.Model())
			require.Len(t, r.Skipped, 1)
			require.ErrorContains(t, r.Skipped[0], "settings.json")
		})
	}
}

// Spec: ResolveSettings
func TestResolveSettingsFindsMCPServers(t *testing.T) {
	t.Parallel()
	opts, write := settingsPlace(t)
	write("root/.mcp.json", `{"mcpServers":{"a":{"command":"p"},"b":{"command":"p"}}}`)
	write("home/.claude.json", `{"mcpServers":{"b":{"command":"u"}},"projects":{"`+opts.Dir+`":{"mcpServers":{"c":{"command":"l"}}}}}`)
	opts.MCPServers = map[string]MCPServer{"d": StdioMCPServer{Command: "o"}, "e": NewMCPServer("e", "1")}
	r, err := ResolveSettings(opts)
	require.NoError(t, err)
	scopes := map[string]string{}
	for name, server := range r.MCPServers() {
		scopes[name] = server.Scope
	}
	require.Equal(t, map[string]string{"a": "project", "b": "user", "c": "local", "d": "dynamic", "e": "dynamic"}, scopes)
}

// Spec: FilterEscalatingDefaultMode
func TestFilterEscalatingDefaultMode(t *testing.T) {
	t.Parallel()
	all := []PermissionMode{PermissionDefault, PermissionAcceptEdits, PermissionBypass, PermissionPlan, PermissionDontAsk, PermissionAuto}
	dropped := map[SettingSource][]PermissionMode{
		SourceProject: {PermissionAcceptEdits, PermissionBypass, PermissionAuto},
		SourceLocal:   {PermissionBypass, PermissionAuto},
	}
	for _, source := range []SettingSource{SourceUser, SourceProject, SourceLocal, SourceFlag, SourceManaged} {
		for _, mode := range all {
			layer := map[string]any{"permissions": map[string]any{"defaultMode": string(mode), "allow": []any{"a"}}}
			r := &ResolvedSettings{Effective: layer, Sources: []SettingsLayer{{SettingsOrigin: SettingsOrigin{Source: source}, Settings: layer}}}
			permissions := FilterEscalatingDefaultMode(r)["permissions"].(map[string]any)
			drop := false
			for _, d := range dropped[source] {
				drop = drop || d == mode
			}
			_, has := permissions["defaultMode"]
			require.Equal(t, !drop, has, "%s from %s", mode, source)
			require.Contains(t, permissions, "allow")
			require.Contains(t, layer["permissions"], "defaultMode", "the original is left alone")
		}
	}
}

// Spec: FilterEscalatingDefaultMode
func TestFilterEscalatingDefaultModeObeysPolicy(t *testing.T) {
	t.Parallel()
	user := map[string]any{"permissions": map[string]any{"defaultMode": "bypassPermissions", "disableBypassPermissionsMode": "disable"}}
	r := &ResolvedSettings{Effective: user, Sources: []SettingsLayer{{SettingsOrigin: SettingsOrigin{Source: SourceUser}, Settings: user}}}
	require.NotContains(t, FilterEscalatingDefaultMode(r)["permissions"], "defaultMode")
}
