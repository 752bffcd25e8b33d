package fargate_test

import (
	"context"
	"net/url"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox/fargate"
)

func TestALinkToSandboxdIsSignedAndShortLived(t *testing.T) {
	t.Parallel()
	emulator := "http://127.0.0.1:4566"
	for name, c := range map[string]struct {
		region   string
		endpoint *string
		want     string
	}{
		"AWS":         {"eu-west-1", nil, "https://assets.s3.eu-west-1.amazonaws.com/a/b.bin"},
		"China":       {"cn-north-1", nil, "https://assets.s3.cn-north-1.amazonaws.com.cn/a/b.bin"},
		"an emulator": {"us-east-1", &emulator, "http://127.0.0.1:4566/assets/a/b.bin"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			download, err := fargate.FromS3(aws.Config{Region: c.region, BaseEndpoint: c.endpoint,
				Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
					return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "secret", SessionToken: "session"}, nil
				})}, "s3://assets/a/b.bin")
			require.NoError(t, err)
			link, err := download(t.Context())
			require.NoError(t, err)
			u, err := url.Parse(link)
			require.NoError(t, err)
			q := u.Query()
			require.Equal(t, "900", q.Get("X-Amz-Expires"))
			require.Equal(t, "session", q.Get("X-Amz-Security-Token"))
			require.Len(t, q.Get("X-Amz-Signature"), 64)
			require.NotContains(t, link, "secret")
			u.RawQuery = ""
			require.Equal(t, c.want, u.String())
		})
	}
	for _, wrong := range []string{"", "s3://bucket", "s3://bucket/", "https://bucket/key", "s3:///key"} {
		_, err := fargate.FromS3(aws.Config{}, wrong)
		require.ErrorContains(t, err, "is not an object of S3", wrong)
	}
}
