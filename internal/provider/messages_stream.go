package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// messageStream puts the events of a streamed Anthropic answer together to the
// body that a call without streaming gives. Members it does not know keep their
// place and bytes; events and deltas it does not know are passed over, as the
// API's versioning asks.
type messageStream struct {
	onDelta func(Delta)
	said    bool // a delta was passed on

	message *object
	blocks  []*streamBlock
	stopped bool
}

// streamBlock is a content block as it grows.
type streamBlock struct {
	index     int64 // as the API counts; the position in the content is ours
	start     *object
	texts     []textMember
	input     []byte
	citations []string
}

// textMember collects a string member as the inside of its JSON string, which
// spares decoding and keeps every escape as it came.
type textMember struct {
	key string
	raw []byte
}

// errInStream is an error event: the API gave up after it had answered 200.
type errInStream struct {
	kind, message string
	raw           []byte
}

func (e *errInStream) Error() string { return fmt.Sprintf("%s: %s", e.kind, e.message) }

// temporary tells the kinds of error that come with a temporary status when they
// come before the stream.
func (e *errInStream) temporary() bool {
	switch e.kind {
	case "overloaded_error", "rate_limit_error", "api_error", "timeout_error":
		return true
	}
	return false
}

// event takes the data of one event. It returns errStop after the last one.
func (s *messageStream) event(data []byte) error {
	if !json.Valid(data) {
		return errors.New("an event is not JSON")
	}
	v := gjson.ParseBytes(data)
	switch kind := v.Get("type").Str; kind {
	case "error":
		return &errInStream{v.Get("error.type").String(), v.Get("error.message").String(), data}
	case "message_start":
		message, err := parseObject(v.Get("message").Raw)
		if err != nil {
			return fmt.Errorf("message_start: %w", err)
		}
		s.message = message
		return nil
	case "content_block_start", "content_block_delta", "message_delta", "message_stop":
		if s.message == nil {
			return fmt.Errorf("%s came before message_start", kind)
		}
		switch kind {
		case "content_block_start":
			return s.startBlock(v)
		case "content_block_delta":
			return s.growBlock(v)
		case "message_delta":
			return s.changeMessage(v)
		}
		s.stopped = true
		return errStop
	}
	return nil
}

func (s *messageStream) startBlock(event gjson.Result) error {
	start, err := parseObject(event.Get("content_block").Raw)
	if err != nil {
		return fmt.Errorf("content_block_start: %w", err)
	}
	block := &streamBlock{index: event.Get("index").Int(), start: start}
	s.blocks = append(s.blocks, block)
	s.say(len(s.blocks)-1, DeltaText, start.text("text"))
	s.say(len(s.blocks)-1, DeltaThinking, start.text("thinking"))
	return nil
}

func (s *messageStream) growBlock(event gjson.Result) error {
	at := len(s.blocks) - 1
	for at >= 0 && s.blocks[at].index != event.Get("index").Int() {
		at--
	}
	if at < 0 {
		return fmt.Errorf("a delta is for block %s, which did not start", event.Get("index").Raw)
	}
	block, delta := s.blocks[at], event.Get("delta")
	switch delta.Get("type").Str {
	case "text_delta":
		block.grow("text", delta.Get("text"))
		s.say(at, DeltaText, delta.Get("text").Str)
	case "thinking_delta":
		block.grow("thinking", delta.Get("thinking"))
		s.say(at, DeltaThinking, delta.Get("thinking").Str)
	case "signature_delta":
		block.grow("signature", delta.Get("signature"))
	case "input_json_delta":
		piece := delta.Get("partial_json").Str
		block.input = append(block.input, piece...)
		s.say(at, DeltaInputJSON, piece)
	case "citations_delta":
		block.citations = append(block.citations, delta.Get("citation").Raw)
	}
	return nil
}

// changeMessage takes the last word on the message: its stop reason and usage,
// the members of which are totals, and whatever stands beside them.
func (s *messageStream) changeMessage(event gjson.Result) error {
	event.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "type":
		case "delta":
			value.ForEach(func(key, value gjson.Result) bool { s.message.set(key.Str, value.Raw); return true })
		case "usage":
			usage := &object{}
			if raw, ok := s.message.get("usage"); ok {
				if known, err := parseObject(raw); err == nil {
					usage = known
				}
			}
			value.ForEach(func(key, value gjson.Result) bool { usage.set(key.Str, value.Raw); return true })
			s.message.set("usage", usage.String())
		default:
			s.message.set(key.Str, value.Raw)
		}
		return true
	})
	return nil
}

func (s *messageStream) say(index int, kind, text string) {
	if text == "" {
		return
	}
	s.said = true
	s.onDelta(Delta{Index: index, Type: kind, Text: text})
}

// body returns the whole message.
func (s *messageStream) body() ([]byte, error) {
	if !s.stopped {
		return nil, errors.New("the stream ended before message_stop")
	}
	var content strings.Builder
	content.WriteByte('[')
	for i, b := range s.blocks {
		if i > 0 {
			content.WriteByte(',')
		}
		if err := b.finish(); err != nil {
			return nil, fmt.Errorf("content[%d]: %w", i, err)
		}
		content.WriteString(b.start.String())
	}
	content.WriteByte(']')
	s.message.set("content", content.String())
	return []byte(s.message.String()), nil
}

// grow adds a piece to a string member. What the start of the block held of it
// stays in front.
func (b *streamBlock) grow(key string, piece gjson.Result) {
	if piece.Type != gjson.String {
		return
	}
	inside := piece.Raw[1 : len(piece.Raw)-1]
	for i := range b.texts {
		if b.texts[i].key == key {
			b.texts[i].raw = append(b.texts[i].raw, inside...)
			return
		}
	}
	var raw []byte
	if start, _ := b.start.get(key); strings.HasPrefix(start, `"`) {
		raw = append(raw, start[1:len(start)-1]...)
	}
	b.texts = append(b.texts, textMember{key, append(raw, inside...)})
}

func (b *streamBlock) finish() error {
	for _, t := range b.texts {
		b.start.set(t.key, `"`+string(t.raw)+`"`)
	}
	if len(strings.TrimSpace(string(b.input))) > 0 {
		input, err := valid(b.input)
		if err != nil {
			return errors.New("the tool input is not JSON; the answer may have reached max_tokens")
		}
		b.start.set("input", string(input))
	}
	if len(b.citations) > 0 {
		list := b.citations
		if raw, _ := b.start.get("citations"); strings.HasPrefix(raw, "[") {
			if known := strings.TrimSpace(raw[1 : len(raw)-1]); known != "" {
				list = append([]string{known}, list...)
			}
		}
		b.start.set("citations", "["+strings.Join(list, ",")+"]")
	}
	return nil
}

// streamWhole passes on the deltas of an answer that came whole although a
// stream was asked for, as some gateways do.
func streamWhole(content json.RawMessage, onDelta func(Delta)) {
	v := gjson.ParseBytes(content)
	if v.Type == gjson.String && v.Str != "" {
		onDelta(Delta{0, DeltaText, v.Str})
	}
	if !v.IsArray() {
		return
	}
	for i, block := range v.Array() {
		var d Delta
		switch block.Get("type").Str {
		case "text":
			d = Delta{i, DeltaText, block.Get("text").Str}
		case "thinking":
			d = Delta{i, DeltaThinking, block.Get("thinking").Str}
		case "tool_use":
			d = Delta{i, DeltaInputJSON, block.Get("input").Raw}
		}
		if d.Text != "" {
			onDelta(d)
		}
	}
}

// messagesHead opens the body of an Anthropic call.
func messagesHead(model string, maxTokens int) string {
	return `"model":` + string(quote(model)) + `,"max_tokens":` + strconv.Itoa(maxTokens) + `,`
}
