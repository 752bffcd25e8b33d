package session

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// AbandonedResult is the content of the result that stands in for one a client
// or a broken turn never gave.
const AbandonedResult = "Client tool call was abandoned before returning a result."

// Call is one tool_use block of an assistant message.
type Call struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Dispatch string `json:"dispatch,omitempty"`
}

// Exchange is an assistant message that called tools and has no answer in the
// history yet. It is never changed in place, so that copies can be kept.
type Exchange struct {
	Calls   []Call                     `json:"calls"`
	Results map[string]json.RawMessage `json:"results,omitempty"` // tool_result blocks by tool_use id
}

// Complete reports whether every call has a result.
func (x *Exchange) Complete() bool {
	for _, c := range x.Calls {
		if _, ok := x.Results[c.ID]; !ok {
			return false
		}
	}
	return true
}

func (x *Exchange) with(id string, block json.RawMessage) *Exchange {
	for _, c := range x.Calls {
		if c.ID != id {
			continue
		}
		if _, done := x.Results[id]; done {
			return x
		}
		next := &Exchange{Calls: x.Calls, Results: make(map[string]json.RawMessage, len(x.Results)+1)}
		for k, v := range x.Results {
			next.Results[k] = v
		}
		next.Results[id] = block
		return next
	}
	return x
}

// blocks returns one tool_result per call, in the calls' order; calls without a
// result get [AbandonedResult].
func (x *Exchange) blocks() []json.RawMessage {
	out := make([]json.RawMessage, 0, len(x.Calls))
	for _, c := range x.Calls {
		b, ok := x.Results[c.ID]
		if !ok {
			b = ResultBlock(c.ID, Quote(AbandonedResult), true)
		}
		out = append(out, b)
	}
	return out
}

// ResultBlock is a tool_result block as the server writes it.
func ResultBlock(id string, content json.RawMessage, isError bool) json.RawMessage {
	return fmt.Appendf(nil, `{"type":"tool_result","tool_use_id":%s,"content":%s,"is_error":%t}`, Quote(id), content, isError)
}

// exchangeOf reads the calls of an assistant message's content.
func exchangeOf(content json.RawMessage) *Exchange {
	x := &Exchange{}
	for _, b := range Blocks(content) {
		if m := Members(b); Text(m["type"]) == "tool_use" {
			x.Calls = append(x.Calls, Call{ID: Text(m["id"]), Name: Text(m["name"]), Dispatch: Text(m["dispatch"])})
		}
	}
	return x
}

// thread is the part of the fold that turns entries into the message history.
// It is small and copied freely: an append runs a copy ahead of the commit to
// learn how far the history will reach.
type thread struct {
	Open *Exchange `json:"open,omitempty"`
	Ops  int64     `json:"ops"`
}

// apply folds one entry and returns the messages it says. An entry that has a
// Reach of its own gets it from here when it is about to be written.
func (t *thread) apply(e *Entry) []said {
	var out []said
	say := func(role string, m json.RawMessage) {
		t.Ops++
		out = append(out, said{role: role, message: m})
	}
	switch e.Type {
	case MarkResume:
		t.Open = nil // the client.message.send that follows is the merged answer
	case ClientMessageSend:
		role := messageRole(e.Payload)
		if t.Open == nil {
			say(role, e.Payload)
			break
		}
		results := t.Open.blocks()
		t.Open = nil
		if role == "user" {
			say("user", message("user", joinBlocks(append(results, Blocks(messageContent(e.Payload))...))))
			break
		}
		say("user", message("user", joinBlocks(results)))
		say(role, e.Payload)
	case MarkStep:
		say("assistant", e.Payload)
		t.Open = exchangeOf(messageContent(e.Payload))
	case ServerMessageSend:
		if len(e.Payload) > 0 {
			say("assistant", e.Payload)
		}
	case ToolResult:
		if t.Open == nil {
			break
		}
		var r struct {
			ID      string          `json:"tool_use_id"`
			Content json.RawMessage `json:"content"`
			IsError bool            `json:"is_error"`
		}
		if json.Unmarshal(e.Payload, &r) == nil {
			t.Open = t.Open.with(r.ID, ResultBlock(r.ID, r.Content, r.IsError))
		}
	case ProviderRequest:
		if t.Open != nil && t.Open.Complete() {
			say("user", message("user", joinBlocks(t.Open.blocks())))
			t.Open = nil
		}
	}
	return out
}

// seal fills in the Reach of entries that are about to be written.
func (t thread) seal(entries []Entry) {
	for i := range entries {
		e := &entries[i]
		t.apply(e)
		if e.Type == ProviderRequest || e.Type == ServerMessageSend && len(e.Payload) == 0 {
			e.Reach = t.Ops
		}
	}
}

// messageRole reads the role of a message event. Its payload was written by
// [message], role first.
func messageRole(m json.RawMessage) string {
	if bytes.HasPrefix(m, []byte(`{"role":"assistant"`)) {
		return "assistant"
	}
	return "user"
}
