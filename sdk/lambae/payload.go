package lambae

import (
	"encoding/json"
	"fmt"
)

// Decode is the payload in the struct that belongs to the event's type, as a
// pointer: *Message for both message events, *[ToolCallPayload] for a tool
// call and so on. The payload of a type this package does not know comes as
// [json.RawMessage].
func (e Event) Decode() (any, error) {
	payload := payloadOf(e.Type)
	if payload == nil {
		return e.Payload, nil
	}
	if err := json.Unmarshal(e.Payload, payload); err != nil {
		return nil, fmt.Errorf("lambae: payload of %s %s: %w", e.Type, e.ID, err)
	}
	return payload, nil
}

func payloadOf(kind EventType) any {
	switch kind {
	case EventClientMessage, EventServerMessage:
		return new(Message)
	case EventProviderRequest:
		return new(ProviderRequestPayload)
	case EventProviderResponse:
		return new(ProviderResponsePayload)
	case EventToolCall:
		return new(ToolCallPayload)
	case EventToolResult:
		return new(ToolResultPayload)
	case EventMCPRequest:
		return new(MCPRequestPayload)
	case EventMCPResponse:
		return new(MCPResponsePayload)
	case EventSandboxRequest:
		return new(SandboxRequestPayload)
	case EventSandboxResponse:
		return new(SandboxResponsePayload)
	case EventSessionOpen, EventSessionJoin:
		return new(OpenPayload)
	case EventDriverRegister:
		return new(struct{})
	case EventSandboxAvailable:
		return new(SandboxAvailablePayload)
	case EventSandboxStart, EventSandboxRunning, EventSandboxStop, EventSandboxStopped, EventSandboxError:
		return new(SandboxPayload)
	case EventSubagentStart, EventSubagentRunning, EventSubagentCompleted, EventSubagentFailed, EventSubagentCancelled:
		return new(SubagentPayload)
	case EventSessionClose:
		return new(ClosePayload)
	case EventSessionError:
		return new(ErrorPayload)
	}
	return nil
}

// ProviderRequestPayload is what was sent to a model provider.
type ProviderRequestPayload struct {
	Attempt         int               `json:"attempt"`
	Kind            string            `json:"kind"` // primary or fallback
	Provider        string            `json:"provider"`
	BaseURL         string            `json:"base_url"`
	Model           string            `json:"model"`
	MaxTokens       int               `json:"max_tokens"`
	System          string            `json:"system"`
	Messages        []Message         `json:"messages"`
	MessagesOmitted bool              `json:"messages_omitted"` // too large, or their basis has expired
	Tools           []json.RawMessage `json:"tools"`
}

// ProviderResponsePayload is what came back: Body is the provider's own JSON
// when OK, else the text it answered, as a JSON string or null.
type ProviderResponsePayload struct {
	Attempt  int             `json:"attempt"`
	Kind     string          `json:"kind"`
	Provider string          `json:"provider"`
	OK       bool            `json:"ok"`
	Status   *int            `json:"status"` // nil when no answer came
	Error    string          `json:"error"`
	Body     json.RawMessage `json:"body"`
}

// ToolCallPayload is a model's wish to run a tool.
type ToolCallPayload struct {
	ToolUse
	ServerName *string `json:"server_name"` // of an MCP tool; nil when no server has it
}

// ToolResultPayload is what the tool answered.
type ToolResultPayload struct {
	ToolResult
	Dispatch   string  `json:"dispatch"`
	ServerName *string `json:"server_name"`
}

// MCPRequestPayload is a call to a tool of an MCP server.
type MCPRequestPayload struct {
	Method     string          `json:"method"`
	ServerName string          `json:"server_name"`
	Tool       string          `json:"tool"`
	Input      json.RawMessage `json:"input"`
}

// MCPResponsePayload is the MCP server's answer.
type MCPResponsePayload struct {
	ServerName string          `json:"server_name"`
	OK         bool            `json:"ok"`
	Result     json.RawMessage `json:"result"`
	Error      string          `json:"error"`
}

// SandboxRequestPayload is a command on its way to the remote sandbox.
type SandboxRequestPayload struct {
	Tool    string          `json:"tool"`
	Input   json.RawMessage `json:"input"`
	Command *string         `json:"command"`
}

// SandboxResponsePayload is the command's outcome. OK means exit code 0.
type SandboxResponsePayload struct {
	SandboxID *string     `json:"sandbox_id"`
	OK        bool        `json:"ok"`
	Result    *ExecResult `json:"result"`
	Error     string      `json:"error"`
}

// OpenPayload names what a client declared when it opened or joined.
type OpenPayload struct {
	ClientVersion *string  `json:"client_version"`
	Tools         []string `json:"tools"`
	SandboxTools  []string `json:"sandbox_tools"`
	SubagentTools []string `json:"subagent_tools"`
}

// SandboxAvailablePayload lists the images the profile offers.
type SandboxAvailablePayload struct {
	Images []SandboxImage `json:"images"`
}

// SandboxImage is an image and whether it can be used.
type SandboxImage struct {
	Name   string `json:"name"`
	Status string `json:"status"` // pending, available or error
	Detail string `json:"detail"`
}

// SandboxPayload is a step in the life of a sandbox. Dispatch is "remote" for
// the session's own, "local" for one that a client reports.
type SandboxPayload struct {
	Dispatch    string  `json:"dispatch"`
	Image       *string `json:"image"`
	SandboxID   string  `json:"sandbox_id"`   // remote
	ContainerID *string `json:"container_id"` // local
	Unsandboxed bool    `json:"unsandboxed"`  // local
	Reason      string  `json:"reason"`       // of a stop: explicit or session_close
	Phase       string  `json:"phase"`        // of an error: start, stop or exec
	Detail      *string `json:"detail"`
}

// SubagentPayload is a step in the life of a subagent.
type SubagentPayload struct {
	Dispatch   string  `json:"dispatch"`
	SubagentID string  `json:"subagent_id"`
	Harness    string  `json:"harness"`
	Model      string  `json:"model"`
	Detail     *string `json:"detail"`
	Reason     *string `json:"reason"`
	ExitCode   *int    `json:"exit_code"`
}

// ClosePayload says why a session closed.
type ClosePayload struct {
	Reason string `json:"reason"` // client_close or client_key_revoked
}

// Values of [ErrorPayload.Reason].
const (
	ReasonProviderConfig             = "provider_config"
	ReasonProviderCallFailed         = "provider_call_failed"
	ReasonAllProvidersFailed         = "all_providers_failed"
	ReasonLoopLimit                  = "loop_limit"
	ReasonProfileUnavailable         = "profile_unavailable"
	ReasonPrimaryProviderUnavailable = "primary_provider_unavailable"
	ReasonDriverTurnAbandoned        = "driver_turn_abandoned"
	ReasonToolResultMergeInvalid     = "tool_result_merge_invalid"
)

// ErrorPayload is something that went wrong. Not every reason ends the
// session; members that only one reason has are read from [Event.Payload].
type ErrorPayload struct {
	Reason   string `json:"reason"`
	Provider string `json:"provider"`
	Detail   string `json:"detail"`
}
