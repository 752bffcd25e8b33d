package turn

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/lambae/lambae/internal/session"
)

// block is what the server looks at in a content block. Everything else passes
// through untouched.
type block struct {
	Type      string
	ID        string
	Name      string
	Input     json.RawMessage
	ToolUseID string
	Content   json.RawMessage
	IsError   json.RawMessage
}

func parseBlock(raw json.RawMessage) block {
	m := session.Members(raw)
	return block{
		Type: session.Text(m["type"]), ID: session.Text(m["id"]), Name: session.Text(m["name"]), Input: m["input"],
		ToolUseID: session.Text(m["tool_use_id"]), Content: m["content"], IsError: m["is_error"],
	}
}

// hasResults reports whether content holds a tool_result block.
func hasResults(content json.RawMessage) bool {
	if len(content) == 0 || content[0] != '[' || !bytes.Contains(content, []byte(`tool_result`)) {
		return false
	}
	for _, raw := range session.Blocks(content) {
		if parseBlock(raw).Type == "tool_result" {
			return true
		}
	}
	return false
}

// merge answers a paused exchange with what its owner sent (protocol, "Resuming
// a paused turn"): the merged user content and the client's own results in the
// order of the calls. What abandons the calls as the assistant is no part of the
// user's turn: the caller says it after. A non-empty detail says why it cannot be
// merged.
func merge(x *session.Exchange, role string, content json.RawMessage) (merged json.RawMessage, results []block, detail string) {
	blocks := session.Blocks(content)
	if len(content) > 0 && content[0] == '[' && len(blocks) == 0 {
		return nil, nil, "content is empty; send the tool results"
	}
	switch {
	case !hasResults(content) && role == "user":
		return x.Abandon(content), nil, ""
	case !hasResults(content):
		return x.Abandon(nil), nil, ""
	case role != "user":
		return nil, nil, fmt.Sprintf("role must be \"user\", not %q", role)
	}
	known := map[string]bool{}
	for _, c := range x.Calls {
		known[c.ID] = true
	}
	given := map[string]json.RawMessage{}
	var rest []json.RawMessage
	for _, raw := range blocks {
		b := parseBlock(raw)
		if b.Type != "tool_result" {
			rest = append(rest, raw)
			continue
		}
		switch {
		case !known[b.ToolUseID]:
			return nil, nil, fmt.Sprintf("unexpected tool_use_id %q", b.ToolUseID)
		case given[b.ToolUseID] != nil:
			return nil, nil, fmt.Sprintf("duplicate tool_use_id %q", b.ToolUseID)
		}
		given[b.ToolUseID] = raw
	}
	var missing []string
	out := make([]json.RawMessage, 0, len(x.Calls)+len(rest))
	for _, c := range x.Calls {
		if server, ok := x.Results[c.ID]; ok {
			out = append(out, server) // the server's own result wins
			continue
		}
		raw, ok := given[c.ID]
		if !ok {
			missing = append(missing, fmt.Sprintf("%q", c.ID))
			continue
		}
		out = append(out, raw)
		results = append(results, parseBlock(raw))
	}
	if len(missing) > 0 {
		return nil, nil, "missing tool_use_id " + strings.Join(missing, ", ")
	}
	return array(append(out, rest...)), results, ""
}

func array(items []json.RawMessage) json.RawMessage {
	return append(append([]byte{'['}, bytes.Join(raws(items), []byte{','})...), ']')
}

func raws(items []json.RawMessage) [][]byte {
	out := make([][]byte, len(items))
	for i, b := range items {
		out[i] = b
	}
	return out
}

// text is a content array of one text block.
func text(s string) json.RawMessage { return array([]json.RawMessage{session.TextBlock(s)}) }

// tag adds the dispatch to a tool_use block, before its closing brace, so that
// the rest of the block stays byte for byte. A dispatch or caller that the model
// itself wrote is replaced.
func tag(raw json.RawMessage, dispatch string) json.RawMessage {
	raw = dropMember(raw, "dispatch")
	end := bytes.LastIndexByte(raw, '}')
	out := make([]byte, 0, len(raw)+24)
	out = append(out, bytes.TrimRight(raw[:end], " \t\r\n")...)
	return append(out, `,"dispatch":"`+dispatch+`"}`...)
}

// dropMember takes a member off a JSON object when it is there.
func dropMember(raw json.RawMessage, name string) json.RawMessage {
	if !bytes.Contains(raw, []byte(`"`+name+`"`)) {
		return raw
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return raw
	}
	out := []byte{'{'}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return raw
		}
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			return raw
		}
		if key == name {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, session.Quote(key.(string))...)
		out = append(out, ':')
		out = append(out, value...)
	}
	return append(out, '}')
}
