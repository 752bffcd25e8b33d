package awsstack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
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
	if s.cfg.Credentials == nil {
		return nil, fmt.Errorf("sign the request: no AWS credentials: log in, or set AWS_PROFILE or AWS_ACCESS_KEY_ID")
	}
	credentials, err := s.cfg.Credentials.Retrieve(r.Context())
	if err != nil {
		return nil, fmt.Errorf("sign the request: no AWS credentials: log in, or set AWS_PROFILE or AWS_ACCESS_KEY_ID: %w", err)
	}
	signed := r.Clone(r.Context())
	signed.Body, signed.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(r.Context(), credentials, signed, hex.EncodeToString(hash[:]), "lambda", s.cfg.Region, s.now()); err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	return s.next.RoundTrip(signed)
}
