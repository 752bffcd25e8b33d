package claude

import (
	"context"
	"encoding/json"
	"time"
)

// Options configure a query. The zero value is a good one: claude from PATH,
// in the current directory, with the caller's environment. Options are copied
// when a query starts; what they point to must not change while it runs.
type Options struct {
	// --- the process ---

	// Executable is the claude binary. When empty it is looked for in PATH and
	// in the places installers use.
	Executable string
	// Dir is the session's working directory; empty is the current one.
	Dir string
	// Env is the child's whole environment, as in os/exec: nil inherits.
	Env []string
	// ExtraArgs are flags without a field here; keys without dashes, nil for a
	// flag without value.
	ExtraArgs map[string]*string
	// Stderr receives what claude prints there, as it comes. Calls never overlap.
	Stderr func(chunk []byte)
	// Launch starts the process somewhere else (a container, another machine)
	// in place of the local start. Parent and child must agree on the config
	// folder's path (CLAUDE_CONFIG_DIR), else mirrored entries cannot be
	// matched to a session and are dropped.
	Launch func(context.Context, LaunchSpec) (Process, error)
	// Cleanup runs once when the session ends, however it ends.
	Cleanup func()
	// Debug turns on claude's debug log; DebugFile says where it goes.
	Debug     bool
	DebugFile string

	// --- the model ---

	Model                string
	FallbackModel        string // or several, separated by commas
	Effort               string // "low", "medium", "high", "xhigh", "max"
	Thinking             *Thinking
	MaxTurns             int
	MaxBudgetUSD         float64
	TaskBudget           int // tokens the model is told it has
	Betas                []string
	OutputSchema         json.RawMessage // JSON Schema of structured output
	OutputStyle          string
	SystemPrompt         *SystemPrompt
	PlanModeInstructions string // replaces the plan mode workflow

	// --- tools and permissions ---

	// Tools are the built-in tools there are; nil is claude's default set,
	// empty is none. AllowedTools run unasked, DisallowedTools never.
	Tools           []string
	AllowedTools    []string
	DisallowedTools []string
	ToolAliases     map[string]string
	PermissionMode  PermissionMode
	// AllowBypassPermissions must be set for PermissionBypass.
	AllowBypassPermissions bool
	// CanUseTool is asked about tool calls that no rule decides.
	CanUseTool CanUseTool
	// PermissionPromptTool asks an MCP tool instead of CanUseTool.
	PermissionPromptTool string
	// NoPermissionPrompts denies at once whatever would have asked.
	NoPermissionPrompts bool
	AdditionalDirs      []string
	ProjectConfigRoot   string
	FileCheckpointing   bool // lets Stream.RewindFiles undo edits
	QuestionPreviewHTML bool // AskUserQuestion previews as HTML

	// --- extensions ---

	MCPServers      map[string]MCPServer
	StrictMCPConfig bool // only MCPServers, whatever else is configured
	// MCPOverStdin keeps MCP servers' env and headers off the command line,
	// which other users of the machine can read. Needs claude 2.1.261.
	MCPOverStdin     bool
	Hooks            map[HookEvent][]HookMatcher
	Agent            string // the agent that plays the main thread
	Agents           map[string]Agent
	Plugins          []Plugin
	PluginsOverStdin bool     // as MCPOverStdin, for long lists
	Skills           []string // nil is claude's default, ["all"] every one
	// Elicit answers MCP servers that ask the user something; nil declines.
	Elicit func(context.Context, ElicitationRequest) (ElicitationResult, error)
	// Dialog renders the dialogs named in DialogKinds.
	Dialog      func(context.Context, DialogRequest) (DialogResult, error)
	DialogKinds []string
	// PerTaskStop says that the caller can stop single background tasks, so
	// that an interrupt spares them.
	PerTaskStop bool

	// --- settings ---

	// Settings is a path to a settings file, or inline settings (any value that
	// encodes to a JSON object).
	Settings any
	// ManagedSettings restrict what settings may do; see ResolveSettings.
	ManagedSettings map[string]any
	// SettingSources are the settings files to read; nil is all, empty none.
	SettingSources []SettingSource
	// Sandbox isolates commands (sandbox settings, as in settings.json).
	Sandbox map[string]any

	// --- the session ---

	Resume          string // session to go on with
	Continue        bool   // go on with the latest session of Dir
	ForkSession     bool   // resume into a new session
	SessionID       string // UUID of the new session
	ResumeAt        string // resume only up to this message
	ResumeDropsTurn string // what ResumeAt is expected to leave out
	Title           string
	// EphemeralSession keeps the transcript off the disk. It cannot be combined
	// with SessionStore.
	EphemeralSession bool
	// SessionStore receives a copy of the transcript, and Resume and Continue
	// read from it. Claude writes its local transcript first in any case.
	SessionStore SessionStore
	// EagerFlush hands every frame to the store at once instead of in batches.
	EagerFlush bool
	// LoadTimeout bounds each load from the store; 0 is a minute.
	LoadTimeout time.Duration

	// --- the stream ---

	IncludePartialMessages bool
	IncludeHookEvents      bool
	ForwardSubagentText    bool
	VerbatimPrompts        bool // no @path and slash-command expansion
	PromptSuggestions      bool
	AgentProgressSummaries bool
}

// Thinking configures extended thinking.
type Thinking struct {
	// Type is "adaptive" or "disabled"; empty means the fixed Budget.
	Type string
	// Budget is a fixed number of thinking tokens.
	Budget int
	// Display is "summarized" or "omitted"; empty is claude's default.
	Display string
}

// SystemPrompt replaces or extends claude's system prompt. An absent one
// (nil in Options) is an empty prompt, as in the JavaScript SDK; use
// &SystemPrompt{Preset: true} for claude's own.
type SystemPrompt struct {
	// Text, or Blocks with [SystemPromptDynamicBoundary] between them.
	Text   string
	Blocks []string
	// Preset keeps claude's own prompt; Append goes after it.
	Preset                 bool
	Append                 string
	ExcludeDynamicSections bool
	// Snapshot records the prompt once and reuses it; nil is claude's default.
	Snapshot *bool
}

// SettingSource is a settings file a session reads.
type SettingSource string

// The settings files, from the one that yields to the one that prevails, and
// the two tiers above them that only [ResolveSettings] names.
const (
	SourceUser    SettingSource = "user"    // ~/.claude/settings.json
	SourceProject SettingSource = "project" // .claude/settings.json
	SourceLocal   SettingSource = "local"   // .claude/settings.local.json
	SourceFlag    SettingSource = "flag"    // Options.Settings
	SourceManaged SettingSource = "managed" // policy
)

// Agent defines a subagent.
type Agent struct {
	Description     string         `json:"description"`
	Prompt          string         `json:"prompt"`
	Tools           []string       `json:"tools,omitempty"` // nil inherits
	DisallowedTools []string       `json:"disallowedTools,omitempty"`
	Model           string         `json:"model,omitempty"`
	MCPServers      []any          `json:"mcpServers,omitempty"` // names, or inline configurations
	Skills          []string       `json:"skills,omitempty"`
	InitialPrompt   string         `json:"initialPrompt,omitempty"`
	MaxTurns        int            `json:"maxTurns,omitempty"`
	Background      bool           `json:"background,omitempty"`
	OmitClaudeMD    bool           `json:"omitClaudeMd,omitempty"`
	Memory          string         `json:"memory,omitempty"`
	Effort          string         `json:"effort,omitempty"`
	PermissionMode  PermissionMode `json:"permissionMode,omitempty"`
}

// Plugin is a plugin on disk.
type Plugin struct {
	Path             string
	SkipMCPDiscovery bool
}

// ElicitationRequest is what an MCP server asks the user.
type ElicitationRequest struct {
	ServerName      string          `json:"mcp_server_name"`
	Message         string          `json:"message"`
	Mode            string          `json:"mode"` // "form" or "url"
	URL             string          `json:"url"`
	ElicitationID   string          `json:"elicitation_id"`
	RequestedSchema json.RawMessage `json:"requested_schema"`
	Title           string          `json:"title"`
	DisplayName     string          `json:"display_name"`
	Description     string          `json:"description"`
}

// ElicitationResult is the answer: Action is "accept", "decline" or "cancel".
type ElicitationResult struct {
	Action  string         `json:"action"`
	Content map[string]any `json:"content,omitempty"`
}

// DialogRequest asks the caller to show a dialog of a kind it declared.
type DialogRequest struct {
	Kind      string          `json:"dialog_kind"`
	Payload   json.RawMessage `json:"payload"`
	ToolUseID string          `json:"tool_use_id"`
}

// DialogResult is the answer: Behavior is "completed" or "cancelled".
type DialogResult struct {
	Behavior string `json:"behavior"`
	Result   any    `json:"result,omitempty"`
}
