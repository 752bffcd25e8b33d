package apigateway

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table/dynamo"
)

// EndpointVariable names the environment variable with the URL to post to: that
// of the WebSocket API's stage, with https.
const EndpointVariable = "BAE_WEBSOCKET_ENDPOINT"

// Wire makes a [Pusher] of what the environment says: BAE_STORE, a DynamoDB
// table, and [EndpointVariable]. Its error says what to set. It makes no request.
func Wire(lookup func(string) (string, bool), cfg aws.Config, logger *slog.Logger) (*Pusher, *session.Directory, error) {
	env, err := config.ParseEnv(lookup)
	if err != nil {
		return nil, nil, err
	}
	if env.Store.Table == "" {
		return nil, nil, fmt.Errorf("BAE_STORE: the function needs dynamodb:<table>, the table whose sessions are watched")
	}
	endpoint, _ := lookup(EndpointVariable)
	gateway, err := NewGateway(cfg, endpoint)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", EndpointVariable, err)
	}
	t, err := dynamo.Open(dynamodb.NewFromConfig(cfg), env.Store.Table, nil)
	if err != nil {
		return nil, nil, err
	}
	store := session.NewStore(t, &session.Options{Logger: logger})
	return &Pusher{Store: store, Gateway: gateway, Logger: logger}, session.NewDirectory(t, time.Now), nil
}
