package provider

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
)

// messageStream puts the events of a streamed Anthropic answer together to the
// body that a call without streaming gives. Members it does not know keep their
// place and bytes; events and deltas it does not know are passed over, as the
// API's versioning asks.
type messageStream struct {
	speaker
	message *object
	blocks  []*streamBlock
	stopped bool
}

// streamBlock is a content block as it grows.
type streamBlock struct {
	index     int64 // as the API counts; the position in the content is ours
	start     *object
	texts     texts
	input     []byte
	citations []string
}

func newMessageStream(onDelta func(Delta)) assembly {
	return &messageStream{speaker: speaker{onDelta: onDelta}}
}

// event takes the data of one event. It returns errStop after the last one.
func (s *messageStream) event(data []byte) error {
	if !json.Valid(data) {
		return errors.New("an event is not JSON")
	}
	v := gjson.ParseBytes(data)
	switch kind := v.Get("type").Str; kind {
	case "error":
		return messageStreamError(v, data)
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
			s.changeMessage(v)
			return nil
		}
		s.stopped = true
		return errStop
	}
	return nil
}

// messageStreamError is temporary for the kinds that come with a temporary status
// when they come before a stream.
func messageStreamError(event gjson.Result, data []byte) error {
	e := &errInStream{kind: event.Get("error.type").String(), message: event.Get("error.message").String(), raw: data}
	switch e.kind {
	case "overloaded_error", "rate_limit_error", "api_error", "timeout_error":
		e.temporary = true
	}
	return e
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
		block.texts.add(block.start, "text", delta.Get("text"))
		s.say(at, DeltaText, delta.Get("text").Str)
	case "thinking_delta":
		block.texts.add(block.start, "thinking", delta.Get("thinking"))
		s.say(at, DeltaThinking, delta.Get("thinking").Str)
	case "signature_delta":
		block.texts.add(block.start, "signature", delta.Get("signature"))
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
func (s *messageStream) changeMessage(event gjson.Result) {
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

func (b *streamBlock) finish() error {
	b.texts.into(b.start)
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
