package provider

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// chatAnswer reads an answer of the OpenAI format into canonical content: text
// first, then a tool_use per call. The error says what is wrong with it.
func chatAnswer(status int, raw []byte) (*Response, error) {
	raw, err := valid(raw)
	if err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	v := gjson.ParseBytes(raw)
	if !v.IsObject() {
		return nil, fmt.Errorf("the answer is %s, want a chat completion object", kindOf(v))
	}
	if e := v.Get("error"); e.Exists() && e.Type != gjson.Null {
		return nil, fmt.Errorf("the answer is an error: %s", chatErrorText(e))
	}
	message := v.Get("choices.0.message")
	if !message.IsObject() {
		return nil, fmt.Errorf("choices[0].message of the answer is %s, want an object", kindOf(message))
	}
	if role := message.Get("role"); role.Exists() && role.Type != gjson.Null && role.Str != "assistant" {
		return nil, fmt.Errorf(`the answer has role %s, want "assistant"`, role.Raw)
	}
	content, err := chatContent(message, raw)
	if err != nil {
		return nil, err
	}
	return &Response{
		Status: status, Body: raw, Content: content,
		InputTokens: v.Get("usage.prompt_tokens").Int(), OutputTokens: v.Get("usage.completion_tokens").Int(),
	}, nil
}

func chatContent(message gjson.Result, body []byte) (json.RawMessage, error) {
	blocks := chatTexts(message.Get("content"))
	if refusal := message.Get("refusal"); refusal.Str != "" {
		blocks = append(blocks, textPart(refusal.Raw))
	}
	for i, call := range message.Get("tool_calls").Array() {
		block, err := toolUse(call, callID(call, body, i))
		if err != nil {
			return nil, fmt.Errorf("tool_calls[%d] of the answer: %w", i, err)
		}
		blocks = append(blocks, block)
	}
	content := "[" + strings.Join(blocks, ",") + "]"
	return json.RawMessage(content), checkContent(gjson.Parse(content))
}

// chatTexts returns text blocks. Some servers answer in parts.
func chatTexts(content gjson.Result) (blocks []string) {
	if content.Type == gjson.String && content.Str != "" {
		return []string{textPart(content.Raw)}
	}
	if !content.IsArray() {
		return nil
	}
	for _, part := range content.Array() {
		for _, member := range []string{"text", "refusal"} {
			if text := part.Get(member); text.Type == gjson.String && text.Str != "" {
				blocks = append(blocks, textPart(text.Raw))
			}
		}
	}
	return blocks
}

// toolUse translates a call. Its arguments are a string of JSON by the API, an
// object with some servers, and blank with others when there are none.
func toolUse(call gjson.Result, id string) (string, error) {
	name, arguments := call.Get("function.name"), call.Get("function.arguments")
	if name.Str == "" {
		return "", errors.New("a call without function.name")
	}
	input := arguments.Raw
	if !arguments.IsObject() {
		if input = arguments.Str; strings.TrimSpace(input) == "" {
			input = "{}"
		}
	}
	compact, err := valid([]byte(input))
	if err != nil {
		return "", fmt.Errorf("the arguments for %s are not JSON: %w", name.Str, err)
	}
	if compact[0] != '{' {
		return "", fmt.Errorf("the arguments for %s are %s, want a JSON object", name.Str, kindOf(gjson.ParseBytes(compact)))
	}
	return fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s}`, id, name.Raw, compact), nil
}

// callID returns a call's id as a JSON string. Some servers send none; one made
// from the answer, which has an id and a time of its own, is as distinct.
func callID(call gjson.Result, body []byte, i int) string {
	if id := call.Get("id"); id.Str != "" {
		return id.Raw
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s", i, body))
	return `"call_` + hex.EncodeToString(sum[:12]) + `"`
}

func chatErrorText(e gjson.Result) string {
	if message := e.Get("message"); message.Exists() {
		return firstRunes(message.String(), maxDetailText)
	}
	return firstRunes(e.String(), maxDetailText)
}
