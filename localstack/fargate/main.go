// Command fargate stands in for AWS Fargate beside an emulator that keeps tasks of
// ECS but runs none:
//
//	AWS_ENDPOINT_URL=http://127.0.0.1:4566 go run ./localstack/fargate DIR
//
// It watches all clusters. A task that runs there becomes a process here, in a
// folder below DIR: what the task's init container would fetch, started as its
// main container would be. A task that is stopped there is ended here; one that
// ends here is stopped there, and whoever has a rule for "ECS Task State Change"
// is told. Containers isolate; this does not: it is for tests.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/lambae/lambae/internal/awsjson"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "fargate:", err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 || os.Getenv("AWS_ENDPOINT_URL") == "" {
		return fmt.Errorf("usage: AWS_ENDPOINT_URL=http://127.0.0.1:4566 fargate DIR")
	}
	dir, err := filepath.Abs(os.Args[1])
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	client := awsjson.New(func(context.Context) (aws.Config, error) { return cfg, nil })
	rules := &rules{client: client, cfg: cfg}
	p := &platform{
		ecs: &ecs{client}, bucket: bucket{cfg}, dir: dir, endpoint: *cfg.BaseEndpoint, logger: logger,
		changed: rules.tell, tasks: map[string]*process{},
	}
	p.watch(ctx)
	return nil
}
