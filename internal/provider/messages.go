package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tidwall/gjson"
)

// Messages is the Anthropic Messages format, which the canonical shape already
// is: only what the server added to tool_use blocks comes off. It serves
// anthropic, bedrock and echo.
type Messages struct{}

// AppendMessage implements [Format].
func (Messages) AppendMessage(dst, message []byte) ([]byte, error) {
	message = bytes.TrimSpace(message)
	if !json.Valid(message) || message[0] != '{' {
		return dst, errors.New("message is not a JSON object")
	}
	if saysNothing(message) {
		return dst, nil
	}
	if !mayHoldServerMembers(message) {
		return append(dst, message...), nil
	}
	at := 0
	for _, cut := range serverMembers(string(message)) {
		dst = append(dst, message[at:cut.from]...)
		at = cut.to
	}
	return append(dst, message[at:]...), nil
}

// saysNothing holds for an assistant message without content. Models give such
// answers, most often after tool results, but the API takes none back: one of
// them in the history would fail every later turn. Two user messages in a row,
// which leaving it out makes, the API takes as one.
func saysNothing(message []byte) bool {
	const role = `{"role":"assistant","content":`
	return string(message) == role+`[]}` || string(message) == role+`""}`
}

// mayHoldServerMembers spares most messages the walk. A member's name could also
// be written with escapes.
func mayHoldServerMembers(message []byte) bool {
	return bytes.Contains(message, []byte("dispatch")) || bytes.Contains(message, []byte("caller")) || bytes.Contains(message, []byte(`\u`))
}

type span struct{ from, to int }

// serverMembers finds dispatch and caller of the message's tool_use blocks, each
// with the comma that goes with it, in order.
func serverMembers(message string) (cuts []span) {
	gjson.Parse(message).ForEach(func(key, content gjson.Result) bool {
		if key.Str != "content" || !content.IsArray() {
			return true
		}
		content.ForEach(func(_, block gjson.Result) bool {
			if block.IsObject() && isToolUse(block) {
				cuts = appendCuts(cuts, block)
			}
			return true
		})
		return true
	})
	return cuts
}

// isToolUse looks at every "type", should a block repeat it: parsers differ in
// which one they take.
func isToolUse(block gjson.Result) (found bool) {
	block.ForEach(func(key, value gjson.Result) bool {
		found = key.Str == "type" && value.Str == "tool_use"
		return !found
	})
	return found
}

// appendCuts takes a member out with the comma before it, or, while nothing
// before it stays, with the one after it.
func appendCuts(cuts []span, block gjson.Result) []span {
	kept, open, end := false, false, 0
	block.ForEach(func(key, value gjson.Result) bool {
		if open {
			cuts[len(cuts)-1].to, open = key.Index, false
		}
		last := end
		end = value.Index + len(value.Raw)
		switch {
		case key.Str != "dispatch" && key.Str != "caller":
			kept = true
		case kept:
			cuts = append(cuts, span{last, end})
		default:
			cuts, open = append(cuts, span{key.Index, end}), true
		}
		return true
	})
	return cuts
}

// messagesBody is the request body of the Anthropic format in pieces. Head holds
// the members that come before system, tail those after tools, with its comma.
func messagesBody(head string, r Request, tail string) (body, error) {
	tools, err := distinctTools(r.Tools)
	if err != nil {
		return body{}, err
	}
	first := append([]byte("{"), head...)
	if r.System != "" {
		first = appendQuoted(append(first, `,"system":`...), r.System)
	}
	first = append(first, `,"messages":[`...)
	last := []byte("]")
	if tools != nil {
		last = append(append(last, `,"tools":`...), tools...)
	}
	last = append(append(last, tail...), '}')
	return newBody(first, r.Messages, last), nil
}

// distinctTools returns the canonical tools without those whose name came
// before, or nil when there are none.
func distinctTools(tools json.RawMessage) (json.RawMessage, error) {
	v := gjson.ParseBytes(tools)
	if !v.Exists() || v.Type == gjson.Null {
		return nil, nil
	}
	if !json.Valid(tools) || !v.IsArray() {
		return nil, fmt.Errorf("tools: want a JSON array, got %s", kindOf(v))
	}
	names := map[string]bool{}
	kept := []byte("[")
	count := 0
	v.ForEach(func(_, tool gjson.Result) bool {
		count++
		if name := tool.Get("name").Str; !names[name] {
			names[name] = true
			if len(kept) > 1 {
				kept = append(kept, ',')
			}
			kept = append(kept, tool.Raw...)
		}
		return true
	})
	switch {
	case count == 0:
		return nil, nil
	case count == len(names):
		return tools, nil
	}
	return append(kept, ']'), nil
}

// messagesAnswer reads an answer of the Anthropic format. The error says what is
// wrong with it.
func messagesAnswer(status int, raw []byte) (*Response, error) {
	raw, err := valid(raw)
	if err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	v := gjson.ParseBytes(raw)
	if !v.IsObject() {
		return nil, fmt.Errorf("the answer is %s, want a message object", kindOf(v))
	}
	if v.Get("type").Str == "error" {
		return nil, fmt.Errorf("the answer is an error: %s", v.Get("error.message").String())
	}
	if role := v.Get("role"); role.Exists() && role.Str != "assistant" {
		return nil, fmt.Errorf(`the answer has role %s, want "assistant"`, role.Raw)
	}
	content := v.Get("content")
	if err := checkContent(content); err != nil {
		return nil, err
	}
	usage := v.Get("usage")
	return &Response{
		Status:  status,
		Body:    raw,
		Content: json.RawMessage(content.Raw),
		InputTokens: usage.Get("input_tokens").Int() +
			usage.Get("cache_creation_input_tokens").Int() + usage.Get("cache_read_input_tokens").Int(),
		OutputTokens: usage.Get("output_tokens").Int(),
	}, nil
}

// checkContent refuses content that no history could hold afterwards: what is
// not a list of blocks, and tool calls that no result could name.
func checkContent(content gjson.Result) (err error) {
	if content.Type == gjson.String {
		return nil
	}
	if !content.IsArray() {
		return fmt.Errorf("the answer's content is %s, want an array of blocks or a string", kindOf(content))
	}
	ids := map[string]bool{}
	content.ForEach(func(i, block gjson.Result) bool {
		id := block.Get("id").Str
		switch {
		case !block.IsObject():
			err = fmt.Errorf("content[%d] of the answer is %s, want a block", i.Int(), kindOf(block))
		case block.Get("type").Type != gjson.String:
			err = fmt.Errorf("content[%d] of the answer has no type", i.Int())
		case block.Get("type").Str != "tool_use":
		case id == "" || block.Get("name").Str == "":
			err = fmt.Errorf("content[%d] of the answer is a tool_use without id or name", i.Int())
		case ids[id]:
			err = fmt.Errorf("content[%d] of the answer repeats the tool_use id %q", i.Int(), id)
		default:
			ids[id] = true
		}
		return err == nil
	})
	return err
}
