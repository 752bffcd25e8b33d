// Command websocket serves the routes of an API Gateway WebSocket API: $connect
// (?session=ses_…, with the session key in Authorization or the subprotocols bae
// and bearer.<session key>), $default and $disconnect.
//
// Environment: BAE_STORE=dynamodb:<table>, BAE_WEBSOCKET_ENDPOINT=https://… of the
// WebSocket API's stage.
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
	pusher, directory, err := apigateway.Wire(os.LookupEnv, cfg, logger)
	if err != nil {
		fail(logger, err)
	}
	lambda.Start((&apigateway.Handler{Pusher: pusher, Directory: directory, Logger: logger}).Handle)
}

func fail(logger *slog.Logger, err error) {
	logger.Error("the function cannot start", "error", err)
	os.Exit(1)
}
