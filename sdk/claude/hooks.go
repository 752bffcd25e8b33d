package claude

import (
	"context"
	"encoding/json"
	"time"
)

// HookMatcher binds callbacks to an event.
type HookMatcher struct {
	// Matcher restricts tool events to tools ("Bash", "Edit|Write"); empty is all.
	Matcher string
	Hooks   []HookFunc
	// Timeout bounds each callback on claude's side; 0 is claude's default.
	Timeout time.Duration
	// BlockOnFailure blocks the guarded action when a callback fails; otherwise
	// a failure is reported and the action goes ahead.
	BlockOnFailure bool
}

// HookFunc is called at a hook event. Its context ends when claude gives up on
// the answer or the stream closes; calls may overlap.
type HookFunc func(ctx context.Context, in HookInput) (HookOutput, error)

// HookInput is what a hook is told. The first fields come with every event,
// the others with those that have them; Raw has everything.
type HookInput struct {
	Event          HookEvent      `json:"hook_event_name"`
	SessionID      string         `json:"session_id"`
	TranscriptPath string         `json:"transcript_path"`
	Cwd            string         `json:"cwd"`
	PromptID       string         `json:"prompt_id"`
	PermissionMode PermissionMode `json:"permission_mode"`
	AgentID        string         `json:"agent_id"`   // inside a subagent
	AgentType      string         `json:"agent_type"` // inside a subagent

	ToolName     string          `json:"tool_name"`
	ToolInput    json.RawMessage `json:"tool_input"`
	ToolResponse json.RawMessage `json:"tool_response"`
	ToolUseID    string          `json:"tool_use_id"`
	Error        string          `json:"error"`

	Prompt               string     `json:"prompt"`                 // UserPromptSubmit
	Message              string     `json:"message"`                // Notification
	Title                string     `json:"title"`                  // Notification
	StopHookActive       bool       `json:"stop_hook_active"`       // Stop, SubagentStop
	LastAssistantMessage string     `json:"last_assistant_message"` // Stop, SubagentStop
	Source               string     `json:"source"`                 // SessionStart, ConfigChange
	Reason               ExitReason `json:"reason"`                 // SessionEnd
	Trigger              string     `json:"trigger"`                // PreCompact, PostCompact, Setup

	Raw json.RawMessage `json:"-"`
}

// HookOutput is a hook's answer; the zero value lets things take their course.
type HookOutput struct {
	// Continue false ends the turn, with StopReason shown to the user.
	Continue       *bool  `json:"continue,omitempty"`
	StopReason     string `json:"stopReason,omitempty"`
	SuppressOutput bool   `json:"suppressOutput,omitempty"`
	// Decision is "block" or "approve"; Reason is told to the model.
	Decision      string `json:"decision,omitempty"`
	Reason        string `json:"reason,omitempty"`
	SystemMessage string `json:"systemMessage,omitempty"`
	// Specific is the part that only this event understands.
	Specific *HookSpecific `json:"hookSpecificOutput,omitempty"`
	// Async lets claude go on without waiting for more.
	Async        bool          `json:"async,omitempty"`
	AsyncTimeout time.Duration `json:"-"`
}

// MarshalJSON encodes the answer as claude reads it.
func (o HookOutput) MarshalJSON() ([]byte, error) {
	if o.Async {
		return json.Marshal(struct {
			Async        bool  `json:"async"`
			AsyncTimeout int64 `json:"asyncTimeout,omitempty"`
		}{true, o.AsyncTimeout.Milliseconds()})
	}
	type plain HookOutput
	return json.Marshal(plain(o))
}

// HookSpecific holds the event-specific answers. Event is filled in from the
// event when it is empty.
type HookSpecific struct {
	Event HookEvent `json:"hookEventName"`

	PermissionDecision       string          `json:"permissionDecision,omitempty"` // PreToolUse: allow, deny, ask, defer
	PermissionDecisionReason string          `json:"permissionDecisionReason,omitempty"`
	UpdatedInput             json.RawMessage `json:"updatedInput,omitempty"`           // PreToolUse
	AdditionalContext        string          `json:"additionalContext,omitempty"`      // most events
	UpdatedMCPToolOutput     json.RawMessage `json:"updatedMCPToolOutput,omitempty"`   // PostToolUse
	Decision                 any             `json:"decision,omitempty"`               // PermissionRequest: a PermissionResult
	Action                   string          `json:"action,omitempty"`                 // Elicitation
	Content                  map[string]any  `json:"content,omitempty"`                // Elicitation
	InitialUserMessage       string          `json:"initialUserMessage,omitempty"`     // SessionStart
	SessionTitle             string          `json:"sessionTitle,omitempty"`           // SessionStart, UserPromptSubmit
	WorktreePath             string          `json:"worktreePath,omitempty"`           // WorktreeCreate
	WatchPaths               []string        `json:"watchPaths,omitempty"`             // SessionStart, FileChanged
	Retry                    bool            `json:"retry,omitempty"`                  // PermissionDenied
	SuppressOriginalPrompt   bool            `json:"suppressOriginalPrompt,omitempty"` // UserPromptSubmit
	ReloadSkills             bool            `json:"reloadSkills,omitempty"`           // SessionStart
}
