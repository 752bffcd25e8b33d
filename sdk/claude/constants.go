package claude

// PermissionMode decides what happens when a tool wants to run.
type PermissionMode string

// The permission modes of Claude Code.
const (
	PermissionDefault     PermissionMode = "default"           // ask for what no rule allows
	PermissionAcceptEdits PermissionMode = "acceptEdits"       // file edits run unasked
	PermissionBypass      PermissionMode = "bypassPermissions" // everything runs; see Options.AllowBypassPermissions
	PermissionPlan        PermissionMode = "plan"              // read and plan, change nothing
	PermissionDontAsk     PermissionMode = "dontAsk"           // deny what no rule allows
	PermissionAuto        PermissionMode = "auto"              // a model decides, asks when it cannot
)

// HookEvent names a moment at which Claude Code calls hooks.
type HookEvent string

// The hook events, in the order the JavaScript SDK lists them.
const (
	HookPreToolUse           HookEvent = "PreToolUse"
	HookPostToolUse          HookEvent = "PostToolUse"
	HookPostToolUseFailure   HookEvent = "PostToolUseFailure"
	HookPostToolBatch        HookEvent = "PostToolBatch"
	HookNotification         HookEvent = "Notification"
	HookUserPromptSubmit     HookEvent = "UserPromptSubmit"
	HookUserPromptExpansion  HookEvent = "UserPromptExpansion"
	HookSessionStart         HookEvent = "SessionStart"
	HookSessionEnd           HookEvent = "SessionEnd"
	HookStop                 HookEvent = "Stop"
	HookStopFailure          HookEvent = "StopFailure"
	HookSubagentStart        HookEvent = "SubagentStart"
	HookSubagentStop         HookEvent = "SubagentStop"
	HookPreCompact           HookEvent = "PreCompact"
	HookPostCompact          HookEvent = "PostCompact"
	HookPreModelSwitch       HookEvent = "PreModelSwitch"
	HookPostModelSwitch      HookEvent = "PostModelSwitch"
	HookPermissionRequest    HookEvent = "PermissionRequest"
	HookPermissionDenied     HookEvent = "PermissionDenied"
	HookSetup                HookEvent = "Setup"
	HookTeammateIdle         HookEvent = "TeammateIdle"
	HookTaskCreated          HookEvent = "TaskCreated"
	HookTaskCompleted        HookEvent = "TaskCompleted"
	HookElicitation          HookEvent = "Elicitation"
	HookElicitationResult    HookEvent = "ElicitationResult"
	HookConfigChange         HookEvent = "ConfigChange"
	HookWorktreeCreate       HookEvent = "WorktreeCreate"
	HookWorktreeRemove       HookEvent = "WorktreeRemove"
	HookInstructionsLoaded   HookEvent = "InstructionsLoaded"
	HookCwdChanged           HookEvent = "CwdChanged"
	HookFileChanged          HookEvent = "FileChanged"
	HookDirectoryAdded       HookEvent = "DirectoryAdded"
	HookMessageDisplay       HookEvent = "MessageDisplay"
	HookPreSkillShellCommand HookEvent = "PreSkillShellCommand"
)

// HookEvents returns every [HookEvent], so that a caller can register one
// handler for all of them. The slice is the caller's to keep.
func HookEvents() []HookEvent {
	return []HookEvent{
		HookPreToolUse, HookPostToolUse, HookPostToolUseFailure, HookPostToolBatch, HookNotification,
		HookUserPromptSubmit, HookUserPromptExpansion, HookSessionStart, HookSessionEnd, HookStop,
		HookStopFailure, HookSubagentStart, HookSubagentStop, HookPreCompact, HookPostCompact,
		HookPreModelSwitch, HookPostModelSwitch, HookPermissionRequest, HookPermissionDenied, HookSetup,
		HookTeammateIdle, HookTaskCreated, HookTaskCompleted, HookElicitation, HookElicitationResult,
		HookConfigChange, HookWorktreeCreate, HookWorktreeRemove, HookInstructionsLoaded, HookCwdChanged,
		HookFileChanged, HookDirectoryAdded, HookMessageDisplay, HookPreSkillShellCommand,
	}
}

// ExitReason says why a conversation ended; a SessionEnd hook receives it.
type ExitReason string

// The exit reasons of Claude Code.
const (
	ExitClear           ExitReason = "clear"
	ExitResume          ExitReason = "resume"
	ExitLogout          ExitReason = "logout"
	ExitPromptInputExit ExitReason = "prompt_input_exit"
	ExitOther           ExitReason = "other"
)

// ExitReasons returns every [ExitReason]. The slice is the caller's to keep.
func ExitReasons() []ExitReason {
	return []ExitReason{ExitClear, ExitResume, ExitLogout, ExitPromptInputExit, ExitOther}
}

// SystemPromptDynamicBoundary splits a custom system prompt given as blocks
// ([SystemPrompt.Blocks]) into a stable prefix, which the provider may cache
// across sessions, and a suffix that belongs to this session.
const SystemPromptDynamicBoundary = "__SYSTEM_PROMPT_DYNAMIC_BOUNDARY__"
