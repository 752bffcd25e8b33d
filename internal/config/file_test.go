package config

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const whole = `
[[providers.entries]]
name = "anthropic-sonnet"
provider = "anthropic"
model = "claude-sonnet-4-6"
auth_token = "${ANTHROPIC_API_KEY}"
max_tokens = 8096
max_retries = 2

[[providers.entries]]
name = "gateway"
provider = "openai"
model = "m"
base_url = "https://gateway.example.com/"

[[providers.entries]]
name = "echo"
provider = "echo"

[[mcp.servers]]
name = "filesystem"
transport = "stdio"
command = "npx"
args = ["-y", "server", "/data"]
env = { TOKEN = "${FS_TOKEN}" }

[[mcp.servers]]
name = "search"
transport = "http"
url = "https://mcp.example.com/mcp"
headers = { Authorization = "Bearer ${SEARCH}" }

[telemetry]
enabled = true
otlp_endpoint = "http://127.0.0.1:4317"
sample_ratio = 0.25
service_name = "shop"
otlp_headers = { "x-team" = "${OTLP}" }

[something.else]
entirely = true
`

func TestParseReadsEveryMember(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(whole))
	require.NoError(t, err)
	require.Equal(t, &File{
		Providers: []Provider{
			{Name: "anthropic-sonnet", Kind: KindAnthropic, Model: "claude-sonnet-4-6", AuthToken: "${ANTHROPIC_API_KEY}", MaxTokens: 8096, MaxRetries: 2},
			{Name: "gateway", Kind: KindOpenAI, Model: "m", MaxTokens: 4096, BaseURL: "https://gateway.example.com/"},
			{Name: "echo", Kind: KindEcho, Model: "echo", MaxTokens: 4096},
		},
		MCP: []MCPServer{
			{Name: "filesystem", Transport: TransportStdio, Command: "npx", Args: []string{"-y", "server", "/data"}, Env: map[string]string{"TOKEN": "${FS_TOKEN}"}},
			{Name: "search", Transport: TransportHTTP, URL: "https://mcp.example.com/mcp", Headers: map[string]string{"Authorization": "Bearer ${SEARCH}"}},
		},
		Telemetry: Telemetry{Enabled: true, OTLPEndpoint: "http://127.0.0.1:4317", SampleRatio: 0.25, ServiceName: "shop", Headers: map[string]string{"x-team": "${OTLP}"}},
	}, f)
}

func TestParseGivesDefaults(t *testing.T) {
	t.Parallel()
	f, err := Parse(nil)
	require.NoError(t, err)
	require.Equal(t, &File{Telemetry: Telemetry{SampleRatio: 1, ServiceName: "lambae"}}, f)
}

func TestParseNamesKeysNothingReads(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(`
[[providers.entries]]
name = "e"
provider = "echo"
auth_tokn = "x"
[telemetry]
endpoint = "y"
[extra]
z = 1
`))
	require.NoError(t, err)
	require.Equal(t, []string{"providers.entries.auth_tokn", "telemetry.endpoint"}, f.Unused)
}

func TestTracesAndMetricsHaveSwitchesOfTheirOwn(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(`
[telemetry]
enabled = true
otlp_endpoint = "http://127.0.0.1:4317"
[telemetry.traces]
enabled = false
[telemetry.metrics]
enabled = true
disabled = ["lambae.turn.active"]
`))
	require.NoError(t, err)
	require.Empty(t, f.Unused)
	require.Equal(t, Telemetry{Enabled: true, OTLPEndpoint: "http://127.0.0.1:4317", SampleRatio: 1, ServiceName: "lambae",
		TracesOff: true, DisabledMetrics: []string{"lambae.turn.active"}}, f.Telemetry)
	f, err = Parse([]byte("[telemetry.metrics]\nenabled = false\nenable = true"))
	require.NoError(t, err)
	require.True(t, f.Telemetry.MetricsOff)
	require.Equal(t, []string{"telemetry.metrics.enable"}, f.Unused)
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	provider := func(members string) string {
		return "[[providers.entries]]\nname = \"p\"\nprovider = \"anthropic\"\nmodel = \"m\"\n" + members
	}
	for name, c := range map[string]struct{ in, want string }{
		"a blank provider name": {`[[providers.entries]]
name = " "
provider = "echo"`, `[[providers.entries]] number 1: name is blank; give every entry a name of its own`},
		"a missing provider name": {`[[providers.entries]]
provider = "echo"`, `[[providers.entries]] number 1: name is blank`},
		"a name twice": {`[[providers.entries]]
name = "a"
provider = "echo"
[[providers.entries]]
name = "b"
provider = "echo"
[[providers.entries]]
name = "a"
provider = "echo"`, `[[providers.entries]] "a": name is used by entries number 1 and 3; rename one`},
		"an unknown kind": {`[[providers.entries]]
name = "a"
model = "m"
provider = "antropic"`, `[[providers.entries]] "a": unknown provider "antropic"; use "anthropic", "openai", "bedrock" or "echo"`},
		"a missing kind": {`[[providers.entries]]
name = "a"
model = "m"`, `[[providers.entries]] "a": provider is missing`},
		"a missing model": {`[[providers.entries]]
name = "a"
provider = "openai"`, `[[providers.entries]] "a": model is missing`},
		"max_tokens of zero":       {provider("max_tokens = 0"), `[[providers.entries]] "p": max_tokens is 0; set it to 1 or more`},
		"negative retries":         {provider("max_retries = -1"), `max_retries is -1; set it to 0 or more`},
		"a base_url without http":  {provider(`base_url = "gateway.example.com"`), `base_url is not an http or https URL`},
		"a base_url with a query":  {provider(`base_url = "https://g.example.com/?v=1"`), `base_url has a query or fragment`},
		"a base_url with password": {provider(`base_url = "https://u:hush@g.example.com"`), `base_url holds a user name or password`},
		"an MCP name twice": {`[[mcp.servers]]
name = "a"
transport = "stdio"
command = "x"
[[mcp.servers]]
name = "a"
transport = "stdio"
command = "x"`, `[[mcp.servers]] "a": name is used by entries number 1 and 2`},
		"an unknown transport": {`[[mcp.servers]]
name = "a"
transport = "pipe"`, `[[mcp.servers]] "a": unknown transport "pipe"; use "stdio", "http" or "sse"`},
		"a missing transport": {`[[mcp.servers]]
name = "a"`, `[[mcp.servers]] "a": transport is missing`},
		"stdio without command": {`[[mcp.servers]]
name = "a"
transport = "stdio"
command = ""`, `[[mcp.servers]] "a": transport "stdio" needs command`},
		"http without url": {`[[mcp.servers]]
name = "a"
transport = "http"`, `[[mcp.servers]] "a": transport "http" needs url`},
		"sse without url": {`[[mcp.servers]]
name = "a"
transport = "sse"`, `[[mcp.servers]] "a": transport "sse" needs url`},
		"an MCP url that is none": {`[[mcp.servers]]
name = "a"
transport = "sse"
url = "localhost"`, `[[mcp.servers]] "a": url is not an http or https URL`},
		"telemetry without endpoint": {"[telemetry]\nenabled = true", `[telemetry]: enabled needs otlp_endpoint`},
		"telemetry with a bad endpoint": {`[telemetry]
enabled = true
otlp_endpoint = "127.0.0.1:4317"`, `[telemetry]: enabled needs otlp_endpoint, an http or https URL`},
		"a ratio over 1": {`[telemetry]
enabled = true
otlp_endpoint = "http://h:1"
sample_ratio = 1.5`, `[telemetry]: sample_ratio is 1.5; set it between 0 and 1`},
		"a ratio that is no number": {`[telemetry]
enabled = true
otlp_endpoint = "http://h:1"
sample_ratio = nan`, `[telemetry]: sample_ratio is NaN`},
		"broken TOML":           {"[[providers.entries]\nname = 1", "line 2: expected end of table array name"},
		"a number for a string": {"[[providers.entries]]\nname = 1", "name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, err := Parse([]byte(c.in))
			require.ErrorContains(t, err, c.want)
			require.Nil(t, f)
		})
	}
}

func TestParseReportsAllProblemsAtOnce(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte(`
[[providers.entries]]
name = "a"
provider = "x"
[[mcp.servers]]
name = "b"
transport = "y"
[telemetry]
enabled = true
`))
	require.ErrorContains(t, err, `"a": unknown provider`)
	require.ErrorContains(t, err, `"a": model is missing`)
	require.ErrorContains(t, err, `"b": unknown transport`)
	require.ErrorContains(t, err, `[telemetry]`)
}

func TestDisabledTelemetryIsNotChecked(t *testing.T) {
	t.Parallel()
	_, err := Parse([]byte("[telemetry]\nsample_ratio = 7.0"))
	require.NoError(t, err)
}

func TestParseErrorsNeverQuoteATokenWrittenWithoutQuotes(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"auth_token = sk-ant-hush", "auth_token = 12hush34", "auth_token = true_hush", "auth_token = \"hush\\q\"",
		"auth_token = 'hush", "auth_token = [\"hush\"]", "auth_token = 1979-05-27T07:32:00Zhush", "base_url = \"https://u:hush@h\"", "base_url = \"hush\"",
	} {
		_, err := Parse([]byte("[[providers.entries]]\nname = \"p\"\nprovider = \"anthropic\"\nmodel = \"m\"\n" + line))
		require.Error(t, err, line)
		require.NotContains(t, err.Error(), "hush", line)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}

	t.Run("a missing file is an empty registry", func(t *testing.T) {
		f, err := Load(filepath.Join(dir, "none.toml"))
		require.NoError(t, err)
		require.Empty(t, f.Providers)
	})
	t.Run("a file is parsed", func(t *testing.T) {
		f, err := Load(write("good.toml", whole))
		require.NoError(t, err)
		require.Len(t, f.Providers, 3)
	})
	t.Run("an error names the file", func(t *testing.T) {
		path := write("bad.toml", "x = ")
		_, err := Load(path)
		require.ErrorContains(t, err, path)
	})
	t.Run("a folder is an error", func(t *testing.T) {
		_, err := Load(dir)
		require.ErrorContains(t, err, "read configuration")
	})
}

func TestRedactedHidesEverySecretAndLeavesTheOriginal(t *testing.T) {
	t.Parallel()
	f, err := Parse([]byte(strings.NewReplacer(
		"${ANTHROPIC_API_KEY}", "hush", "${FS_TOKEN}", "hush", "${SEARCH}", "hush", "${OTLP}", "hush").Replace(whole)))
	require.NoError(t, err)
	shown, err := json.Marshal(f.Redacted())
	require.NoError(t, err)
	require.NotContains(t, string(shown), "hush")
	require.Contains(t, string(shown), `"headers":{"Authorization":"••••••••"}`)
	require.Contains(t, string(shown), `"args":[]`, "no list is null")
	for _, p := range f.Redacted().Providers {
		require.Equal(t, Mask, p.AuthToken, "also where none is set")
	}
	require.Equal(t, "hush", f.Providers[0].AuthToken)
	require.Equal(t, "Bearer hush", f.MCP[1].Headers["Authorization"])
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Add([]byte("[[providers.entries]]\nname = 'x'"))
	f.Add([]byte("[telemetry]\nsample_ratio = inf"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse(data)
		if err != nil {
			require.Nil(t, file)
			return
		}
		require.NoError(t, check(file), "what Parse lets through passes the check")
		seen := map[string]bool{}
		for _, p := range file.Providers {
			require.False(t, seen[p.Name] || p.Name == "" || p.MaxTokens < 1)
			seen[p.Name] = true
		}
	})
}
