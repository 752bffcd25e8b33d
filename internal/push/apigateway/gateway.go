package apigateway

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/apigatewaymanagementapi"
	"github.com/aws/aws-sdk-go-v2/service/apigatewaymanagementapi/types"
)

// Gateway sends messages to connections and closes them.
type Gateway struct {
	api     *apigatewaymanagementapi.Client
	timeout time.Duration
}

// ErrGone says that a connection has ended.
var ErrGone = errors.New("the connection is gone")

// postTimeout bounds one message, retries included. The gateway answers within
// milliseconds; a connection it cannot reach must not hold up the others.
const postTimeout = 5 * time.Second

// NewGateway returns the gateway of a WebSocket API's stage, by its https URL.
// It makes no request.
func NewGateway(cfg aws.Config, endpoint string) (*Gateway, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of a WebSocket API's stage, like https://abc123.execute-api.eu-west-1.amazonaws.com/prod", endpoint)
	}
	api := apigatewaymanagementapi.NewFromConfig(cfg, func(o *apigatewaymanagementapi.Options) {
		o.BaseEndpoint = aws.String(endpoint)
		o.Retryer = retry.NewStandard(func(r *retry.StandardOptions) {
			r.MaxAttempts, r.MaxBackoff = 3, 500*time.Millisecond
		})
	})
	return &Gateway{api: api, timeout: postTimeout}, nil
}

// Post sends a message. It returns [ErrGone] when there is nobody to get it.
func (g *Gateway) Post(ctx context.Context, id string, message []byte) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	_, err := g.api.PostToConnection(ctx, &apigatewaymanagementapi.PostToConnectionInput{ConnectionId: &id, Data: message})
	return explain("post to", id, err)
}

// Close closes a connection, if it still is there.
func (g *Gateway) Close(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	_, err := g.api.DeleteConnection(ctx, &apigatewaymanagementapi.DeleteConnectionInput{ConnectionId: &id})
	if err := explain("close", id, err); !errors.Is(err, ErrGone) {
		return err
	}
	return nil
}

func explain(what, id string, err error) error {
	if err == nil {
		return nil
	}
	if _, gone := errors.AsType[*types.GoneException](err); gone {
		return ErrGone
	}
	if _, denied := errors.AsType[*types.ForbiddenException](err); denied {
		return fmt.Errorf("%s connection %s: %w; does the function's role have execute-api:ManageConnections?", what, id, err)
	}
	return fmt.Errorf("%s connection %s: %w", what, id, err)
}
