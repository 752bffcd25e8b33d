package awsstack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// Signer is a transport that signs requests to Function URLs with AWS_IAM
// (Signature Version 4). The caller needs lambda:InvokeFunctionUrl and
// lambda:InvokeFunction on the function.
type Signer struct {
	cfg  aws.Config
	next http.RoundTripper
	now  func() time.Time
}

// NewSigner returns a Signer with the credentials and region of cfg. Requests go
// on to next.
func NewSigner(cfg aws.Config, next http.RoundTripper) *Signer {
	return &Signer{cfg, next, time.Now}
}

// RoundTrip implements [http.RoundTripper].
func (s *Signer) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		body, err = io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("read the request to sign: %w", err)
		}
	}
	credentials, err := identify(r.Context(), s.cfg)
	if err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	signed := r.Clone(r.Context())
	signed.Body, signed.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(r.Context(), credentials, signed, hex.EncodeToString(hash[:]), "lambda", s.cfg.Region, s.now()); err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	return s.next.RoundTrip(signed)
}

// identify returns the caller's credentials, or says where they come from.
func identify(ctx context.Context, cfg aws.Config) (aws.Credentials, error) {
	const say = "no AWS credentials: log in, or set AWS_PROFILE or AWS_ACCESS_KEY_ID"
	if cfg.Credentials == nil {
		return aws.Credentials{}, errors.New(say)
	}
	credentials, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return credentials, fmt.Errorf(say+": %w", err)
	}
	return credentials, nil
}
