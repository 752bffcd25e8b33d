// Command outputs prints where a stage is deployed, one NAME=value a line, which
// a shell can read.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	awsconfig "github.com/aws/aws-sdk-go-v2/config"

	"github.com/lambae/lambae/internal/awsstack"
)

func main() {
	stage := flag.String("stage", "dev", "`name` of the deployment")
	flag.Parse()
	if err := run(context.Background(), *stage); err != nil {
		fmt.Fprintf(os.Stderr, "outputs: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, stage string) error {
	cfg, err := awsconfig.LoadDefaultConfig(ctx)
	if err != nil {
		return fmt.Errorf("AWS configuration: %w", err)
	}
	s, err := awsstack.Find(ctx, cfg, stage)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("CLIENT_URL=%s\nADMIN_URL=%s\nWEBSOCKET_URL=%s\nTABLE=%s\n", s.ClientURL, s.AdminURL, s.WebSocketURL, s.Table)
	return err
}
