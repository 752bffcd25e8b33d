package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// ChatCompletions is the OpenAI Chat Completions format (admin-and-config,
// "OpenAI translation"). What it cannot say as such takes the nearest form: a
// tool's failure is told in words, an image in a tool's result moves to the user
// message after it, and thinking, which only its own model understands, is left
// out. Blocks with no near form are an error.
type ChatCompletions struct{}

// AppendMessage implements [Format].
func (ChatCompletions) AppendMessage(dst, message []byte) ([]byte, error) {
	if !json.Valid(message) {
		return dst, errors.New("message is not a JSON object")
	}
	m := gjson.ParseBytes(message)
	content := m.Get("content")
	if !m.IsObject() || !content.IsArray() && content.Type != gjson.String {
		return dst, fmt.Errorf("message content is %s, want a string or an array of blocks", kindOf(content))
	}
	var out []byte
	var err error
	switch role := m.Get("role"); role.Str {
	case "user":
		out, err = appendUser(dst, content)
	case "assistant":
		out, err = appendAssistant(dst, content)
	default:
		err = fmt.Errorf(`message role is %s, want "user" or "assistant"`, role.Raw)
	}
	if err != nil {
		return dst, err
	}
	return out, nil
}

// appendUser writes a role:"tool" message per tool_result, then what remains as
// a user message. The order is the API's: results follow the calls at once.
func appendUser(dst []byte, content gjson.Result) ([]byte, error) {
	if content.Type == gjson.String {
		return appendChat(dst, "user", content.Raw), nil
	}
	var images, rest []string
	results := 0
	for i, block := range content.Array() {
		switch kind := block.Get("type").Str; kind {
		case "tool_result":
			id := block.Get("tool_use_id")
			if id.Type != gjson.String {
				return nil, fmt.Errorf("content[%d]: a tool_result without tool_use_id", i)
			}
			text, shown, err := toolContent(block)
			if err != nil {
				return nil, fmt.Errorf("content[%d]: %w", i, err)
			}
			if len(shown) > 0 {
				images = append(append(images, textPart(string(quote("Image in the result of tool call "+id.Str+":")))), shown...)
			}
			if results++; results > 1 {
				dst = append(dst, ',')
			}
			dst = append(append(dst, `{"role":"tool","tool_call_id":`...), id.Raw...)
			dst = append(append(append(dst, `,"content":`...), text...), '}')
		default:
			part, err := chatPart(block)
			if err != nil {
				return nil, fmt.Errorf("content[%d]: %w", i, err)
			}
			rest = append(rest, part)
		}
	}
	parts := append(images, rest...)
	if results > 0 && len(parts) == 0 {
		return dst, nil
	}
	if results > 0 {
		dst = append(dst, ',')
	}
	return appendChat(dst, "user", joinParts(parts)), nil
}

// appendAssistant writes one message: the text in one string, since many servers
// take no parts from an assistant, and the calls.
func appendAssistant(dst []byte, content gjson.Result) ([]byte, error) {
	if content.Type == gjson.String {
		return appendChat(dst, "assistant", content.Raw), nil
	}
	var text, calls []byte
	for i, block := range content.Array() {
		switch kind := block.Get("type").Str; kind {
		case "text":
			raw := block.Get("text").Raw
			if !strings.HasPrefix(raw, `"`) {
				return nil, fmt.Errorf("content[%d]: a text block without text", i)
			}
			text = append(text, raw[1:len(raw)-1]...)
		case "tool_use":
			id, name, input := block.Get("id"), block.Get("name"), block.Get("input").Raw
			if id.Type != gjson.String || name.Type != gjson.String {
				return nil, fmt.Errorf("content[%d]: a tool_use without id or name", i)
			}
			if input == "" {
				input = "{}"
			}
			if calls != nil {
				calls = append(calls, ',')
			}
			calls = fmt.Appendf(calls, `{"id":%s,"type":"function","function":{"name":%s,"arguments":%s}}`, id.Raw, name.Raw, quote(input))
		case "thinking", "redacted_thinking":
		default:
			return nil, unsupported(i, kind)
		}
	}
	said := `"` + string(text) + `"`
	if calls == nil {
		return appendChat(dst, "assistant", said), nil
	}
	if len(text) == 0 {
		said = "null"
	}
	return fmt.Appendf(dst, `{"role":"assistant","content":%s,"tool_calls":[%s]}`, said, calls), nil
}

func appendChat(dst []byte, role, content string) []byte {
	return fmt.Appendf(dst, `{"role":"%s","content":%s}`, role, content)
}

// toolContent returns the content of a role:"tool" message, which holds text
// only, and the images of the result. A client's result may be any JSON: what is
// neither text nor image is said as JSON text.
func toolContent(result gjson.Result) (content string, images []string, err error) {
	var texts []string
	switch v := result.Get("content"); {
	case !v.Exists() || v.Type == gjson.Null:
	case v.Type == gjson.String:
		texts = append(texts, v.Raw)
	case isBlocks(v):
		for _, block := range v.Array() {
			switch block.Get("type").Str {
			case "text":
				part := block.Get("text")
				if part.Type != gjson.String {
					return "", nil, errors.New("a text block without text")
				}
				texts = append(texts, part.Raw)
			case "image":
				part, err := chatPart(block)
				if err != nil {
					return "", nil, err
				}
				images = append(images, part)
			default:
				texts = append(texts, string(quote(block.Raw)))
			}
		}
	default:
		texts = append(texts, string(quote(v.Raw)))
	}
	if len(texts) == 0 {
		texts = []string{`""`}
		if len(images) > 0 {
			texts = []string{`"The result is an image, shown in the next message."`}
		}
	}
	if result.Get("is_error").Bool() {
		texts[0] = `"Error: ` + texts[0][1:]
	}
	var parts []string
	for _, text := range texts {
		parts = append(parts, textPart(text))
	}
	return joinParts(parts), images, nil
}

// isBlocks tells an array of content blocks from any other JSON.
func isBlocks(v gjson.Result) bool {
	if !v.IsArray() {
		return false
	}
	for _, item := range v.Array() {
		if item.Get("type").Type != gjson.String {
			return false
		}
	}
	return true
}

// chatPart is the part a block becomes in a user message.
func chatPart(block gjson.Result) (string, error) {
	switch kind := block.Get("type").Str; kind {
	case "text":
		text := block.Get("text")
		if text.Type != gjson.String {
			return "", errors.New("a text block without text")
		}
		return textPart(text.Raw), nil
	case "image":
		url, err := imageURL(block.Get("source"))
		return `{"type":"image_url","image_url":{"url":` + url + `}}`, err
	default:
		return "", fmt.Errorf("a block of type %q cannot be said in the OpenAI format", kind)
	}
}

func unsupported(i int, kind string) error {
	return fmt.Errorf("content[%d]: a block of type %q cannot be said in the OpenAI format", i, kind)
}

// imageURL returns the address of an image as a JSON string.
func imageURL(source gjson.Result) (string, error) {
	switch kind := source.Get("type").Str; kind {
	case "base64":
		media, data := source.Get("media_type").Str, source.Get("data").Str
		if media == "" || data == "" {
			return "", errors.New("an image without media_type or data")
		}
		return string(quote("data:" + media + ";base64," + data)), nil
	case "url":
		if url := source.Get("url"); url.Type == gjson.String {
			return url.Raw, nil
		}
		return "", errors.New("an image without url")
	default:
		return "", fmt.Errorf("an image whose source is of type %q cannot be said in the OpenAI format", kind)
	}
}

// textPart takes a JSON string.
func textPart(text string) string { return `{"type":"text","text":` + text + `}` }

// joinParts is a content of parts, or the bare string where one text is all:
// every server takes that.
func joinParts(parts []string) string {
	if len(parts) == 0 {
		return `""`
	}
	if text := gjson.Get(parts[0], "text"); len(parts) == 1 && text.Exists() {
		return text.Raw
	}
	return "[" + strings.Join(parts, ",") + "]"
}
