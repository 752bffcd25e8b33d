package provider

import "context"

// BedrockClient invokes models of Amazon Bedrock. Its errors are [*Error]s with
// the HTTP status, or the end of ctx.
type BedrockClient interface {
	// Invoke returns the body of the model's answer.
	Invoke(ctx context.Context, model string, body []byte) ([]byte, error)
	// InvokeStream passes each event of a streamed answer to event and stops with
	// the error that returns.
	InvokeStream(ctx context.Context, model string, body []byte, event func(data []byte) error) error
}
