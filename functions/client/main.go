// Command client is the function behind the client API: a Function URL in
// RESPONSE_STREAM mode, whose callers authenticate with client and session keys.
package main

import (
	"context"
	"os"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lambae/lambae/functions/internal/boot"
	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/lambdahttp"
	"github.com/lambae/lambae/internal/provider/bedrock"
)

// webSocketVariable names the environment variable with the address that the
// client API offers for WebSockets, {session_id} in place of the session. Without
// one it offers none.
const webSocketVariable = "BAE_WEBSOCKET_URL"

func main() { boot.Main(serve) }

func serve(f *boot.Function) error {
	a, err := f.App(withBedrock, boot.WithFargate, boot.WithDoorbell)
	if err != nil {
		return err
	}
	a.Client.WebSocketURL = os.Getenv(webSocketVariable)
	lambdahttp.Start(a.Traced(a.ClientHandler()), &lambdahttp.Options{Logger: f.Logger, After: f.Flush})
	return nil
}

func withBedrock(f *boot.Function, p *app.Parts) error {
	p.Bedrock = bedrock.New(func(context.Context) (aws.Config, error) { return f.AWS, nil })
	return nil
}
