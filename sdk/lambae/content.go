package lambae

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Roles of a [Message].
const (
	RoleUser      = "user"
	RoleAssistant = "assistant"
)

// Message is one turn of a conversation.
type Message struct {
	Role    string  `json:"role"`
	Content Content `json:"content"`
}

// UserMessage is a message of plain text from the user.
func UserMessage(text string) Message { return Message{RoleUser, Text(text)} }

// Content is what a message or a tool result says: a string or a list of
// blocks, and in a tool result any other JSON too. It keeps its JSON as it
// came. The zero Content is empty and encodes as an empty string.
type Content struct{ raw json.RawMessage }

// Text is content of one plain string.
func Text(text string) Content { return Content{quote(text)} }

// Blocks is content of a list of blocks.
func Blocks(blocks ...Block) Content {
	raw := []byte{'['}
	for i, block := range blocks {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = append(raw, block.Raw()...)
	}
	return Content{append(raw, ']')}
}

// RawContent is content of the given JSON, which is sent as it is.
func RawContent(raw json.RawMessage) (Content, error) {
	if !json.Valid(raw) {
		return Content{}, errors.New("lambae: content is not valid JSON")
	}
	return Content{raw}, nil
}

// Raw is the content's JSON, byte for byte as it came.
func (c Content) Raw() json.RawMessage {
	if len(c.raw) == 0 {
		return json.RawMessage(`""`)
	}
	return c.raw
}

// Text is the content for a reader: the string, or the text of all text
// blocks in a row, or the JSON of anything else.
func (c Content) Text() string {
	switch first(c.raw) {
	case '"':
		return unquote(c.raw)
	case '[':
		var text strings.Builder
		for _, block := range c.Blocks() {
			text.WriteString(block.Text())
		}
		return text.String()
	case 'n': // null
		return ""
	}
	return string(c.raw)
}

// Blocks is the content as blocks; a string counts as one text block. Content
// of a tool result that is neither has none.
func (c Content) Blocks() []Block {
	switch first(c.raw) {
	case '"':
		return []Block{TextBlock(unquote(c.raw))}
	case '[':
		var blocks []Block
		if json.Unmarshal(c.raw, &blocks) != nil {
			return nil // a list, but not of objects: allowed in a tool result only
		}
		return blocks
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (c Content) MarshalJSON() ([]byte, error) { return c.Raw(), nil }

// UnmarshalJSON implements [json.Unmarshaler].
func (c *Content) UnmarshalJSON(raw []byte) error {
	c.raw = append(json.RawMessage(nil), raw...)
	return nil
}

// Types of blocks that the protocol itself speaks of. A model may send others.
const (
	BlockText       = "text"
	BlockToolUse    = "tool_use"
	BlockToolResult = "tool_result"
)

// Who runs a tool: the values of [ToolUse.Dispatch].
const (
	DispatchClient   = "client"
	DispatchSandbox  = "sandbox"
	DispatchMCP      = "mcp"
	DispatchSubagent = "subagent"
)

// Block is one content block. It keeps its JSON as it came.
type Block struct {
	raw  json.RawMessage
	kind string
}

// ToolUse is a model's wish to run a tool. Dispatch says who runs it: only
// calls of [DispatchClient] are the client's to answer. A server that predates
// the member leaves it empty.
type ToolUse struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Input    json.RawMessage `json:"input"`
	Dispatch string          `json:"dispatch"`
}

// ToolResult answers the [ToolUse] of the same id.
type ToolResult struct {
	ToolUseID string  `json:"tool_use_id"`
	Content   Content `json:"content"`
	IsError   bool    `json:"is_error,omitempty"`
}

// TextBlock is a block of text.
func TextBlock(text string) Block {
	return Block{[]byte(`{"type":"text","text":` + string(quote(text)) + `}`), BlockText}
}

// ToolResultBlock is the block that carries result.
func ToolResultBlock(result ToolResult) Block {
	raw := `{"type":"tool_result","tool_use_id":` + string(quote(result.ToolUseID)) +
		`,"content":` + string(result.Content.Raw())
	if result.IsError {
		raw += `,"is_error":true`
	}
	return Block{[]byte(raw + "}"), BlockToolResult}
}

// RawBlock is a block of the given JSON object, which is sent as it is.
func RawBlock(raw json.RawMessage) (Block, error) {
	var block Block
	err := json.Unmarshal(raw, &block)
	return Block{raw, block.kind}, err
}

// Type is the block's type member.
func (b Block) Type() string { return b.kind }

// Raw is the block's JSON, byte for byte as it came.
func (b Block) Raw() json.RawMessage {
	if len(b.raw) == 0 {
		return TextBlock("").raw
	}
	return b.raw
}

// Text is the text of a text block and "" of any other.
func (b Block) Text() string {
	var body struct {
		Text string `json:"text"`
	}
	if b.kind != BlockText || json.Unmarshal(b.raw, &body) != nil {
		return ""
	}
	return body.Text
}

// ToolUse is the call in a tool_use block; ok is false for any other block.
func (b Block) ToolUse() (call ToolUse, ok bool) {
	if b.kind != BlockToolUse || json.Unmarshal(b.raw, &call) != nil {
		return ToolUse{}, false
	}
	return call, true
}

// ToolResult is the result in a tool_result block; ok is false for any other.
func (b Block) ToolResult() (result ToolResult, ok bool) {
	if b.kind != BlockToolResult || json.Unmarshal(b.raw, &result) != nil {
		return ToolResult{}, false
	}
	return result, true
}

// MarshalJSON implements [json.Marshaler].
func (b Block) MarshalJSON() ([]byte, error) { return b.Raw(), nil }

// UnmarshalJSON implements [json.Unmarshaler]. A block is an object with a type.
func (b *Block) UnmarshalJSON(raw []byte) error {
	var head struct {
		Type *string `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return fmt.Errorf("lambae: content block: %w", err)
	}
	if head.Type == nil {
		return errors.New(`lambae: content block has no "type"`)
	}
	b.raw, b.kind = append(json.RawMessage(nil), raw...), *head.Type
	return nil
}

func first(raw json.RawMessage) byte {
	if len(raw) == 0 {
		return '"' // zero content is the empty string
	}
	return raw[0]
}

func unquote(raw json.RawMessage) string {
	var text string
	if len(raw) > 0 {
		_ = json.Unmarshal(raw, &text) // raw is valid JSON and starts with a quote
	}
	return text
}
