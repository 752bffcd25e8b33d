package claude

import (
	"encoding/json"
	"fmt"
)

// The subtypes of a [ResultMessage].
const (
	ResultSuccess              = "success"
	ResultErrorDuringExecution = "error_during_execution"
	ResultErrorMaxTurns        = "error_max_turns"
	ResultErrorMaxBudget       = "error_max_budget_usd"
)

// ResultMessage ends a turn: there is exactly one per turn, after everything
// else of it.
type ResultMessage struct {
	Envelope
	IsError           bool                  `json:"is_error"`
	Result            string                `json:"result"` // the final text, or the error's
	Errors            []string              `json:"errors"` // what went wrong, for error subtypes
	StructuredOutput  json.RawMessage       `json:"structured_output"`
	StopReason        string                `json:"stop_reason"`
	TerminalReason    string                `json:"terminal_reason"`
	NumTurns          int                   `json:"num_turns"`
	DurationMS        float64               `json:"duration_ms"`
	DurationAPIMS     float64               `json:"duration_api_ms"`
	TotalCostUSD      float64               `json:"total_cost_usd"` // of the whole query so far
	Usage             Usage                 `json:"usage"`
	ModelUsage        map[string]ModelUsage `json:"modelUsage"`
	PermissionDenials []PermissionDenial    `json:"permission_denials"`
	QueuedTurnCount   int                   `json:"queued_turn_count"`
	UserMessageUUIDs  []string              `json:"user_message_uuids"` // the messages this turn answered
	UserMessageUUID   string                `json:"user_message_uuid"`  // the last of them
}

// ModelUsage counts what one model was used for in this query.
type ModelUsage struct {
	InputTokens              int     `json:"inputTokens"`
	OutputTokens             int     `json:"outputTokens"`
	CacheReadInputTokens     int     `json:"cacheReadInputTokens"`
	CacheCreationInputTokens int     `json:"cacheCreationInputTokens"`
	WebSearchRequests        int     `json:"webSearchRequests"`
	CostUSD                  float64 `json:"costUSD"`
	ContextWindow            int     `json:"contextWindow"`
	MaxOutputTokens          int     `json:"maxOutputTokens"`
}

// PermissionDenial is a tool call that was not allowed.
type PermissionDenial struct {
	ToolName  string          `json:"tool_name"`
	ToolUseID string          `json:"tool_use_id"`
	ToolInput json.RawMessage `json:"tool_input"`
}

func decodeResult(env Envelope) (Message, error) {
	m := new(ResultMessage)
	// The embedded envelope has no tags, so its exported names would match
	// "uuid" and the like: it is put in place after decoding.
	if err := json.Unmarshal(env.raw, m); err != nil {
		return nil, fmt.Errorf("decode result message: %w", err)
	}
	m.Envelope = env
	return m, nil
}
