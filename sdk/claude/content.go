package claude

import (
	"encoding/json"
	"strings"
)

// ContentBlock is one block of a message, in the shape of the Messages API.
// Which fields are set depends on Type; Raw has the block as it came, with
// every field this type does not name.
type ContentBlock struct {
	Type string `json:"type"`

	Text      string `json:"text,omitempty"`      // text
	Thinking  string `json:"thinking,omitempty"`  // thinking
	Signature string `json:"signature,omitempty"` // thinking

	ID    string          `json:"id,omitempty"`    // tool_use
	Name  string          `json:"name,omitempty"`  // tool_use
	Input json.RawMessage `json:"input,omitempty"` // tool_use

	ToolUseID string          `json:"tool_use_id,omitempty"` // tool_result
	Content   json.RawMessage `json:"content,omitempty"`     // tool_result: a string or blocks
	IsError   bool            `json:"is_error,omitempty"`    // tool_result

	Source json.RawMessage `json:"source,omitempty"` // image, document

	Raw json.RawMessage `json:"-"`
}

// UnmarshalJSON decodes a block and keeps its raw form.
func (b *ContentBlock) UnmarshalJSON(data []byte) error {
	type plain ContentBlock
	if err := json.Unmarshal(data, (*plain)(b)); err != nil {
		return err
	}
	b.Raw = append(json.RawMessage(nil), data...)
	return nil
}

// ResultText returns the text of a tool_result block, whether its content is a
// string or blocks.
func (b ContentBlock) ResultText() string { return Content(b.Content).Text() }

// Content is the content of a message as it came: a JSON string, or an array
// of blocks.
type Content json.RawMessage

// Blocks returns the blocks; plain text becomes one text block.
func (c Content) Blocks() ([]ContentBlock, error) {
	var text string
	if len(c) == 0 || string(c) == "null" {
		return nil, nil
	}
	if json.Unmarshal(c, &text) == nil {
		return []ContentBlock{{Type: "text", Text: text}}, nil
	}
	var blocks []ContentBlock
	err := json.Unmarshal(c, &blocks)
	return blocks, err
}

// Text returns the text blocks joined, or "" for content without any.
func (c Content) Text() string {
	blocks, err := c.Blocks()
	if err != nil {
		return ""
	}
	var text strings.Builder
	for _, b := range blocks {
		if b.Type == "text" {
			text.WriteString(b.Text)
		}
	}
	return text.String()
}
