package mcp

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
)

// ModelBlocks turns content blocks of MCP into those of the Messages API, which
// refuses a request with any other: images and PDFs into blocks with a source,
// texts into bare ones, and what a model cannot be shown (audio, binary files,
// links, types unknown here) into a text that says so. A text block without more
// members stays byte for byte; one without text, which the API refuses too, goes.
// Content that is no array is returned as it is.
func ModelBlocks(content json.RawMessage) json.RawMessage {
	var blocks []json.RawMessage
	if json.Unmarshal(content, &blocks) != nil {
		return content
	}
	out := make([]json.RawMessage, 0, len(blocks))
	for _, b := range blocks {
		if b := modelBlock(b); b != nil {
			out = append(out, b)
		}
	}
	// Joined by hand: encoding the array would rewrite the blocks.
	joined := []byte("[")
	for i, b := range out {
		if i > 0 {
			joined = append(joined, ',')
		}
		joined = append(joined, b...)
	}
	return append(joined, ']')
}

// block has the members of all of MCP's content types.
type block struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	Data     string `json:"data"`
	MIMEType string `json:"mimeType"`
	Resource struct {
		URI      string  `json:"uri"`
		MIMEType string  `json:"mimeType"`
		Text     *string `json:"text"`
		Blob     string  `json:"blob"`
	} `json:"resource"`
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// modelBlock translates one block; nil drops it.
func modelBlock(raw json.RawMessage) json.RawMessage {
	var b block
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &b) != nil || json.Unmarshal(raw, &members) != nil {
		return textBlock(string(raw))
	}
	switch b.Type {
	case "text":
		if b.Text == "" {
			return nil
		}
		if len(members) == 2 {
			return raw
		}
		return textBlock(b.Text)
	case "image":
		return mediaBlock(b.MIMEType, b.Data, "image")
	case "audio":
		return mediaBlock(b.MIMEType, b.Data, "audio")
	case "resource":
		if b.Resource.Text != nil {
			if *b.Resource.Text == "" {
				return nil
			}
			return textBlock(*b.Resource.Text)
		}
		return mediaBlock(b.Resource.MIMEType, b.Resource.Blob, b.Resource.URI)
	case "resource_link":
		return textBlock(strings.TrimSpace(fmt.Sprintf("[link to %s] %s %s", b.URI, b.Name, b.Description)))
	default:
		return textBlock(string(raw))
	}
}

// mediaBlock shows base64 data to a model where the Messages API has a block for
// its type.
func mediaBlock(mimeType, data, what string) json.RawMessage {
	kind := ""
	switch mimeType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		kind = "image"
	case "application/pdf":
		kind = "document"
	default:
		return textBlock(fmt.Sprintf("[%s (%s, %d bytes) cannot be shown]", what, mimeType, base64.RawStdEncoding.DecodedLen(len(strings.TrimRight(data, "=")))))
	}
	type source struct {
		Type      string `json:"type"`
		MediaType string `json:"media_type"`
		Data      string `json:"data"`
	}
	return encode(struct {
		Type   string `json:"type"`
		Source source `json:"source"`
	}{kind, source{"base64", mimeType, data}})
}

func textBlock(text string) json.RawMessage {
	return encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"text", text})
}

// encode writes strings as they are, without escapes for HTML.
func encode(v any) json.RawMessage {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // structs of strings
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}
