package claude

import (
	"encoding/json"
	"strconv"
)

// initializeRequest is the first control request: what does not fit on a
// command line.
type initializeRequest struct {
	Subtype                string                      `json:"subtype"`
	Hooks                  map[HookEvent][]wireMatcher `json:"hooks,omitempty"`
	SDKMCPServers          []string                    `json:"sdkMcpServers,omitempty"`
	SDKMCPServerConfigs    map[string]wireLocalServer  `json:"sdkMcpServerConfigs,omitempty"`
	JSONSchema             json.RawMessage             `json:"jsonSchema,omitempty"`
	SystemPrompt           []string                    `json:"systemPrompt,omitempty"`
	AppendSystemPrompt     string                      `json:"appendSystemPrompt,omitempty"`
	SystemPromptSnapshot   *bool                       `json:"systemPromptSnapshot,omitempty"`
	ExcludeDynamicSections bool                        `json:"excludeDynamicSections,omitempty"`
	PlanModeInstructions   string                      `json:"planModeInstructions,omitempty"`
	ToolAliases            map[string]string           `json:"toolAliases,omitempty"`
	Agents                 map[string]Agent            `json:"agents,omitempty"`
	Title                  string                      `json:"title,omitempty"`
	Skills                 []string                    `json:"skills,omitempty"`
	PromptSuggestions      bool                        `json:"promptSuggestions,omitempty"`
	AgentProgressSummaries bool                        `json:"agentProgressSummaries,omitempty"`
	ForwardSubagentText    bool                        `json:"forwardSubagentText,omitempty"`
	SupportedDialogKinds   []string                    `json:"supportedDialogKinds,omitempty"`
	PerTaskStopAffordance  bool                        `json:"perTaskStopAffordance,omitempty"`
	Plugins                []wirePlugin                `json:"plugins,omitempty"`
	MCPServers             map[string]MCPServer        `json:"mcpServers,omitempty"`
}

type wireMatcher struct {
	Matcher         string   `json:"matcher,omitempty"`
	HookCallbackIDs []string `json:"hookCallbackIds"`
	Timeout         float64  `json:"timeout,omitempty"` // seconds
	OnFailure       string   `json:"onFailure,omitempty"`
}

type wireLocalServer struct {
	Timeout int64 `json:"timeout,omitempty"` // milliseconds
}

type wirePlugin struct {
	Type             string `json:"type"`
	Path             string `json:"path"`
	SkipMCPDiscovery bool   `json:"skipMcpDiscovery,omitempty"`
}

// initialize builds the request and the table of hook callbacks whose ids it
// names.
func (o *Options) initialize() (initializeRequest, map[string]HookFunc) {
	req := initializeRequest{
		Subtype: "initialize", JSONSchema: o.OutputSchema, PlanModeInstructions: o.PlanModeInstructions,
		ToolAliases: o.ToolAliases, Agents: o.Agents, Title: o.Title, PromptSuggestions: o.PromptSuggestions,
		AgentProgressSummaries: o.AgentProgressSummaries, ForwardSubagentText: o.ForwardSubagentText,
		SupportedDialogKinds: o.DialogKinds, PerTaskStopAffordance: o.PerTaskStop,
	}
	if len(o.Skills) > 0 && o.Skills[0] != "all" {
		req.Skills = o.Skills
	}
	o.SystemPrompt.fill(&req)

	callbacks := make(map[string]HookFunc)
	for _, event := range HookEvents() { // a fixed order, so that ids are the same every time
		for _, matcher := range o.Hooks[event] {
			w := wireMatcher{Matcher: matcher.Matcher, Timeout: matcher.Timeout.Seconds(), HookCallbackIDs: []string{}}
			if matcher.BlockOnFailure {
				w.OnFailure = "block"
			}
			for _, hook := range matcher.Hooks {
				id := "hook_" + strconv.Itoa(len(callbacks))
				callbacks[id] = hook
				w.HookCallbackIDs = append(w.HookCallbackIDs, id)
			}
			if req.Hooks == nil {
				req.Hooks = make(map[HookEvent][]wireMatcher)
			}
			req.Hooks[event] = append(req.Hooks[event], w)
		}
	}
	for name, server := range o.MCPServers {
		local, ok := server.(*LocalMCPServer)
		if !ok {
			continue
		}
		req.SDKMCPServers = append(req.SDKMCPServers, name)
		if local.Timeout > 0 {
			if req.SDKMCPServerConfigs == nil {
				req.SDKMCPServerConfigs = make(map[string]wireLocalServer)
			}
			req.SDKMCPServerConfigs[name] = wireLocalServer{Timeout: local.Timeout.Milliseconds()}
		}
	}
	if o.MCPOverStdin {
		req.MCPServers = o.processMCPServers()
	}
	if o.PluginsOverStdin {
		for _, p := range o.Plugins {
			req.Plugins = append(req.Plugins, wirePlugin{Type: "local", Path: p.Path, SkipMCPDiscovery: p.SkipMCPDiscovery})
		}
	}
	return req, callbacks
}

func (p *SystemPrompt) fill(req *initializeRequest) {
	if p == nil {
		req.SystemPrompt = []string{""}
		return
	}
	req.SystemPromptSnapshot = p.Snapshot
	switch {
	case p.Preset || p.Text == "" && p.Blocks == nil:
		req.AppendSystemPrompt = p.Append
		req.ExcludeDynamicSections = p.ExcludeDynamicSections
	case p.Blocks != nil:
		req.SystemPrompt = p.Blocks
	default:
		req.SystemPrompt = []string{p.Text}
	}
}
