package provider

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/lambae/lambae/internal/config"
)

const (
	anthropicHost    = "https://api.anthropic.com"
	anthropicVersion = "2023-06-01"
)

// anthropic speaks the Messages API: POST {base}/v1/messages.
type anthropic struct {
	Messages
	info    Info
	retries int
	retrier retrier
	endpoint
}

func newAnthropic(e config.Provider, info Info, o Options) Provider {
	return &anthropic{
		info: info, retries: e.MaxRetries, retrier: o.retrier(),
		endpoint: newEndpoint(e, info, "/v1/messages", o, func(h http.Header, token string) { h.Set("X-Api-Key", token) }),
	}
}

func (a *anthropic) Info() Info     { return a.info }
func (a *anthropic) Format() Format { return Messages{} }

func (a *anthropic) Call(ctx context.Context, r Request) (*Response, error) {
	tail := ""
	if r.OnDelta != nil {
		tail = `,"stream":true`
	}
	b, err := messagesBody(messagesHead(a.info.Model, a.info.MaxTokens), r, tail)
	if err != nil {
		return nil, &Error{Detail: err.Error()}
	}
	return a.retrier.do(ctx, a.retries, func() (*Response, error) {
		return a.post(ctx, b, func(resp *http.Response) (*Response, error) {
			if r.OnDelta != nil && isEventStream(resp) {
				return a.readStream(ctx, resp, r.OnDelta)
			}
			return a.readWhole(ctx, resp, r.OnDelta)
		})
	})
}

func (a *anthropic) readWhole(ctx context.Context, resp *http.Response, onDelta func(Delta)) (*Response, error) {
	raw, err := a.readAll(ctx, resp)
	if err != nil {
		return nil, err
	}
	answer, err := messagesAnswer(resp.StatusCode, raw)
	if err != nil {
		return nil, a.bad(resp.StatusCode, raw, err)
	}
	if onDelta != nil {
		streamWhole(answer.Content, onDelta)
	}
	return answer, nil
}

func (a *anthropic) readStream(ctx context.Context, resp *http.Response, onDelta func(Delta)) (*Response, error) {
	s := &messageStream{onDelta: onDelta}
	err := readEvents(resp.Body, maxAnswer, s.event)
	if errors.Is(err, errStop) {
		drain(resp.Body)
		err = nil
	}
	return s.answer(ctx, a.info.Name, resp.StatusCode, err)
}

// answer is the outcome of a stream that ended with err. Bedrock's uses it too.
func (s *messageStream) answer(ctx context.Context, name string, status int, err error) (*Response, error) {
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("call %s: %w", name, context.Cause(ctx))
	}
	var inStream *errInStream
	if errors.As(err, &inStream) {
		text := string(inStream.raw)
		return nil, &Error{
			Status: status, Body: &text, Temporary: inStream.temporary() && !s.said,
			Detail: fmt.Sprintf("error in the stream of %s: %s", name, firstRunes(inStream.Error(), maxDetailText)),
		}
	}
	if err != nil {
		return nil, &Error{Status: status, Temporary: !s.said, Detail: fmt.Sprintf("the stream of %s broke off: %v", name, err)}
	}
	raw, err := s.body()
	if err != nil {
		return nil, &Error{Status: status, Detail: fmt.Sprintf("unusable stream from %s: %v", name, err)}
	}
	answer, err := messagesAnswer(status, raw)
	if err != nil {
		return nil, &Error{Status: status, Detail: fmt.Sprintf("unusable stream from %s: %v", name, err)}
	}
	return answer, nil
}

// drain reads what follows the last event, the end of the HTTP body, so that the
// connection can be used again; a server that keeps the stream open is cut off.
func drain(body io.ReadCloser) {
	cut := time.AfterFunc(250*time.Millisecond, func() { body.Close() })
	defer cut.Stop()
	io.Copy(io.Discard, body)
}

func isEventStream(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}
