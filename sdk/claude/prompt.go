package claude

import (
	"encoding/json"
	"iter"
)

// Prompt is what a query starts with: one text, a sequence of messages, or a
// conversation that the caller feeds with [Stream.Send].
type Prompt struct {
	text string
	seq  iter.Seq[UserMessage]
	open bool
}

// Text is a one-shot prompt: the stream ends after its result.
func Text(prompt string) Prompt { return Prompt{text: prompt} }

// Sequence sends what seq yields, one message after the other, and ends the
// input when seq is done and everything it sent has its result. Seq runs on a
// goroutine of its own and may block; it must return once the query's context
// is done.
func Sequence(seq iter.Seq[UserMessage]) Prompt { return Prompt{seq: seq} }

// Conversation keeps the input open: call [Stream.Send] for every message and
// [Stream.CloseInput] after the last one. The given messages are sent first.
func Conversation(first ...UserMessage) Prompt {
	return Prompt{open: true, seq: func(yield func(UserMessage) bool) {
		for _, m := range first {
			if !yield(m) {
				return
			}
		}
	}}
}

// UserMessage is one message from the user, on its way to claude.
type UserMessage struct {
	// Content is a string, or blocks in the shape of the Messages API
	// ([]ContentBlock, or anything that encodes to such an array).
	Content any

	// UUID names the message in the transcript; one is made when it is empty.
	UUID string
	// SessionID is only needed by servers that hold several sessions.
	SessionID string
	// ParentToolUseID puts the message into a subagent's conversation.
	ParentToolUseID string
	// Priority is "now", "next" or "later"; empty is claude's default.
	Priority string
	// AppendOnly adds the message to the transcript without asking the model.
	AppendOnly bool
	// Verbatim keeps claude from expanding @paths and slash commands in it.
	Verbatim bool
}

// UserText is a message that is plain text.
func UserText(text string) UserMessage { return UserMessage{Content: text} }

type wireUserMessage struct {
	Type            string      `json:"type"`
	UUID            string      `json:"uuid,omitempty"`
	SessionID       string      `json:"session_id"`
	Message         wireContent `json:"message"`
	ParentToolUseID *string     `json:"parent_tool_use_id"`
	Priority        string      `json:"priority,omitempty"`
	ShouldQuery     *bool       `json:"shouldQuery,omitempty"`
	ClientComposed  bool        `json:"client_composed,omitempty"`
}

type wireContent struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// MarshalJSON encodes the message as claude reads it.
func (m UserMessage) MarshalJSON() ([]byte, error) {
	w := wireUserMessage{
		Type: "user", UUID: m.UUID, SessionID: m.SessionID, Priority: m.Priority, ClientComposed: m.Verbatim,
		Message: wireContent{Role: "user", Content: m.Content},
	}
	if text, ok := m.Content.(string); ok {
		w.Message.Content = []ContentBlock{{Type: "text", Text: text}}
	}
	if m.ParentToolUseID != "" {
		w.ParentToolUseID = &m.ParentToolUseID
	}
	if m.AppendOnly {
		w.ShouldQuery = new(bool)
	}
	return json.Marshal(w)
}
