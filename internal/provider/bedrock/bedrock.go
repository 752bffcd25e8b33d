// Package bedrock is the client of Amazon Bedrock's runtime that bedrock entries
// of a provider.Registry call. It stands apart from package provider so that
// only binaries that name it link the AWS SDK.
package bedrock

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/aws/smithy-go"

	"github.com/lambae/lambae/internal/provider"
)

const mediaType = "application/json"

// New returns the constructor that provider.Options.Bedrock takes. Load gives
// the AWS configuration, credentials and region included. It runs when a client
// is built, on the first call. The SDK's default chain is not linked here, since
// on Lambda it finds nothing that the environment does not say.
func New(load func(context.Context) (aws.Config, error)) func(ctx context.Context, baseURL string) (provider.BedrockClient, error) {
	return func(ctx context.Context, baseURL string) (provider.BedrockClient, error) {
		cfg, err := load(ctx)
		if err != nil {
			return nil, fmt.Errorf("load AWS configuration: %w", err)
		}
		if cfg.Region == "" && baseURL == "" {
			return nil, errors.New("no AWS region is set; set AWS_REGION")
		}
		return newClient(cfg, baseURL), nil
	}
}

type client struct{ api *bedrockruntime.Client }

// newClient leaves retries to the provider, whose entry says how many there are.
func newClient(cfg aws.Config, baseURL string) client {
	return client{bedrockruntime.NewFromConfig(cfg, func(o *bedrockruntime.Options) {
		o.Retryer = aws.NopRetryer{}
		o.HTTPClient = keepErrors{o.HTTPClient}
		if baseURL != "" {
			o.BaseEndpoint = &baseURL
		}
	})}
}

// Invoke implements provider.BedrockClient.
func (c client) Invoke(ctx context.Context, model string, body []byte) ([]byte, error) {
	ctx, kept := withKept(ctx)
	out, err := c.api.InvokeModel(ctx, &bedrockruntime.InvokeModelInput{
		ModelId: &model, Body: body, ContentType: aws.String(mediaType), Accept: aws.String(mediaType),
	})
	if err != nil {
		return nil, kept.explain(err)
	}
	return out.Body, nil
}

// InvokeStream implements provider.BedrockClient.
func (c client) InvokeStream(ctx context.Context, model string, body []byte, event func(data []byte) error) error {
	ctx, kept := withKept(ctx)
	out, err := c.api.InvokeModelWithResponseStream(ctx, &bedrockruntime.InvokeModelWithResponseStreamInput{
		ModelId: &model, Body: body, ContentType: aws.String(mediaType), Accept: aws.String(mediaType),
	})
	if err != nil {
		return kept.explain(err)
	}
	stream := out.GetStream()
	defer stream.Close()
	for e := range stream.Events() {
		if chunk, ok := e.(*types.ResponseStreamMemberChunk); ok {
			if err := event(chunk.Value.Bytes); err != nil {
				return err
			}
		}
	}
	if err := stream.Err(); err != nil {
		return inStream(err)
	}
	return nil
}

// inStream is the error of a stream that began well: an exception the API put
// in it, or a broken connection.
func inStream(err error) *provider.Error {
	e := &provider.Error{Status: 200, Detail: err.Error(), Temporary: true}
	var api smithy.APIError
	if errors.As(err, &api) {
		e.Detail = api.ErrorCode() + ": " + api.ErrorMessage()
		e.Temporary = api.ErrorCode() != "ValidationException"
	}
	return e
}

// explain is the error of a call that was refused or got no answer.
func (k *kept) explain(err error) *provider.Error {
	e := &provider.Error{Status: k.status, Detail: err.Error(), RetryAfter: k.retryAfter}
	if k.status != 0 {
		e.Body = &k.body
	}
	var api smithy.APIError
	var transport *url.Error
	switch {
	case errors.As(err, &api):
		e.Detail = api.ErrorCode() + ": " + api.ErrorMessage()
	case errors.As(err, &transport):
		e.Detail = transport.Err.Error()
	}
	return e
}
