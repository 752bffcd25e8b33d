package boot

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// awsConfig is the SDK's configuration as Lambda gives it, in the environment:
// region, credentials that last as long as the instance, and an endpoint where
// an emulator stands in. The SDK's own chain of files, profiles, single sign-on
// and instance metadata finds nothing more there, and is 2 MB to load at every
// cold start.
func awsConfig(lookup func(string) (string, bool)) (aws.Config, error) {
	get := func(name string) string {
		v, _ := lookup(name)
		return v
	}
	cfg := aws.Config{Region: get("AWS_REGION"), HTTPClient: awshttp.NewBuildableClient()}
	if cfg.Region == "" {
		return aws.Config{}, errors.New("AWS_REGION is not set; Lambda sets it for every function")
	}
	if endpoint := get("AWS_ENDPOINT_URL"); endpoint != "" {
		cfg.BaseEndpoint = &endpoint
	}
	keys := aws.Credentials{
		AccessKeyID:     get("AWS_ACCESS_KEY_ID"),
		SecretAccessKey: get("AWS_SECRET_ACCESS_KEY"),
		SessionToken:    get("AWS_SESSION_TOKEN"),
		Source:          "Lambda's environment",
	}
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		if !keys.HasKeys() {
			return aws.Credentials{}, fmt.Errorf("AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set; Lambda sets them from the function's role")
		}
		return keys, nil
	})
	return cfg, nil
}
