// Command stream consumes the table's DynamoDB stream: it pushes new events to
// the WebSocket connections of their sessions.
//
// Environment: BAE_STORE=dynamodb:<table>, BAE_WEBSOCKET_ENDPOINT=https://… of the
// WebSocket API's stage. The event source should be filtered on INSERT
// and sort keys that begin with L#, report batch item failures, bisect on error
// and have bounded retries and a failure queue.
package main

import (
	"context"
	"log/slog"
	"os"

	"github.com/aws/aws-lambda-go/lambda"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/lambae/lambae/internal/push/apigateway"
)

func main() {
	logger := slog.New(slog.NewJSONHandler(os.Stdout, nil))
	cfg, err := awsconfig.LoadDefaultConfig(context.Background())
	if err != nil {
		fail(logger, err)
	}
	pusher, _, err := apigateway.Wire(os.LookupEnv, cfg, logger)
	if err != nil {
		fail(logger, err)
	}
	lambda.Start((&apigateway.Consumer{Pusher: pusher, Logger: logger}).Handle)
}

func fail(logger *slog.Logger, err error) {
	logger.Error("the function cannot start", "error", err)
	os.Exit(1)
}
