// Package awssecrets reads the secrets ${secretsmanager:…} and ${ssm:…} refer
// to. Nothing is loaded before the first use.
package awssecrets

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/lambae/lambae/internal/awsjson"
)

// Secrets makes the calls. It is safe for concurrent use; its methods are the
// sources of a config.Resolver, which caches what they return.
type Secrets struct{ client *awsjson.Client }

// New returns a Secrets that uses the configuration load returns. Load runs on
// first use, and again after it failed.
func New(load func(context.Context) (aws.Config, error)) *Secrets {
	return &Secrets{awsjson.New(load)}
}

// SecretsManager returns the current value of a secret, named by its name or ARN.
func (s *Secrets) SecretsManager(ctx context.Context, id string) (string, error) {
	var out struct {
		SecretString *string
		SecretBinary []byte
	}
	if err := s.client.Call(ctx, "secretsmanager", "secretsmanager.GetSecretValue", map[string]any{"SecretId": id}, &out); err != nil {
		return "", fmt.Errorf("read from Secrets Manager: %w", err)
	}
	if out.SecretString != nil {
		return *out.SecretString, nil
	}
	return string(out.SecretBinary), nil
}

// SSM returns the value of a parameter of Systems Manager, decrypted.
func (s *Secrets) SSM(ctx context.Context, name string) (string, error) {
	var out struct{ Parameter struct{ Value string } }
	if err := s.client.Call(ctx, "ssm", "AmazonSSM.GetParameter", map[string]any{"Name": name, "WithDecryption": true}, &out); err != nil {
		return "", fmt.Errorf("read from Parameter Store: %w", err)
	}
	return out.Parameter.Value, nil
}
