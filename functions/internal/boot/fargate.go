package boot

import (
	"context"
	"fmt"
	"os"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/awsjson"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/fargate"
	"github.com/lambae/lambae/internal/sandbox/queue"
)

// WithFargate gives a function sandboxes, where BAE_SANDBOX_DRIVER asks for them.
// Only functions that start or end sandboxes link it.
func WithFargate(f *Function, p *app.Parts) error {
	if p.Env.SandboxDriver != config.SandboxFargate {
		return nil
	}
	p.Sandboxes = func(q *queue.Queue, _ func(context.Context, string, string)) (sandbox.Driver, error) {
		o, err := fargate.FromEnv(os.LookupEnv)
		if err != nil {
			return nil, err
		}
		if o.Download, err = fargate.FromS3(f.AWS, os.Getenv(fargate.AgentVariable)); err != nil {
			return nil, fmt.Errorf("%s: %w", fargate.AgentVariable, err)
		}
		o.ECS = fargate.NewECS(awsjson.New(f.config))
		return fargate.New(q, o), nil
	}
	return nil
}
