package dev

import (
	"context"
	"fmt"
	"os"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lambae/lambae/internal/app"
	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/config/awssecrets"
	"github.com/lambae/lambae/internal/provider/bedrock"
	"github.com/lambae/lambae/internal/table"
	"github.com/lambae/lambae/internal/table/dynamo"
)

// addEdges gives the server all edges there are: on a laptop the size of the
// binary and its start do not matter. The clients of AWS are made on first use.
func addEdges(p *app.Parts) {
	secrets := awssecrets.New(nil)
	p.Resolve = config.NewResolver(config.ResolverOptions{Lookup: lookupEnv, SecretsManager: secrets.SecretsManager, SSM: secrets.SSM}).Resolve
	p.Bedrock = bedrock.New(nil)
	p.Region = os.Getenv("AWS_REGION")
}

func openDynamo(ctx context.Context, name string) (table.Table, error) {
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("AWS configuration for BAE_STORE=dynamodb:%s: %w", name, err)
	}
	return dynamo.Open(dynamodb.NewFromConfig(cfg), name, nil)
}
