// Package ministack gives tests a DynamoDB: MiniStack, an emulator in one Python
// process. A test run starts one for all packages (see localstack/ministack.mk)
// and names it in LAMBAE_TEST_DYNAMODB; a single `go test` starts its own.
package ministack

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"
)

// EndpointVariable is the environment variable with the endpoint to use.
const EndpointVariable = "LAMBAE_TEST_DYNAMODB"

// shared is the server of this test process. It has no owner that could stop
// it; it ends when the process does.
var shared = sync.OnceValues(func() (*Server, error) {
	root, err := moduleRoot()
	if err != nil {
		return nil, err
	}
	return Start(context.Background(), root)
})

// Endpoint returns the URL of a DynamoDB for tests. All tests share it: use
// table names of your own, see [TableName].
func Endpoint(t testing.TB) string {
	t.Helper()
	if url := os.Getenv(EndpointVariable); url != "" {
		return url
	}
	s, err := shared()
	require.NoError(t, err)
	return s.Endpoint
}

// Client returns a DynamoDB client for an endpoint, with credentials that only
// an emulator takes.
func Client(endpoint string, more ...func(*dynamodb.Options)) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String(endpoint),
		Region:       "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "test", SecretAccessKey: "test"}, nil
		}),
	}, more...)
}

// TableName returns a name that nobody else uses.
func TableName() string { return "test-" + rand.Text() }

// moduleRoot finds the folder with go.mod above the package under test.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above the working directory")
		}
		dir = parent
	}
}
