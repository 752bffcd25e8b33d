// Package echo decides what the built-in model echo answers. It has no network,
// no state and no chance in it: the same conversation always gets the same
// answer, so that the product can be tried and tested without an account.
//
// It answers "You said: <text>". Lines of the newest user text that start with a
// command act instead of being said:
//
//	/tool NAME JSON        call a declared tool; several lines call several at once
//	/then                  what follows is for the next round trip of the same turn
//	/loop NAME JSON        call a declared tool in every round trip, without end
//	/think TEXT            think before answering
//	/long N                answer N words
//	/slow DURATION TEXT    say the answer word by word, with this pause (100ms) between words
//	/sleep DURATION        wait before answering
//	/fail STATUS ENTRY     fail with an HTTP status (500), 0 for no answer at all; with
//	                       ENTRY only where the registry entry has that name, so that a
//	                       fallback under another name succeeds
//	/tools                 list the declared tools
//	/system                repeat the system prompt
//	/help                  list the commands
//
// Results of tools are reported: "Tool <name> said: <text>", "Tool <name>
// failed: <text>". A command it cannot carry out is explained in the answer.
//
// The package holds the decisions only; package provider plays them.
package echo

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"
)

// Prompt is what a model is given.
type Prompt struct {
	Entry    string          // name of the registry entry that is asked
	System   string          // "" = none
	Messages []byte          // the "messages" array of the Anthropic format
	Tools    json.RawMessage // array of {name, …}
}

// Answer is what echo does: wait, then fail or say the blocks.
type Answer struct {
	Sleep  time.Duration
	Pause  time.Duration // between words
	Failed bool
	Status int // of a failure; 0 is no answer at all
	Blocks []Block
}

// Types of blocks.
const (
	Text     = "text"
	Thinking = "thinking"
	ToolUse  = "tool_use"
)

// Block is one content block of an answer.
type Block struct {
	Type  string
	Text  string          // of text and thinking
	ID    string          // of a tool_use; no two of a session are the same
	Name  string          // of a tool_use
	Input json.RawMessage // of a tool_use, a JSON object
}

// Calls reports whether the answer calls a tool.
func (a Answer) Calls() bool {
	for _, b := range a.Blocks {
		if b.Type == ToolUse {
			return true
		}
	}
	return false
}

// Play answers a prompt.
func Play(p Prompt) Answer {
	messages := gjson.ParseBytes(p.Messages).Array()
	c := newConversation(messages)
	s := &scene{prompt: p, turn: len(messages)}

	stages := split(c.text)
	switch {
	case c.round < len(stages):
		s.play(stages[c.round])
	case loops(stages[len(stages)-1]):
		s.play(stages[len(stages)-1])
	}
	a := s.answer
	if report := c.report(); report != "" && !a.Calls() {
		a.Blocks = append([]Block{{Type: Text, Text: report}}, a.Blocks...)
	}
	if len(a.Blocks) == 0 {
		a.Blocks = []Block{{Type: Text, Text: "Done."}}
	}
	return a
}

// conversation is what of the messages an answer depends on.
type conversation struct {
	text    string            // the newest user text
	round   int               // answers given since
	results []gjson.Result    // the newest message's tool_result blocks
	calls   map[string]string // names of the calls before it, by id
}

func newConversation(messages []gjson.Result) conversation {
	c := conversation{calls: map[string]string{}}
	if n := len(messages); n > 1 {
		for _, b := range messages[n-2].Get("content").Array() {
			c.calls[b.Get("id").Str] = b.Get("name").Str
		}
	}
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.Get("role").Str == "assistant" {
			c.round++
			continue
		}
		text, results, found := read(m.Get("content"))
		if i == len(messages)-1 {
			c.results = results
		}
		if found {
			c.text = text
			break
		}
	}
	return c
}

// read returns what a user message says; found is false for one that only
// answers tools. Blocks that are no text are named, so that an image shows.
func read(content gjson.Result) (text string, results []gjson.Result, found bool) {
	if !content.IsArray() {
		return content.String(), nil, true
	}
	var said []string
	for _, b := range content.Array() {
		switch kind := b.Get("type").Str; kind {
		case "text":
			said = append(said, b.Get("text").Str)
		case "tool_result":
			results = append(results, b)
		default:
			said = append(said, "["+kind+"]")
		}
	}
	return strings.Join(said, "\n"), results, len(said) > 0 || len(results) == 0
}

// report tells what the tools answered.
func (c conversation) report() string {
	var lines []string
	for _, r := range c.results {
		verb := "said"
		if r.Get("is_error").Bool() {
			verb = "failed"
		}
		name := c.calls[r.Get("tool_use_id").Str]
		lines = append(lines, fmt.Sprintf("Tool %s %s: %s", name, verb, resultText(r.Get("content"))))
	}
	return strings.Join(lines, "\n")
}

func resultText(content gjson.Result) string {
	if !content.IsArray() {
		return content.String()
	}
	var parts []string
	for _, b := range content.Array() {
		switch kind := b.Get("type").Str; kind {
		case "text":
			parts = append(parts, b.Get("text").Str)
		case "":
			parts = append(parts, b.Raw)
		default:
			parts = append(parts, "["+kind+"]")
		}
	}
	return strings.Join(parts, "\n")
}
