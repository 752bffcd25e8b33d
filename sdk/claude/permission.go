package claude

import (
	"context"
	"encoding/json"
)

// CanUseTool decides about one tool call. Its context ends when claude
// withdraws the question or the stream closes; calls may overlap. An error is
// reported to claude, which denies the call.
type CanUseTool func(ctx context.Context, req PermissionRequest) (PermissionResult, error)

// PermissionRequest is a tool call that waits for a decision.
type PermissionRequest struct {
	ToolName           string             `json:"tool_name"`
	Input              json.RawMessage    `json:"input"`
	ToolUseID          string             `json:"tool_use_id"`
	AgentID            string             `json:"agent_id"` // of the subagent that asks
	Suggestions        []PermissionUpdate `json:"permission_suggestions"`
	BlockedPath        string             `json:"blocked_path"`
	DecisionReason     string             `json:"decision_reason"`
	DecisionReasonType string             `json:"decision_reason_type"`
	Title              string             `json:"title"`
	DisplayName        string             `json:"display_name"`
	Description        string             `json:"description"`
	// DefaultToNo: one stray keystroke must not approve this.
	DefaultToNo bool `json:"default_to_no"`
	// SuppressAlwaysAllow: do not offer "don't ask again".
	SuppressAlwaysAllow bool            `json:"suppress_always_allow_rule"`
	MCPServer           *MCPServerOwner `json:"mcp_server"`
	RequestID           string          `json:"-"`
	Raw                 json.RawMessage `json:"-"` // everything claude sent
}

// MCPServerOwner says where an MCP tool comes from. Trust Source, never Name:
// only "sdk" means a server this program registered.
type MCPServerOwner struct {
	Name   string `json:"name"`
	Source string `json:"source"`
}

// PermissionResult is the decision; make one with [Allow] or [Deny].
type PermissionResult struct {
	Behavior           string             `json:"behavior"`
	UpdatedInput       json.RawMessage    `json:"updatedInput,omitempty"`       // allow: run with this input
	UpdatedPermissions []PermissionUpdate `json:"updatedPermissions,omitempty"` // allow: rules to remember
	Message            string             `json:"message,omitempty"`            // deny: what the model is told
	Interrupt          bool               `json:"interrupt,omitempty"`          // deny: end the turn
	Classification     string             `json:"decisionClassification,omitempty"`
	ToolUseID          string             `json:"toolUseID,omitempty"`
}

// Allow lets a tool call run as the model asked for it.
func Allow() PermissionResult { return PermissionResult{Behavior: "allow"} }

// Deny refuses a tool call; the model reads why.
func Deny(why string) PermissionResult { return PermissionResult{Behavior: "deny", Message: why} }

// PermissionUpdate changes permission rules. Type is "addRules",
// "replaceRules", "removeRules", "setMode", "addDirectories" or
// "removeDirectories".
type PermissionUpdate struct {
	Type        string           `json:"type"`
	Rules       []PermissionRule `json:"rules,omitempty"`
	Behavior    string           `json:"behavior,omitempty"` // "allow", "deny", "ask"
	Mode        PermissionMode   `json:"mode,omitempty"`
	Directories []string         `json:"directories,omitempty"`
	// Destination is "userSettings", "projectSettings", "localSettings",
	// "session" or "cliArg".
	Destination string `json:"destination,omitempty"`
}

// PermissionRule is one rule, such as Bash with content "git *".
type PermissionRule struct {
	ToolName    string `json:"toolName"`
	RuleContent string `json:"ruleContent,omitempty"`
}
