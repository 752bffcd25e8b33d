package provider

import (
	"context"
	"fmt"
	"net/http"

	"github.com/lambae/lambae/internal/config"
)

const (
	anthropicHost    = "https://api.anthropic.com"
	anthropicVersion = "2023-06-01"
)

// anthropic speaks the Messages API: POST {base}/v1/messages.
type anthropic struct{ *endpoint }

func newAnthropic(e config.Provider, info Info, o Options) Provider {
	a := &anthropic{newEndpoint(e, info, o)}
	a.url = a.path("/v1/messages")
	a.header.Set("Anthropic-Version", anthropicVersion)
	a.auth = func(h http.Header, token string) { h.Set("X-Api-Key", token) }
	a.stream, a.answer = newMessageStream, messagesAnswer
	return a
}

func (a *anthropic) Format() Format { return Messages{} }

func (a *anthropic) Call(ctx context.Context, r Request) (*Response, error) {
	head := fmt.Sprintf(`"model":%s,"max_tokens":%d`, quote(a.info.Model), a.info.MaxTokens)
	tail := ""
	if r.OnDelta != nil {
		tail = `,"stream":true`
	}
	b, err := messagesBody(head, r, tail)
	if err != nil {
		return nil, &Error{Detail: err.Error()}
	}
	return a.call(ctx, b, r.OnDelta)
}
