package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// check refuses combinations that could only fail later, or silently.
func (o *Options) check() error {
	switch {
	case o.SessionStore != nil && o.EphemeralSession:
		return errors.New("option SessionStore cannot be combined with EphemeralSession: entries are mirrored after the " +
			"local transcript is written. To keep no local copy, put CLAUDE_CONFIG_DIR=<new private temporary folder> " +
			"into Options.Env and remove the folder when the query has ended")
	case o.PermissionMode == PermissionBypass && !o.AllowBypassPermissions:
		return errors.New("permission mode bypassPermissions needs Options.AllowBypassPermissions: true")
	case o.CanUseTool != nil && o.PermissionPromptTool != "":
		return errors.New("options CanUseTool and PermissionPromptTool both answer permission prompts; set one of them")
	case o.Resume != "" && o.Continue:
		return errors.New("options Resume and Continue both choose a session; set one of them")
	case o.SessionID != "" && (o.Resume != "" || o.Continue) && !o.ForkSession:
		return errors.New("option SessionID names a new session; with Resume or Continue it needs ForkSession: true")
	case len(o.DialogKinds) > 0 && o.Dialog == nil:
		return errors.New("option DialogKinds needs Options.Dialog to show them")
	}
	return nil
}

// args returns claude's command line.
func (o *Options) args() ([]string, error) {
	args := []string{"--output-format", "stream-json", "--verbose", "--input-format", "stream-json"}
	flag := func(name, value string) {
		if value != "" {
			args = append(args, "--"+name+"="+value)
		}
	}
	toggle := func(name string, on bool) {
		if on {
			args = append(args, "--"+name)
		}
	}
	if t := o.Thinking; t != nil {
		flag("thinking", t.Type)
		if t.Type == "" && t.Budget > 0 {
			flag("max-thinking-tokens", strconv.Itoa(t.Budget))
		}
		flag("thinking-display", t.Display)
	}
	flag("effort", o.Effort)
	if o.MaxTurns > 0 {
		flag("max-turns", strconv.Itoa(o.MaxTurns))
	}
	if o.MaxBudgetUSD > 0 {
		flag("max-budget-usd", strconv.FormatFloat(o.MaxBudgetUSD, 'f', -1, 64))
	}
	if o.TaskBudget > 0 {
		flag("task-budget", strconv.Itoa(o.TaskBudget))
	}
	flag("model", o.Model)
	flag("agent", o.Agent)
	flag("betas", strings.Join(o.Betas, ","))
	flag("json-schema", string(o.OutputSchema))
	flag("debug-file", o.DebugFile)
	toggle("debug", o.Debug)

	flag("permission-prompt-tool", o.promptTool())
	if o.NoPermissionPrompts {
		flag("permission-prompts", "none")
	}
	toggle("continue", o.Continue)
	flag("resume", o.Resume)
	flag("allowedTools", strings.Join(o.allowedTools(), ","))
	flag("disallowedTools", strings.Join(o.DisallowedTools, ","))
	if o.Tools != nil {
		args = append(args, "--tools="+strings.Join(o.Tools, ","))
	}
	if config, err := o.mcpConfigArg(); err != nil {
		return nil, err
	} else if config != "" {
		args = append(args, "--mcp-config", config)
	}
	toggle("strict-mcp-config", o.StrictMCPConfig)
	toggle("await-initialize", o.awaitsInitialize())
	if o.SettingSources != nil {
		names := make([]string, len(o.SettingSources))
		for i, s := range o.SettingSources {
			names[i] = string(s)
		}
		args = append(args, "--setting-sources="+strings.Join(names, ","))
	}
	flag("permission-mode", string(o.PermissionMode))
	toggle("allow-dangerously-skip-permissions", o.AllowBypassPermissions)
	flag("fallback-model", o.FallbackModel)
	toggle("include-hook-events", o.IncludeHookEvents)
	toggle("include-partial-messages", o.IncludePartialMessages)
	flag("project-config-root", o.ProjectConfigRoot)
	for _, dir := range o.AdditionalDirs {
		flag("add-dir", dir)
	}
	if !o.PluginsOverStdin {
		for _, p := range o.Plugins {
			name := "plugin-dir"
			if p.SkipMCPDiscovery {
				name = "plugin-dir-no-mcp"
			}
			flag(name, p.Path)
		}
	}
	toggle("fork-session", o.ForkSession)
	flag("resume-session-at", o.ResumeAt)
	flag("resume-drops-turn", o.ResumeDropsTurn)
	flag("session-id", o.SessionID)
	toggle("no-session-persistence", o.EphemeralSession)
	toggle("session-mirror", o.SessionStore != nil)
	settings, err := o.settingsArg()
	if err != nil {
		return nil, err
	}
	if settings != "" {
		args = append(args, "--settings", settings)
	}
	if len(o.ManagedSettings) > 0 {
		managed, err := json.Marshal(o.ManagedSettings)
		if err != nil {
			return nil, fmt.Errorf("encode ManagedSettings: %w", err)
		}
		args = append(args, "--managed-settings", string(managed))
	}
	for _, name := range slices.Sorted(maps.Keys(o.ExtraArgs)) {
		args = append(args, "--"+name)
		if value := o.ExtraArgs[name]; value != nil {
			args = append(args, *value)
		}
	}
	return args, nil
}

func (o *Options) promptTool() string {
	if o.CanUseTool != nil {
		return "stdio"
	}
	return o.PermissionPromptTool
}

// allowedTools adds the permission that the Skills option implies.
func (o *Options) allowedTools() []string {
	tools := slices.Clone(o.AllowedTools)
	for _, name := range o.Skills {
		if name == "all" {
			return append(tools, "Skill")
		}
		tools = append(tools, "Skill("+name+")")
	}
	return tools
}

func (o *Options) awaitsInitialize() bool {
	return o.PluginsOverStdin && len(o.Plugins) > 0 || o.MCPOverStdin && len(o.processMCPServers()) > 0
}

// processMCPServers are those that claude itself runs or connects to.
func (o *Options) processMCPServers() map[string]MCPServer {
	servers := make(map[string]MCPServer)
	for name, server := range o.MCPServers {
		if _, local := server.(*LocalMCPServer); !local {
			servers[name] = server
		}
	}
	return servers
}

func (o *Options) mcpConfigArg() (string, error) {
	servers := o.processMCPServers()
	if len(servers) == 0 || o.MCPOverStdin {
		return "", nil
	}
	config, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		return "", fmt.Errorf("encode MCPServers: %w", err)
	}
	return string(config), nil
}

// childEnv adds to env what some options are told by.
func (o *Options) childEnv(env []string) []string {
	env = slices.Clone(env)
	if o.FileCheckpointing {
		env = append(env, "CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=true")
	}
	if o.QuestionPreviewHTML {
		env = append(env, "CLAUDE_CODE_QUESTION_PREVIEW_FORMAT=html")
	}
	return env
}
