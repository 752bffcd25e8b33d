package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/tidwall/gjson"

	"github.com/lambae/lambae/internal/config"
)

const openAIHost = "https://api.openai.com"

// openAI speaks Chat Completions: POST {base}/v1/chat/completions.
//
// The limit on the answer has two names. OpenAI's newer models refuse
// max_tokens; most other servers of this format know nothing else, and some
// refuse or, worse, ignore max_completion_tokens. So OpenAI's own host gets the
// new name and any other the old one, until that host answers that it wants the
// new one, which is then remembered.
type openAI struct {
	ChatCompletions
	*endpoint
	newName atomic.Bool
}

func newOpenAI(e config.Provider, info Info, o Options) Provider {
	p := &openAI{endpoint: newEndpoint(e, info, o)}
	p.url = p.path("/v1/chat/completions")
	p.auth = func(h http.Header, token string) { h.Set("Authorization", "Bearer "+token) }
	p.stream, p.answer = newChatStream, chatAnswer
	p.newName.Store(strings.TrimRight(info.BaseURL, "/") == openAIHost)
	return p
}

func (p *openAI) Info() Info     { return p.info }
func (p *openAI) Format() Format { return ChatCompletions{} }

func (p *openAI) Call(ctx context.Context, r Request) (*Response, error) {
	tools, err := chatTools(r.Tools)
	if err != nil {
		return nil, &Error{Detail: err.Error()}
	}
	newName := p.newName.Load()
	resp, err := p.call(ctx, p.body(r, tools, newName), r.OnDelta)
	if !newName && wantsNewName(err) {
		p.newName.Store(true)
		return p.call(ctx, p.body(r, tools, true), r.OnDelta)
	}
	return resp, err
}

func wantsNewName(err error) bool {
	var failed *Error
	return errors.As(err, &failed) && failed.Status == http.StatusBadRequest &&
		failed.Body != nil && strings.Contains(*failed.Body, "max_completion_tokens")
}

func (p *openAI) body(r Request, tools []byte, newName bool) body {
	limit := "max_tokens"
	if newName {
		limit = "max_completion_tokens"
	}
	hasMessages := false
	for _, segment := range r.Messages {
		hasMessages = hasMessages || len(segment) > 0
	}
	tail := []byte("]")
	if tools != nil {
		tail = append(append(tail, `,"tools":`...), tools...)
	}
	if r.OnDelta != nil {
		tail = append(tail, `,"stream":true,"stream_options":{"include_usage":true}`...)
	}
	head := fmt.Appendf(nil, `{"model":%s,"%s":%d,"messages":[`, quote(p.info.Model), limit, p.info.MaxTokens)
	if r.System != "" {
		head = appendChat(head, "system", string(quote(r.System)))
		if hasMessages {
			head = append(head, ',')
		}
	}
	return newBody(head, r.Messages, append(tail, '}'))
}

// chatTools translates the canonical tools; nil when there are none, since the
// API refuses an empty list.
func chatTools(tools json.RawMessage) ([]byte, error) {
	distinct, err := distinctTools(tools)
	if distinct == nil || err != nil {
		return nil, err
	}
	out := []byte("[")
	for i, tool := range gjson.ParseBytes(distinct).Array() {
		if i > 0 {
			out = append(out, ',')
		}
		out = fmt.Appendf(out, `{"type":"function","function":{"name":%s`, quote(tool.Get("name").String()))
		if d := tool.Get("description"); d.Type == gjson.String {
			out = append(append(out, `,"description":`...), d.Raw...)
		}
		if schema := tool.Get("input_schema"); schema.IsObject() {
			out = append(append(out, `,"parameters":`...), schema.Raw...)
		}
		out = append(out, "}}"...)
	}
	return append(out, ']'), nil
}
