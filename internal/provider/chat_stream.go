package provider

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidwall/gjson"
)

// chatStream puts the chunks of a streamed OpenAI answer together to the body
// that a call without streaming gives, from members it knows and others alike.
type chatStream struct {
	speaker
	spoke bool // text came, which is block 0 then

	top     *object // the completion, without choices and usage
	choice  *object
	message *object
	texts   texts
	calls   []*chatCall
	usage   string
	done    bool
}

// chatCall is a tool call as it grows.
type chatCall struct {
	index     string // as the API counts, raw; "" where a server does not
	call      *object
	function  *object
	arguments texts
}

func newChatStream(onDelta func(Delta)) assembly {
	return &chatStream{speaker: speaker{onDelta: onDelta}, choice: &object{}, message: &object{}}
}

// event takes the data of one event. It returns errStop after the last one.
func (s *chatStream) event(data []byte) error {
	if strings.TrimSpace(string(data)) == "[DONE]" {
		s.done = true
		return errStop
	}
	if !json.Valid(data) {
		return errors.New("an event is not JSON")
	}
	chunk := gjson.ParseBytes(data)
	if e := chunk.Get("error"); e.Exists() && e.Type != gjson.Null {
		return chatStreamError(e, data)
	}
	if s.top == nil {
		s.top = &object{}
	}
	var err error
	chunk.ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "choices":
			err = s.choose(value.Get("0"))
		case "usage":
			if value.IsObject() {
				s.usage = value.Raw
			}
		case "object":
			s.top.set("object", `"chat.completion"`)
		case "obfuscation": // padding of the stream itself
		default:
			if _, known := s.top.get(key.Str); !known {
				s.top.set(key.Str, value.Raw)
			}
		}
		return err == nil
	})
	return err
}

// chatStreamError is temporary by its kind, or by the status that some servers
// put in its code.
func chatStreamError(e gjson.Result, data []byte) error {
	kind, code := e.Get("type").String(), e.Get("code")
	if kind == "" {
		kind = "error"
	}
	return &errInStream{
		kind: kind, message: chatErrorText(e), raw: data,
		temporary: kind == "server_error" || code.Str == "rate_limit_exceeded" || temporary(int(code.Int())),
	}
}

func (s *chatStream) choose(choice gjson.Result) error {
	var err error
	choice.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "delta":
			err = s.grow(value)
		case key.Str == "finish_reason" && value.Type == gjson.Null:
		default:
			s.choice.set(key.Str, value.Raw)
		}
		return err == nil
	})
	return err
}

func (s *chatStream) grow(delta gjson.Result) error {
	var err error
	delta.ForEach(func(key, value gjson.Result) bool {
		_, known := s.message.get(key.Str)
		switch {
		case key.Str == "tool_calls":
			for _, piece := range value.Array() {
				if err = s.growCall(piece); err != nil {
					return false
				}
			}
		case key.Str == "role":
			s.message.set("role", value.Raw)
		case value.Type == gjson.String:
			if !known {
				s.message.set(key.Str, `""`) // keeps its place
			}
			s.texts.add(s.message, key.Str, value)
			if key.Str == "content" || key.Str == "refusal" {
				s.spoke = s.spoke || value.Str != ""
				s.say(0, DeltaText, value.Str)
			}
		case value.Type != gjson.Null || !known:
			s.message.set(key.Str, value.Raw)
		}
		return true
	})
	return err
}

// growCall adds a fragment to its call: by index, or where a server leaves that
// out, to the last call unless an id begins a new one.
func (s *chatStream) growCall(piece gjson.Result) error {
	at, index := len(s.calls)-1, piece.Get("index").Raw
	if index != "" {
		for at >= 0 && s.calls[at].index != index {
			at--
		}
	} else if piece.Get("id").Str != "" {
		at = -1
	}
	if at < 0 {
		if piece.Get("function.name").Str == "" {
			return errors.New("a tool call began without function.name")
		}
		s.calls = append(s.calls, &chatCall{index: index, call: &object{}, function: &object{}})
		at = len(s.calls) - 1
	}
	c := s.calls[at]
	piece.ForEach(func(key, value gjson.Result) bool {
		switch {
		case key.Str == "index":
		case key.Str == "function":
			c.growFunction(value)
			c.call.set("function", "")
		case value.Type != gjson.Null && c.call.text(key.Str) == "":
			c.call.set(key.Str, value.Raw)
		}
		return true
	})
	if s.spoke {
		at++
	}
	s.say(at, DeltaInputJSON, piece.Get("function.arguments").Str)
	return nil
}

// growFunction sets the name once, since some servers repeat it, and adds to the
// arguments.
func (c *chatCall) growFunction(piece gjson.Result) {
	piece.ForEach(func(key, value gjson.Result) bool {
		_, known := c.function.get(key.Str)
		switch {
		case key.Str == "arguments" && value.Type == gjson.String:
			if !known {
				c.function.set("arguments", `""`)
			}
			c.arguments.add(c.function, "arguments", value)
		case value.Type != gjson.Null && c.function.text(key.Str) == "":
			c.function.set(key.Str, value.Raw)
		}
		return true
	})
}

// body returns the whole completion.
func (s *chatStream) body() ([]byte, error) {
	if s.top == nil {
		return nil, errors.New("the stream held no chunk")
	}
	if _, finished := s.choice.get("finish_reason"); !finished && !s.done {
		return nil, errors.New("the stream ended before finish_reason")
	}
	s.texts.into(s.message)
	if len(s.calls) > 0 {
		var calls []string
		for _, c := range s.calls {
			c.arguments.into(c.function)
			c.call.set("function", c.function.String())
			calls = append(calls, c.call.String())
		}
		s.message.set("tool_calls", "["+strings.Join(calls, ",")+"]")
		if _, ok := s.message.get("content"); !ok {
			s.message.set("content", "null")
		}
	}
	s.choice.set("message", s.message.String())
	s.top.set("choices", "["+s.choice.String()+"]")
	if s.usage != "" {
		s.top.set("usage", s.usage)
	}
	return []byte(s.top.String()), nil
}
