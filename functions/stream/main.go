// Command stream consumes the table's DynamoDB stream: it pushes new events to
// the WebSocket connections of their sessions.
//
// Environment: BAE_STORE=dynamodb:<table>, BAE_WEBSOCKET_ENDPOINT=https://… of the
// WebSocket API's stage, BAE_LOG. The event source should be filtered on INSERT
// and sort keys that begin with L#, report batch item failures, bisect on error
// and have bounded retries and a failure queue.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lambae/lambae/functions/internal/boot"
	"github.com/lambae/lambae/internal/push/apigateway"
)

func main() {
	boot.MainPush(func(p *boot.Push) {
		lambda.Start((&apigateway.Consumer{Pusher: p.Pusher, Logger: p.Logger}).Handle)
	})
}
