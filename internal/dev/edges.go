package dev

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/config/awssecrets"
	"github.com/lambae/lambae/internal/provider/bedrock"
	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/dynamo"
	"github.com/lambae/lambae/internal/telemetry"
	"github.com/lambae/lambae/internal/telemetry/otlpgrpc"
	"github.com/lambae/lambae/internal/telemetry/otlphttp"
)

// addEdges gives the server all edges there are: on a laptop the size of the
// binary and its start do not matter. The clients of AWS are made on first use.
func addEdges(p *app.Parts) {
	load := func(ctx context.Context) (aws.Config, error) { return awsconfig.LoadDefaultConfig(ctx) }
	secrets := awssecrets.New(load)
	p.Resolve = config.NewResolver(config.ResolverOptions{Lookup: lookupEnv, SecretsManager: secrets.SecretsManager, SSM: secrets.SSM}).Resolve
	p.Bedrock = bedrock.New(load)
	p.Region = os.Getenv("AWS_REGION")
}

// addTelemetry starts what the [telemetry] section asks for. flush sends what is
// left at the end.
func addTelemetry(ctx context.Context, p *app.Parts) (flush func(), err error) {
	t, stop, err := telemetry.Start(ctx, telemetry.Config(p.File.Telemetry), telemetry.Options{
		Version: app.Version, Exporters: []telemetry.Exporter{otlphttp.Exporter(), otlpgrpc.Exporter()},
		Resolve: p.Resolve, Logger: p.Logger,
	})
	if err != nil {
		return nil, fmt.Errorf("telemetry: %w", err)
	}
	p.Telemetry = t
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if err := stop(ctx); err != nil {
			p.Logger.Warn("telemetry not sent", "error", err)
		}
	}, nil
}

func openDynamo(ctx context.Context, name string) (table.Table, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("AWS configuration for BAE_STORE=dynamodb:%s: %w", name, err)
	}
	return dynamo.Open(dynamodb.NewFromConfig(cfg), name, nil)
}
