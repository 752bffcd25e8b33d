// Package awssecrets reads the secrets ${secretsmanager:…} and ${ssm:…} refer to
// with the AWS SDK. It stands apart from package config so that only binaries
// that run on AWS link the SDK's clients, and it builds each client on first
// use, because set-up time is cold-start time.
package awssecrets

import (
	"context"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// Secrets holds the two clients. It is safe for concurrent use; its methods are
// the sources of a config.Resolver, which caches what they return.
type Secrets struct {
	load func(context.Context) (aws.Config, error)

	mu      sync.Mutex
	secrets *secretsmanager.Client
	ssm     *ssm.Client
}

// New returns a Secrets whose clients use the configuration load returns; nil
// takes the SDK's default chain. Load runs on first use, and again after it failed.
func New(load func(context.Context) (aws.Config, error)) *Secrets {
	if load == nil {
		load = func(ctx context.Context) (aws.Config, error) { return awsconfig.LoadDefaultConfig(ctx) }
	}
	return &Secrets{load: load}
}

// SecretsManager returns the current value of a secret, named by its name or ARN.
func (s *Secrets) SecretsManager(ctx context.Context, id string) (string, error) {
	client, err := lazy(ctx, s, &s.secrets, func(c aws.Config) *secretsmanager.Client { return secretsmanager.NewFromConfig(c) })
	if err != nil {
		return "", err
	}
	out, err := client.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &id})
	if err != nil {
		return "", fmt.Errorf("read from Secrets Manager: %w", err)
	}
	if out.SecretString != nil {
		return *out.SecretString, nil
	}
	return string(out.SecretBinary), nil
}

// SSM returns the value of a parameter of Systems Manager, decrypted.
func (s *Secrets) SSM(ctx context.Context, name string) (string, error) {
	client, err := lazy(ctx, s, &s.ssm, func(c aws.Config) *ssm.Client { return ssm.NewFromConfig(c) })
	if err != nil {
		return "", err
	}
	out, err := client.GetParameter(ctx, &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
	if err != nil {
		return "", fmt.Errorf("read from Parameter Store: %w", err)
	}
	return aws.ToString(out.Parameter.Value), nil
}

func lazy[C any](ctx context.Context, s *Secrets, client **C, build func(aws.Config) *C) (*C, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *client == nil {
		cfg, err := s.load(ctx)
		if err != nil {
			return nil, fmt.Errorf("load AWS configuration: %w", err)
		}
		*client = build(cfg)
	}
	return *client, nil
}
