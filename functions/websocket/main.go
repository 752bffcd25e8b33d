// Command websocket serves the routes of an API Gateway WebSocket API: $connect,
// $default and $disconnect. Two kinds of clients come: subscribers of a session
// (?session=ses_…, with the session key in Authorization or the subprotocols bae
// and bearer.<session key>), and sandboxes that listen for their doorbell
// (?sandbox=sbx_…, with their own token).
//
// Environment: BAE_STORE=dynamodb:<table>, BAE_WEBSOCKET_ENDPOINT=https://… of the
// WebSocket API's stage, BAE_LOG.
package main

import (
	"github.com/aws/aws-lambda-go/lambda"

	"github.com/lambae/lambae/functions/internal/boot"
	"github.com/lambae/lambae/internal/push/apigateway"
	"github.com/lambae/lambae/internal/sandbox/queue"
)

func main() {
	boot.MainPush(func(p *boot.Push) {
		subscribers := &apigateway.Handler{Pusher: p.Pusher, Directory: p.Directory, Logger: p.Logger}
		lambda.Start((&handler{queue.New(p.Table, nil), subscribers.Handle, p.Logger}).handle)
	})
}
