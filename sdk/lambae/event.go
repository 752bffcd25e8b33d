package lambae

import (
	"encoding/json"
	"time"
)

// EventType says what an [Event] records (protocol, "Events: payloads").
type EventType string

// All event types. A reader should still expect others from a newer server.
const (
	EventClientMessage     EventType = "client.message.send"
	EventServerMessage     EventType = "server.message.send"
	EventProviderRequest   EventType = "provider.request"
	EventProviderResponse  EventType = "provider.response"
	EventToolCall          EventType = "tool.call"
	EventToolResult        EventType = "tool.result"
	EventMCPRequest        EventType = "mcp.request"
	EventMCPResponse       EventType = "mcp.response"
	EventSandboxRequest    EventType = "sandbox.request"
	EventSandboxResponse   EventType = "sandbox.response"
	EventSessionOpen       EventType = "session.open"
	EventSessionJoin       EventType = "session.join"
	EventDriverRegister    EventType = "session.driver.register"
	EventSandboxAvailable  EventType = "session.sandbox.available"
	EventSandboxStart      EventType = "session.sandbox.start"
	EventSandboxRunning    EventType = "session.sandbox.running"
	EventSandboxStop       EventType = "session.sandbox.stop"
	EventSandboxStopped    EventType = "session.sandbox.stopped"
	EventSandboxError      EventType = "session.sandbox.error"
	EventSubagentStart     EventType = "session.subagent.start"
	EventSubagentRunning   EventType = "session.subagent.running"
	EventSubagentCompleted EventType = "session.subagent.completed"
	EventSubagentFailed    EventType = "session.subagent.failed"
	EventSubagentCancelled EventType = "session.subagent.cancelled"
	EventSessionClose      EventType = "session.close"
	EventSessionError      EventType = "session.error"
	EventSessionCompaction EventType = "session.compaction"
)

// Beginning is an event id that no event has: a subscription since it replays
// the whole session (protocol, "Subscriptions").
const Beginning = "evt_00000000000000000000000000000000"

// Event is one entry of a session's log. Event.Decode gives its payload typed.
type Event struct {
	ID          string          `json:"id"`
	SessionID   string          `json:"session_id"`
	ClientKeyID string          `json:"client_key_id"` // whose doing it was
	Type        EventType       `json:"event_type"`
	Payload     json.RawMessage `json:"payload"`
	CreatedAt   time.Time       `json:"created_at"` // never earlier than the event before

	raw json.RawMessage
}

// Raw is the event's JSON, byte for byte as it came; of an event made by hand,
// its encoding.
func (e Event) Raw() json.RawMessage {
	if e.raw != nil {
		return e.raw
	}
	type fields Event // drops the methods, and so the recursion
	raw, err := encode(struct {
		fields
		CreatedAt string `json:"created_at"`
	}{fields(e), e.CreatedAt.UTC().Format(timeFormat)})
	if err != nil {
		return nil
	}
	return raw
}

// timeFormat has exactly three fractional digits (protocol, "Ids, keys, times").
const timeFormat = "2006-01-02T15:04:05.000Z"

// MarshalJSON implements [json.Marshaler].
func (e Event) MarshalJSON() ([]byte, error) { return e.Raw(), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (e *Event) UnmarshalJSON(raw []byte) error {
	type fields Event
	if err := json.Unmarshal(raw, (*fields)(e)); err != nil {
		return err
	}
	e.raw = append(json.RawMessage(nil), raw...)
	return nil
}
