package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
)

// ResolvedSettings are the settings a session would have.
type ResolvedSettings struct {
	// Effective is everything merged.
	Effective map[string]any
	// Provenance says for each top-level key of Effective which source had the
	// last word.
	Provenance map[string]SettingsOrigin
	// Sources are the settings as each source has them, from the one that
	// yields to the one that prevails.
	Sources []SettingsLayer
	// Skipped are the files that could not be used, and why.
	Skipped []error

	servers map[string]ResolvedMCPServer
}

// SettingsOrigin is where a value comes from.
type SettingsOrigin struct {
	Source SettingSource
	Path   string // of a file
	// Policy tells managed settings apart: "file", "remote" or "parent".
	Policy string
}

// SettingsLayer is one source's settings.
type SettingsLayer struct {
	SettingsOrigin
	Settings map[string]any
}

// Model returns the model the settings choose, "" for claude's default.
func (r *ResolvedSettings) Model() string {
	model, _ := r.Effective["model"].(string)
	return model
}

// PermissionRules returns the rules of a kind: "allow", "deny" or "ask".
func (r *ResolvedSettings) PermissionRules(kind string) []string {
	permissions, _ := r.Effective["permissions"].(map[string]any)
	var rules []string
	for _, rule := range asArray(permissions[kind]) {
		if s, ok := rule.(string); ok {
			rules = append(rules, s)
		}
	}
	return rules
}

// ResolveSettings merges the settings a session with these options would have,
// without starting anything. Only Dir, Env, Settings, SettingSources,
// ManagedSettings, Sandbox, OutputStyle and MCPServers matter.
//
// It reports what the files say, not what claude trusts: a mode that a
// repository's own files set is still in it, see [FilterEscalatingDefaultMode].
// Policy from a helper program, from macOS profiles and from the Windows
// registry is not read.
func ResolveSettings(opts *Options) (*ResolvedSettings, error) {
	if opts == nil {
		opts = &Options{}
	}
	dir, err := opts.workDir()
	if err != nil {
		return nil, err
	}
	config := opts.environment().configDir()
	r := &ResolvedSettings{Effective: map[string]any{}, Provenance: map[string]SettingsOrigin{}}
	for _, file := range []struct {
		source SettingSource
		path   string
	}{
		{SourceUser, filepath.Join(config, "settings.json")},
		{SourceProject, filepath.Join(dir, ".claude", "settings.json")},
		{SourceLocal, filepath.Join(dir, ".claude", "settings.local.json")},
	} {
		if opts.SettingSources == nil || slices.Contains(opts.SettingSources, file.source) {
			r.addFile(SettingsOrigin{Source: file.source, Path: file.path})
		}
	}
	if err := r.addFlag(opts); err != nil {
		return nil, err
	}
	r.addPolicy(config, opts.ManagedSettings)
	return r, r.addMCPServers(opts, dir, opts.environment())
}

func (r *ResolvedSettings) addFlag(opts *Options) error {
	inline, path, err := opts.flagSettings()
	switch {
	case err != nil:
		return err
	case path != "":
		r.addFile(SettingsOrigin{Source: SourceFlag, Path: path})
	case inline != nil:
		r.add(SettingsOrigin{Source: SourceFlag}, inline)
	}
	return nil
}

// addFile adds a settings file. Claude runs without a file it cannot use, so
// that is no error here; it is told in Skipped.
func (r *ResolvedSettings) addFile(origin SettingsOrigin) {
	settings, err := readSettings(origin.Path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			r.Skipped = append(r.Skipped, err)
		}
		return
	}
	r.add(origin, settings)
}

func readSettings(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read settings: %w", err)
	}
	if strings.TrimSpace(string(data)) == "" {
		return map[string]any{}, nil
	}
	var settings map[string]any
	if err := json.Unmarshal(data, &settings); err != nil {
		return nil, fmt.Errorf("settings in %s are not a JSON object: %w", path, err)
	}
	if settings == nil {
		return nil, fmt.Errorf("settings in %s are null", path)
	}
	if err := checkSettings(settings); err != nil {
		return nil, fmt.Errorf("settings in %s: %w", path, err)
	}
	return settings, nil
}

// checkSettings refuses settings whose main keys have the wrong shape; claude
// ignores the whole file then.
func checkSettings(settings map[string]any) error {
	for key, want := range map[string]reflect.Kind{
		"model": reflect.String, "outputStyle": reflect.String, "apiKeyHelper": reflect.String,
		"env": reflect.Map, "permissions": reflect.Map, "hooks": reflect.Map, "sandbox": reflect.Map,
	} {
		if v, ok := settings[key]; ok && v != nil && reflect.TypeOf(v).Kind() != want {
			return fmt.Errorf("%q must be a %s", key, want)
		}
	}
	return nil
}

func (r *ResolvedSettings) add(origin SettingsOrigin, settings map[string]any) {
	if len(settings) == 0 {
		return
	}
	r.Sources = append(r.Sources, SettingsLayer{SettingsOrigin: origin, Settings: settings})
	for key, value := range settings {
		r.Effective[key] = mergeSetting(r.Effective[key], value)
		r.Provenance[key] = origin
	}
}

// mergeSetting lays a value over another: objects merge by key, lists add up
// without repeats, anything else is replaced.
func mergeSetting(base, over any) any {
	switch over := over.(type) {
	case map[string]any:
		under, ok := base.(map[string]any)
		if !ok {
			under = nil
		}
		merged := maps.Clone(under)
		if merged == nil {
			merged = make(map[string]any, len(over))
		}
		for key, value := range over {
			merged[key] = mergeSetting(merged[key], value)
		}
		return merged
	case []any:
		return mergeArrays(asArray(base), over)
	}
	return over
}

func mergeArrays(base, over []any) []any {
	merged := make([]any, 0, len(base)+len(over))
	for _, v := range slices.Concat(base, over) {
		if !slices.ContainsFunc(merged, func(m any) bool { return sameScalar(m, v) }) {
			merged = append(merged, v)
		}
	}
	return merged
}

// sameScalar compares as a JavaScript Set does: objects and lists are never
// the same as others.
func sameScalar(a, b any) bool {
	switch a.(type) {
	case map[string]any, []any:
		return false
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}
