package claude

import (
	"encoding/json"
	"fmt"

	"github.com/tidwall/gjson"
)

// Message is one message of a stream: *[AssistantMessage], *[UserEcho],
// *[ResultMessage], *[SystemMessage], *[PartialMessage], or *[OtherMessage]
// for a type this package does not know. Fields that no Go type names are in
// the raw form, so a newer claude loses nothing.
type Message interface {
	// MessageType is the wire's "type".
	MessageType() string
	// RawJSON is the message exactly as claude wrote it; do not change it.
	RawJSON() json.RawMessage
}

// Envelope is what all messages carry.
type Envelope struct {
	Type      string
	Subtype   string
	SessionID string
	UUID      string
	// ParentToolUseID is set on messages of a subagent: the tool call that
	// started it.
	ParentToolUseID string

	raw json.RawMessage
}

// MessageType is the wire's "type".
func (e *Envelope) MessageType() string { return e.Type }

// RawJSON is the message exactly as claude wrote it; do not change it.
func (e *Envelope) RawJSON() json.RawMessage { return e.raw }

// Decode decodes the raw message into v, for fields without a Go name.
func (e *Envelope) Decode(v any) error {
	if err := json.Unmarshal(e.raw, v); err != nil {
		return fmt.Errorf("decode %s message: %w", e.Type, err)
	}
	return nil
}

// AssistantMessage is a (part of a) reply of the model. Claude sends one
// message per finished content block, several of them with one message id.
type AssistantMessage struct {
	Envelope
	// Error names an API failure that claude reports as a reply, such as
	// "authentication_failed"; empty otherwise.
	Error string

	body json.RawMessage
}

// Body is the Messages API message as it came: id, model, content, usage.
func (m *AssistantMessage) Body() json.RawMessage { return m.body }

// Content is the content of the reply.
func (m *AssistantMessage) Content() Content {
	return Content(gjson.GetBytes(m.body, "content").Raw)
}

// Text returns the reply's text.
func (m *AssistantMessage) Text() string { return m.Content().Text() }

// ToolUses returns the tool calls in the reply.
func (m *AssistantMessage) ToolUses() []ContentBlock {
	var uses []ContentBlock
	blocks, _ := m.Content().Blocks()
	for _, b := range blocks {
		if b.Type == "tool_use" {
			uses = append(uses, b)
		}
	}
	return uses
}

// Usage counts the tokens of one reply.
type Usage struct {
	InputTokens              int `json:"input_tokens"`
	OutputTokens             int `json:"output_tokens"`
	CacheCreationInputTokens int `json:"cache_creation_input_tokens"`
	CacheReadInputTokens     int `json:"cache_read_input_tokens"`
}

// UserEcho is a user-side message that claude shows: tool results, what a
// subagent was told, and replayed prompts.
type UserEcho struct {
	Envelope
	body json.RawMessage
}

// Body is the Messages API message as it came.
func (m *UserEcho) Body() json.RawMessage { return m.body }

// Content is the content of the message.
func (m *UserEcho) Content() Content { return Content(gjson.GetBytes(m.body, "content").Raw) }

// PartialMessage is one streaming event of the Messages API; they come with
// [Options.IncludePartialMessages].
type PartialMessage struct {
	Envelope
	event json.RawMessage
}

// Event is the streaming event as it came.
func (m *PartialMessage) Event() json.RawMessage { return m.event }

// TextDelta returns the text this event adds, or "".
func (m *PartialMessage) TextDelta() string {
	if gjson.GetBytes(m.event, "delta.type").Str != "text_delta" {
		return ""
	}
	return gjson.GetBytes(m.event, "delta.text").String()
}

// OtherMessage is a message whose type this package does not know, or that
// carries no more than its envelope.
type OtherMessage struct{ Envelope }

// decodeMessage turns one line into a message. Only the envelope is read here;
// bodies are decoded when a caller asks, which keeps up with streams of large
// tool results.
func decodeMessage(line []byte) (Message, error) {
	var (
		env         = Envelope{raw: line}
		body, event json.RawMessage
		replyError  string
	)
	ok := eachMember(line, func(name, value []byte) {
		switch string(name) {
		case "type":
			env.Type = unquote(value)
		case "subtype":
			env.Subtype = unquote(value)
		case "session_id":
			env.SessionID = unquote(value)
		case "uuid":
			env.UUID = unquote(value)
		case "parent_tool_use_id":
			env.ParentToolUseID = unquote(value)
		case "message":
			body = value
		case "event":
			event = value
		case "error":
			replyError = unquote(value)
		}
	})
	if !ok {
		return nil, fmt.Errorf("message from claude is not a JSON object: %.200q", line)
	}
	switch env.Type {
	case "assistant":
		return &AssistantMessage{Envelope: env, Error: replyError, body: body}, nil
	case "user":
		return &UserEcho{Envelope: env, body: body}, nil
	case "stream_event":
		return &PartialMessage{Envelope: env, event: event}, nil
	case "result":
		return decodeResult(env)
	case "system":
		return &SystemMessage{Envelope: env}, nil
	}
	return &OtherMessage{Envelope: env}, nil
}
