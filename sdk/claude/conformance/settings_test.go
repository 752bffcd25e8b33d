//go:build claude

package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

func (p *place) write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}

func (p *place) settings(t *testing.T) {
	t.Helper()
	p.write(t, filepath.Join(p.config, "settings.json"), `{"model":"claude-opus-5-5","env":{"A":"1","B":"1"},"cleanupPeriodDays":5,
		"permissions":{"allow":["Read"],"deny":["WebFetch"],"defaultMode":"plan","additionalDirectories":["/u"]}}`)
	p.write(t, filepath.Join(p.project, ".claude", "settings.json"), `{"env":{"B":"2"},"permissions":{"allow":["Bash","Read"],"defaultMode":"acceptEdits"}}`)
	p.write(t, filepath.Join(p.project, ".claude", "settings.local.json"), `{"outputStyle":"Explanatory","permissions":{"allow":["Edit"]}}`)
}

// Spec: ResolveSettings; FilterEscalatingDefaultMode
// Spec: agreement with the JavaScript SDK
func TestResolveSettingsAgreesWithTheJavaScriptSDK(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.settings(t)
	env := append(p.env(), "CLAUDE_CONFIG_DIR="+p.config)
	for name, tc := range map[string]struct {
		js   string
		opts claude.Options
	}{
		"all tiers": {"{}", claude.Options{}},
		"one tier":  {"{settingSources: ['project']}", claude.Options{SettingSources: []claude.SettingSource{claude.SourceProject}}},
		"none":      {"{settingSources: []}", claude.Options{SettingSources: []claude.SettingSource{}}},
		"managed": {"{managedSettings: {model: 'm', permissions: {deny: ['Z'], ask: ['K']}, disableAllHooks: true, sandbox: {network: {allowManagedDomainsOnly: true}}}}",
			claude.Options{ManagedSettings: map[string]any{"model": "m", "permissions": map[string]any{"deny": []any{"Z"}, "ask": []any{"K"}},
				"disableAllHooks": true, "sandbox": map[string]any{"network": map[string]any{"allowManagedDomainsOnly": true}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var theirs struct {
				Effective  json.RawMessage
				Provenance map[string]struct{ Source, Path, PolicyOrigin string }
				Filtered   json.RawMessage
			}
			javascript(t, env, p.project, `const r = await S.resolveSettings({cwd: A, ...`+tc.js+`});
				out({Effective: r.effective, Provenance: r.provenance, Filtered: S.filterEscalatingDefaultMode(r)});`, p.project, &theirs)
			opts := tc.opts
			opts.Dir, opts.Env = p.project, env
			ours, err := claude.ResolveSettings(&opts)
			require.NoError(t, err)
			effective, err := json.Marshal(ours.Effective)
			require.NoError(t, err)
			require.JSONEq(t, string(theirs.Effective), string(effective))
			filtered, err := json.Marshal(claude.FilterEscalatingDefaultMode(ours))
			require.NoError(t, err)
			require.JSONEq(t, string(theirs.Filtered), string(filtered))
			require.Len(t, ours.Provenance, len(theirs.Provenance))
			for key, origin := range theirs.Provenance {
				require.Equal(t, claude.SettingsOrigin{Source: claude.SettingSource(origin.Source), Path: origin.Path, Policy: origin.PolicyOrigin},
					ours.Provenance[key], key)
			}
		})
	}
}

// Spec: ResolveSettings; agreement with the binary
func TestResolveSettingsAgreesWithTheBinary(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.settings(t)
	opts := p.options(t)
	opts.Model, opts.PermissionMode = "", ""
	opts.Settings = map[string]any{"permissions": map[string]any{"ask": []any{"Write"}}}
	ours, err := claude.ResolveSettings(opts)
	require.NoError(t, err)
	st := claude.Query(t.Context(), claude.Conversation(), opts)
	report, err := st.Settings(t.Context())
	require.NoError(t, err)
	st.Close()
	<-st.Done()
	effective, err := json.Marshal(ours.Effective)
	require.NoError(t, err)
	require.JSONEq(t, gjson.GetBytes(report, "effective").Raw, string(effective), string(report))
}
