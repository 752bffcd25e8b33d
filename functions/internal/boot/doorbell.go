package boot

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/push/apigateway"
)

// ringing is what a doorbell is rung with. Any message would do.
var ringing = []byte("ring")

// WithDoorbell lets a function ring sandboxes, whose doorbells API Gateway holds:
// a command then starts at once, and not when its sandbox looks for it. Only the
// function that gives commands links it.
func WithDoorbell(f *Function, p *app.Parts) error {
	if p.Env.SandboxDriver != config.SandboxFargate {
		return nil
	}
	endpoint, ok := os.LookupEnv(apigateway.EndpointVariable)
	if !ok {
		return nil // sandboxes look for commands by themselves
	}
	gateway, err := apigateway.NewGateway(f.AWS, endpoint)
	if err != nil {
		return fmt.Errorf("%s: %w", apigateway.EndpointVariable, err)
	}
	p.Ring = func(ctx context.Context, bell string) {
		if err := gateway.Post(ctx, bell, ringing); err != nil && !errors.Is(err, apigateway.ErrGone) {
			f.Logger.Warn("sandbox not rung; it looks for its commands later", "connection", bell, "error", err)
		}
	}
	p.Doorbell = os.Getenv(DoorbellVariable)
	return nil
}

// DoorbellVariable names the environment variable with the WebSocket at which
// sandboxes listen, {sandbox_id} in place of the sandbox.
const DoorbellVariable = "BAE_SANDBOX_DOORBELL"
