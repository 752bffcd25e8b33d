//go:build claude

package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/lambae/lambae/sdk/claude"
	"github.com/stretchr/testify/require"
	"github.com/tidwall/gjson"
)

// Spec: constants; agreement with the JavaScript SDK
func TestConstantsAreThoseOfTheJavaScriptSDK(t *testing.T) {
	t.Parallel()
	var theirs struct {
		Hooks    []claude.HookEvent
		Exits    []claude.ExitReason
		Boundary string
	}
	javascript(t, os.Environ(), t.TempDir(),
		`out({Hooks: S.HOOK_EVENTS, Exits: S.EXIT_REASONS, Boundary: S.SYSTEM_PROMPT_DYNAMIC_BOUNDARY});`, nil, &theirs)
	require.Equal(t, theirs.Hooks, claude.HookEvents())
	require.Equal(t, theirs.Exits, claude.ExitReasons())
	require.Equal(t, theirs.Boundary, claude.SystemPromptDynamicBoundary)
}

// listener is a stand-in for claude that notes what it is started with.
const listener = `#!/usr/bin/env node
import fs from 'fs'; import rl from 'readline'
const out = o => process.stdout.write(JSON.stringify(o) + '\n'), log = {args: process.argv.slice(2)}
for await (const line of rl.createInterface({input: process.stdin})) {
  const m = JSON.parse(line)
  if (m.type === 'control_request') { log.init = m.request; out({type: 'control_response', response: {subtype: 'success', request_id: m.request_id, response: {commands: [], agents: [], models: [], account: {}, mcp_servers_applied: true, plugins_applied: true, hook_on_failure_supported: true}}}) }
  if (m.type === 'user') { log.user = m; fs.writeFileSync(process.env.LISTENER_LOG, JSON.stringify(log)); out({type: 'result', subtype: 'success', is_error: false, result: '', session_id: 's', uuid: 'u'}) }
}
`

// Both SDKs must start claude with the same arguments and
// initialise it with the same request.
//
// Spec: options; initialize; agreement with the JavaScript SDK
func TestOptionsReachClaudeAsFromTheJavaScriptSDK(t *testing.T) {
	t.Parallel()
	id := "11111111-2222-4333-8444-555555555555"
	yes, value := true, "bar"
	hook := func() []claude.HookFunc { return []claude.HookFunc{nil} }
	for name, tc := range map[string]struct {
		js  string
		go_ claude.Options
	}{
		"nothing":     {"{}", claude.Options{}},
		"models":      {"{model: 'm', fallbackModel: 'a,b', effort: 'high', betas: ['x']}", claude.Options{Model: "m", FallbackModel: "a,b", Effort: "high", Betas: []string{"x"}}},
		"tools":       {"{tools: ['Bash', 'Read'], allowedTools: ['Read', 'Bash(ls:*)'], disallowedTools: ['Write', 'Edit']}", claude.Options{Tools: []string{"Bash", "Read"}, AllowedTools: []string{"Read", "Bash(ls:*)"}, DisallowedTools: []string{"Write", "Edit"}}},
		"no tools":    {"{tools: []}", claude.Options{Tools: []string{}}},
		"fork":        {"{resume: A.id, forkSession: true, resumeSessionAt: A.id, resumeDropsTurn: A.id, sessionId: A.id}", claude.Options{Resume: id, ForkSession: true, ResumeAt: id, ResumeDropsTurn: id, SessionID: id}},
		"continue":    {"{continue: true}", claude.Options{Continue: true}},
		"ephemeral":   {"{persistSession: false}", claude.Options{EphemeralSession: true}},
		"agents":      {"{agents: {r: {description: 'd', prompt: 'p', tools: ['Read'], model: 'haiku'}}, agent: 'r'}", claude.Options{Agents: map[string]claude.Agent{"r": {Description: "d", Prompt: "p", Tools: []string{"Read"}, Model: "haiku"}}, Agent: "r"}},
		"prompt":      {"{systemPrompt: 'hi'}", claude.Options{SystemPrompt: &claude.SystemPrompt{Text: "hi"}}},
		"blocks":      {"{systemPrompt: ['a', S.SYSTEM_PROMPT_DYNAMIC_BOUNDARY, 'b']}", claude.Options{SystemPrompt: &claude.SystemPrompt{Blocks: []string{"a", claude.SystemPromptDynamicBoundary, "b"}}}},
		"preset":      {"{systemPrompt: {type: 'preset', preset: 'claude_code', append: 'x', excludeDynamicSections: true, snapshot: true}}", claude.Options{SystemPrompt: &claude.SystemPrompt{Preset: true, Append: "x", ExcludeDynamicSections: true, Snapshot: &yes}}},
		"servers":     {"{mcpServers: {s: {command: 'node', args: ['x'], env: {A: 'b'}}}, strictMcpConfig: true, mcpServersDelivery: 'argv'}", claude.Options{MCPServers: map[string]claude.MCPServer{"s": claude.StdioMCPServer{Command: "node", Args: []string{"x"}, Env: map[string]string{"A": "b"}}}, StrictMCPConfig: true}},
		"stdin":       {"{mcpServers: {h: {type: 'http', url: 'http://x', headers: {a: 'b'}}}, mcpServersDelivery: 'initialize'}", claude.Options{MCPServers: map[string]claude.MCPServer{"h": claude.RemoteMCPServer{URL: "http://x", Headers: map[string]string{"a": "b"}}}, MCPOverStdin: true}},
		"folders":     {"{additionalDirectories: ['/a', '/b'], projectConfigRoot: '/c'}", claude.Options{AdditionalDirs: []string{"/a", "/b"}, ProjectConfigRoot: "/c"}},
		"settings":    {"{settings: {model: 'x'}, settingSources: ['user', 'project']}", claude.Options{Settings: map[string]any{"model": "x"}, SettingSources: []claude.SettingSource{claude.SourceUser, claude.SourceProject}}},
		"file":        {"{settings: '/x.json', settingSources: []}", claude.Options{Settings: "/x.json", SettingSources: []claude.SettingSource{}}},
		"managed":     {"{managedSettings: {permissions: {deny: ['Bash']}}}", claude.Options{ManagedSettings: map[string]any{"permissions": map[string]any{"deny": []string{"Bash"}}}}},
		"sandbox":     {"{sandbox: {enabled: true, network: {deniedDomains: ['b']}}, settings: {sandbox: {network: {deniedDomains: ['a'], httpProxyPort: 1}, filesystem: {denyRead: ['/x']}}}}", claude.Options{Sandbox: map[string]any{"enabled": true, "network": map[string]any{"deniedDomains": []any{"b"}}}, Settings: map[string]any{"sandbox": map[string]any{"network": map[string]any{"deniedDomains": []any{"a"}, "httpProxyPort": 1}, "filesystem": map[string]any{"denyRead": []any{"/x"}}}}}},
		"events":      {"{includePartialMessages: true, includeHookEvents: true, forwardSubagentText: true, promptSuggestions: true, agentProgressSummaries: true}", claude.Options{IncludePartialMessages: true, IncludeHookEvents: true, ForwardSubagentText: true, PromptSuggestions: true, AgentProgressSummaries: true}},
		"verbatim":    {"{verbatimPrompts: true}", claude.Options{VerbatimPrompts: true}},
		"adaptive":    {"{thinking: {type: 'adaptive', display: 'summarized'}}", claude.Options{Thinking: &claude.Thinking{Type: "adaptive", Display: "summarized"}}},
		"budget":      {"{thinking: {type: 'enabled', budgetTokens: 2000}}", claude.Options{Thinking: &claude.Thinking{Budget: 2000}}},
		"limits":      {"{maxTurns: 3, maxBudgetUsd: 1.5, taskBudget: {total: 1000}}", claude.Options{MaxTurns: 3, MaxBudgetUSD: 1.5, TaskBudget: 1000}},
		"schema":      {"{outputFormat: {type: 'json_schema', schema: {type: 'object'}}}", claude.Options{OutputSchema: json.RawMessage(`{"type":"object"}`)}},
		"bypass":      {"{permissionMode: 'bypassPermissions', allowDangerouslySkipPermissions: true}", claude.Options{PermissionMode: claude.PermissionBypass, AllowBypassPermissions: true}},
		"prompt tool": {"{permissionPromptToolName: 'mcp__x__y'}", claude.Options{PermissionPromptTool: "mcp__x__y"}},
		"no prompts":  {"{permissionPrompts: 'none'}", claude.Options{NoPermissionPrompts: true}},
		"plan":        {"{permissionMode: 'plan', planModeInstructions: 'pm', title: 'T', toolAliases: {Bash: 'mcp__w__b'}}", claude.Options{PermissionMode: claude.PermissionPlan, PlanModeInstructions: "pm", Title: "T", ToolAliases: map[string]string{"Bash": "mcp__w__b"}}},
		"plugins":     {"{plugins: [{type: 'local', path: './p'}, {type: 'local', path: '/q', skipMcpDiscovery: true}]}", claude.Options{Plugins: []claude.Plugin{{Path: "./p"}, {Path: "/q", SkipMCPDiscovery: true}}}},
		"plugins in":  {"{plugins: [{type: 'local', path: '/q'}], pluginDelivery: 'initialize'}", claude.Options{Plugins: []claude.Plugin{{Path: "/q"}}, PluginsOverStdin: true}},
		"skills":      {"{skills: ['pdf']}", claude.Options{Skills: []string{"pdf"}}},
		"all skills":  {"{skills: 'all'}", claude.Options{Skills: []string{"all"}}},
		"debug":       {"{debug: true}", claude.Options{Debug: true}},
		"debug file":  {"{debugFile: '/tmp/d'}", claude.Options{DebugFile: "/tmp/d"}},
		"extra":       {"{extraArgs: {flag: null, foo: 'bar'}}", claude.Options{ExtraArgs: map[string]*string{"foo": &value, "flag": nil}}},
		"hooks": {"{hooks: {PreToolUse: [{matcher: 'Bash', timeout: 5, onFailure: 'block', hooks: [f, f]}, {hooks: [f]}], Stop: [{hooks: [f]}]}}",
			claude.Options{Hooks: map[claude.HookEvent][]claude.HookMatcher{
				claude.HookPreToolUse: {{Matcher: "Bash", Timeout: 5e9, BlockOnFailure: true, Hooks: append(hook(), hook()...)}, {Hooks: hook()}},
				claude.HookStop:       {{Hooks: hook()}},
			}}},
		"stop": {"{perTaskStopAffordance: true}", claude.Options{PerTaskStop: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			fake := filepath.Join(dir, "claude.mjs")
			require.NoError(t, os.WriteFile(fake, []byte(listener), 0o700))
			env := func(log string) []string {
				return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LISTENER_LOG=" + filepath.Join(dir, log)}
			}
			var ignored any
			javascript(t, env("theirs"), dir, `const f = async () => ({});
				for await (const m of S.query({prompt: 'hello', options: {...`+tc.js+`, pathToClaudeCodeExecutable: A.fake}})); out(1);`,
				map[string]string{"id": id, "fake": fake}, &ignored)
			opts := tc.go_
			opts.Executable, opts.Env, opts.Dir = fake, env("ours"), dir
			st := claude.Query(t.Context(), claude.Text("hello"), &opts)
			_, err := st.Result()
			require.NoError(t, err)
			<-st.Done()
			read := func(log string) (args []string, init, user string) {
				data, err := os.ReadFile(filepath.Join(dir, log))
				require.NoError(t, err)
				for _, a := range gjson.GetBytes(data, "args").Array() {
					args = append(args, a.Str)
				}
				return args, gjson.GetBytes(data, "init").Raw, gjson.GetBytes(data, "user").Raw
			}
			args, init, user := read("theirs")
			ourArgs, ourInit, ourUser := read("ours")
			require.Equal(t, normal(args), normal(ourArgs))
			require.JSONEq(t, init, ourInit)
			// Ours names its messages; for the rest they are the same.
			ourUser = strings.Replace(ourUser, `"uuid":"`+gjson.Get(ourUser, "uuid").Str+`",`, "", 1)
			require.JSONEq(t, user, ourUser)
		})
	}
}

// normal sorts arguments and the members of JSON in them: neither order means
// anything to claude.
func normal(args []string) []string {
	out := slices.Clone(args)
	for i, a := range out {
		var v any
		if strings.HasPrefix(a, "{") && json.Unmarshal([]byte(a), &v) == nil {
			b, _ := json.Marshal(v)
			out[i] = string(b)
		}
	}
	slices.Sort(out)
	return out
}
