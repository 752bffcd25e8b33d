package fargate

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// InitName is the name of the init container that fetches sandboxd, in every task
// definition, and DownloadVariable the environment variable that tells it where.
const (
	InitName         = "sandboxd"
	DownloadVariable = "SANDBOXD_URL"
)

// downloadFor is how long a task may take from its start to its init container's.
const downloadFor = 15 * time.Minute

// Download returns where one task may fetch sandboxd for a while. A task has no
// role, so it needs a link that is signed for it.
type Download func(ctx context.Context) (url string, err error)

// FromS3 signs links to an object, s3://bucket/key, with cfg's credentials, which
// must be allowed to read it.
func FromS3(cfg aws.Config, object string) (Download, error) {
	at, err := url.Parse(object)
	if err != nil || at.Scheme != "s3" || at.Host == "" || len(at.Path) < 2 {
		return nil, fmt.Errorf("%q is not an object of S3, like s3://bucket/key", object)
	}
	address := "https://" + at.Host + ".s3." + cfg.Region + ".amazonaws.com" + at.EscapedPath()
	switch {
	case cfg.BaseEndpoint != nil:
		address = strings.TrimSuffix(*cfg.BaseEndpoint, "/") + "/" + at.Host + at.EscapedPath()
	case strings.HasPrefix(cfg.Region, "cn-"):
		address = strings.Replace(address, ".amazonaws.com", ".amazonaws.com.cn", 1)
	}
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	return func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			return "", err
		}
		req.URL.RawQuery = url.Values{"X-Amz-Expires": {fmt.Sprint(int(downloadFor.Seconds()))}}.Encode()
		credentials, err := cfg.Credentials.Retrieve(ctx)
		if err != nil {
			return "", fmt.Errorf("AWS credentials: %w", err)
		}
		link, _, err := signer.PresignHTTP(ctx, credentials, req, "UNSIGNED-PAYLOAD", "s3", cfg.Region, time.Now())
		return link, err
	}, nil
}
