package provider

import (
	"context"
	"encoding/json"
	"time"
)

// Provider makes attempts at one model. It is safe for concurrent use.
type Provider interface {
	Info() Info
	Format() Format
	// Call makes one attempt (protocol, "The turn", step 3). A failed attempt is
	// an [*Error]; any other error is the end of ctx.
	Call(ctx context.Context, r Request) (*Response, error)
}

// Info is what events and the admin API tell of a provider. It holds no secret.
type Info struct {
	Name  string // of the registry entry
	Kind  string // the wire format: anthropic | openai | bedrock | echo
	Model string
	// BaseURL is the address in effect: the entry's, else the kind's own. It is
	// "" for echo, which has none, and for bedrock in a region not told to the
	// [Registry].
	BaseURL   string
	MaxTokens int
}

// Format translates canonical messages to a wire format. It has no state.
type Format interface {
	// AppendMessage appends the wire form of one canonical message
	// {"role","content"} to dst: one or more JSON values separated by commas,
	// with no comma at either end, or nothing for a message that this format
	// cannot hold and nobody misses. The members dispatch and caller are taken off
	// tool_use blocks; for the Anthropic format everything else of the message
	// passes byte for byte. An error means that this message cannot be said in
	// this format, a failed attempt; dst is then returned as it came.
	AppendMessage(dst, message []byte) ([]byte, error)
}

// Request is one call of a model.
type Request struct {
	System string // "" = none
	// Messages are segments whose concatenation is the inside of the wire
	// "messages" array, as AppendMessage built it and separated by commas. They
	// are not copied, and a connection may read them a little longer than Call
	// takes, so their bytes must never change.
	Messages [][]byte
	// Tools is the canonical array of {name, description?, input_schema}. Of tools
	// that share a name the first is sent, since APIs refuse the call otherwise.
	Tools json.RawMessage
	// OnDelta receives what the model says as it says it, one call at a time. nil
	// asks for the answer whole; the outcome of Call is the same either way.
	OnDelta func(Delta)
}

// Types of deltas.
const (
	DeltaText      = "text"
	DeltaThinking  = "thinking"
	DeltaInputJSON = "input_json" // a piece of a tool call's input as JSON text
)

// Delta is a piece of an answer.
type Delta struct {
	Index int // of the block in the answer's content
	Type  string
	Text  string
}

// Response is the answer of a model.
type Response struct {
	Status int
	// Body is the answer as the API gave it, untranslated, on one line. The
	// pieces of a streamed answer are put together to the body that a call without
	// streaming would have given.
	Body json.RawMessage
	// Content is the canonical content: an array of blocks, or a string where the
	// model gave one.
	Content json.RawMessage
	// InputTokens counts all input, cached or not.
	InputTokens, OutputTokens int64
}

// Error is a failed attempt. It never holds a token.
type Error struct {
	Status int     // of the HTTP answer; 0 when there was none
	Body   *string // raw text of the answer; nil when there was none
	Detail string  // says what went wrong, for the caller to see
	// Config tells that no call was made because the entry cannot be used as
	// configured: its token does not resolve, or its client cannot be built.
	Config bool
	// Temporary tells that the same call may succeed a little later: 429, 5xx, a
	// broken connection. It is false once a delta was passed on, since a second
	// call would say it again.
	Temporary bool
	// RetryAfter is how long the API asks to wait first; 0 when it does not say.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Detail }
