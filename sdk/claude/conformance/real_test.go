//go:build claude

package conformance

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("net/http.(*Server).Serve"))
}

// packages is the folder with node_modules in it.
func packages(t testing.TB) string {
	dir := os.Getenv("CLAUDE_PACKAGES")
	require.NotEmpty(t, dir, "run these tests with `make test-claude`, which installs what they need")
	return dir
}

func binary(t testing.TB) string {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	return filepath.Join(packages(t), "node_modules", "@anthropic-ai",
		"claude-agent-sdk-"+runtime.GOOS+"-"+arch, "claude")
}

// place is a home and a project for claude, with a model to talk to.
type place struct {
	home, config, project string
	model                 *model
}

func newPlace(t testing.TB) *place {
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	p := &place{home: filepath.Join(root, "home"), project: filepath.Join(root, "project"), model: newModel(t)}
	p.config = filepath.Join(p.home, ".claude")
	require.NoError(t, os.MkdirAll(p.config, 0o700))
	require.NoError(t, os.MkdirAll(p.project, 0o700))
	return p
}

func (p *place) env() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + p.home, "ANTHROPIC_BASE_URL=" + p.model.URL,
		"ANTHROPIC_API_KEY=sk-ant-none", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "DISABLE_AUTOUPDATER=1",
	}
}

func (p *place) options(t testing.TB) *claude.Options {
	return &claude.Options{
		Executable: binary(t), Dir: p.project, Env: p.env(), Model: "claude-sonnet-5", PermissionMode: claude.PermissionDefault,
	}
}

// run plays a query to its end and returns its messages.
func run(t testing.TB, st *claude.Stream) (all []claude.Message, result *claude.ResultMessage) {
	t.Helper()
	for m, err := range st.Messages() {
		require.NoError(t, err)
		all = append(all, m)
		if r, ok := m.(*claude.ResultMessage); ok {
			result = r
		}
	}
	<-st.Done()
	require.NotNil(t, result)
	return all, result
}

// javascript runs a module with the JavaScript SDK as S and the arguments as
// A, and decodes what it prints.
func javascript(t testing.TB, env []string, dir, code string, args, into any) {
	t.Helper()
	encoded, err := json.Marshal(args)
	require.NoError(t, err)
	module := filepath.Join(packages(t), "node_modules", "@anthropic-ai", "claude-agent-sdk", "sdk.mjs")
	source := "import * as S from " + quoted(module) + "; import fs from 'fs';\n" +
		"const A = " + string(encoded) + ";\n" +
		"process.on('uncaughtException', e => { console.error(e.message); process.exit(1) });\n" +
		"const out = v => process.stdout.write(JSON.stringify(v === undefined ? null : v));\n" + code
	file := filepath.Join(t.TempDir(), "run.mjs")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	cmd := exec.Command("node", file)
	cmd.Dir, cmd.Env = dir, env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	require.NoError(t, json.Unmarshal(stdout, into), string(stdout))
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
