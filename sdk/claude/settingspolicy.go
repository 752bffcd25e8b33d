package claude

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// The kinds of policy that ResolveSettings reads; see SettingsOrigin.Policy.
const (
	policyFile   = "file"   // managed-settings.json and its drop-ins
	policyRemote = "remote" // what the server sent last
	policyParent = "parent" // Options.ManagedSettings
)

// addPolicy adds the managed settings. Only the strongest kind counts: what an
// administrator set makes what an embedding program asks for moot.
func (r *ResolvedSettings) addPolicy(config string, parent map[string]any) {
	path := filepath.Join(config, "remote-settings.json")
	switch remote, err := readSettings(path); {
	case err == nil && len(remote) > 0:
		r.add(SettingsOrigin{Source: SourceManaged, Policy: policyRemote, Path: path}, remote)
		return
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		r.Skipped = append(r.Skipped, err)
	}
	if path, settings := r.machinePolicy(); len(settings) > 0 {
		r.add(SettingsOrigin{Source: SourceManaged, Policy: policyFile, Path: path}, settings)
		return
	}
	r.add(SettingsOrigin{Source: SourceManaged, Policy: policyParent}, restrictive(parent))
}

// machinePolicy reads managed-settings.json and lays managed-settings.d/*.json
// over it, in the order of their names.
func (r *ResolvedSettings) machinePolicy() (string, map[string]any) {
	folder := managedFolder()
	main := filepath.Join(folder, "managed-settings.json")
	files := []string{main}
	dropIns, _ := filepath.Glob(filepath.Join(folder, "managed-settings.d", "*.json"))
	slices.Sort(dropIns)
	merged := map[string]any{}
	for _, path := range append(files, dropIns...) {
		settings, err := readSettings(path)
		if err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				r.Skipped = append(r.Skipped, err)
			}
			continue
		}
		merged, _ = mergeSetting(merged, settings).(map[string]any)
	}
	return main, merged
}

func managedFolder() string {
	switch runtime.GOOS {
	case "darwin":
		return "/Library/Application Support/ClaudeCode"
	case "windows":
		return `C:\Program Files\ClaudeCode`
	}
	return "/etc/claude-code"
}

// restrictive keeps of a parent's settings what can only forbid; a parent is a
// program, not an administrator, and must not widen anything.
func restrictive(settings map[string]any) map[string]any {
	kept := map[string]any{}
	for key, value := range settings {
		switch {
		case strings.HasPrefix(key, "allowManaged") && strings.HasSuffix(key, "Only"):
			kept[key] = value
		case key == "disableAllHooks":
			if value != false && value != "false" {
				// The administrator's own hooks keep running.
				kept["allowManagedHooksOnly"] = true
			}
		case key == "permissions":
			if p, ok := value.(map[string]any); ok {
				if p = pick(p, "deny", "ask", "allow", "disableBypassPermissionsMode"); len(p) > 0 {
					kept[key] = p
				}
			}
		case key == "sandbox":
			if s, ok := value.(map[string]any); ok {
				if s = restrictiveSandbox(s); len(s) > 0 {
					kept[key] = s
				}
			}
		}
	}
	return kept
}

func restrictiveSandbox(sandbox map[string]any) map[string]any {
	kept := map[string]any{}
	if network, ok := sandbox["network"].(map[string]any); ok {
		if n := pick(network, "deniedDomains", "allowManagedDomainsOnly"); len(n) > 0 {
			kept["network"] = n
		}
	}
	if files, ok := sandbox["filesystem"].(map[string]any); ok {
		if f := pick(files, "denyRead", "denyWrite", "allowManagedReadPathsOnly"); len(f) > 0 {
			kept["filesystem"] = f
		}
	}
	return kept
}

func pick(settings map[string]any, keys ...string) map[string]any {
	kept := map[string]any{}
	for _, key := range keys {
		if value, ok := settings[key]; ok {
			kept[key] = value
		}
	}
	return kept
}
