package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/lambae/lambae/internal/config"
)

const bedrockVersion = "bedrock-2023-05-31"

// BedrockClient invokes models of Amazon Bedrock. Its errors are [*Error]s with
// the status, body and RetryAfter of the HTTP answer, Detail being what the API
// said, and Temporary set where the status does not tell; or whatever event
// returned.
type BedrockClient interface {
	// Invoke returns the body of the model's answer.
	Invoke(ctx context.Context, model string, body []byte) ([]byte, error)
	// InvokeStream passes the data of each event of a streamed answer to event,
	// until the last one or the first error.
	InvokeStream(ctx context.Context, model string, body []byte, event func(data []byte) error) error
}

// bedrock speaks the Anthropic format through Amazon Bedrock.
type bedrock struct {
	info    Info
	retries int
	retrier retrier
	build   func(context.Context) (BedrockClient, error)

	mu     sync.Mutex
	client BedrockClient
}

func newBedrock(e config.Provider, info Info, o Options) Provider {
	b := &bedrock{info: info, retries: e.MaxRetries, retrier: o.retrier()}
	b.build = func(ctx context.Context) (BedrockClient, error) {
		if o.Bedrock == nil {
			return nil, errors.New("this program is built without Amazon Bedrock; use an entry of another kind")
		}
		return o.Bedrock(ctx, e.BaseURL)
	}
	return b
}

// bedrockHost is the address of a region's endpoint, "" for an unknown region.
func bedrockHost(region string) string {
	switch {
	case region == "":
		return ""
	case strings.HasPrefix(region, "cn-"):
		return "https://bedrock-runtime." + region + ".amazonaws.com.cn"
	}
	return "https://bedrock-runtime." + region + ".amazonaws.com"
}

func (b *bedrock) Info() Info     { return b.info }
func (b *bedrock) Format() Format { return Messages{} }

func (b *bedrock) Call(ctx context.Context, r Request) (*Response, error) {
	head := fmt.Sprintf(`"anthropic_version":"%s","max_tokens":%d`, bedrockVersion, b.info.MaxTokens)
	segments, err := messagesBody(head, r, "")
	if err != nil {
		return nil, &Error{Detail: err.Error()}
	}
	client, err := b.ready(ctx)
	if err != nil {
		return nil, b.failed(ctx, &Error{Detail: err.Error(), Config: true})
	}
	whole := segments.bytes() // the SDK signs a body in one piece
	return b.retrier.do(ctx, b.retries, func() (*Response, error) {
		if r.OnDelta != nil {
			return b.streamed(ctx, client, whole, r.OnDelta)
		}
		raw, err := client.Invoke(ctx, b.info.Model, whole)
		if err != nil {
			return nil, b.failed(ctx, err)
		}
		return usable(b.info.Name, http.StatusOK, raw, messagesAnswer)
	})
}

func (b *bedrock) streamed(ctx context.Context, client BedrockClient, whole []byte, onDelta func(Delta)) (*Response, error) {
	s := newMessageStream(onDelta)
	err := client.InvokeStream(ctx, b.info.Model, whole, s.event)
	var failed *Error
	if !errors.As(err, &failed) {
		return finish(ctx, b.info.Name, http.StatusOK, s, messagesAnswer, err)
	}
	err = b.failed(ctx, failed)
	failed.Temporary = failed.Temporary && !s.spoken()
	return nil, err
}

// failed completes an error of the client.
func (b *bedrock) failed(ctx context.Context, err error) error {
	var e *Error
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("call %s: %w", b.info.Name, context.Cause(ctx))
	case !errors.As(err, &e):
		e = &Error{Detail: err.Error()}
	}
	switch {
	case e.Status == http.StatusOK:
		e.Detail = fmt.Sprintf("error in the stream of %s: %s", b.info.Name, e.Detail)
	case e.Status != 0:
		e.Detail = httpDetail(b.info.Name, e.Status, e.Detail)
	default:
		e.Detail = fmt.Sprintf("call %s: %s", b.info.Name, e.Detail)
	}
	e.Temporary = e.Temporary || temporary(e.Status) || e.Status == 0 && !e.Config
	return e
}

// ready returns the client, built on first use. A failure is tried again by the
// next call, since credentials may come late.
func (b *bedrock) ready(ctx context.Context) (BedrockClient, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client == nil {
		client, err := b.build(ctx)
		if err != nil {
			return nil, err
		}
		b.client = client
	}
	return b.client, nil
}
