package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
)

// functionURLRegion is the region of a Lambda Function URL: the admin API on
// AWS, where requests are signed.
func functionURLRegion(address string) (region string, ok bool) {
	parsed, err := url.Parse(address)
	if err != nil {
		return "", false
	}
	labels := strings.Split(parsed.Hostname(), ".")
	if len(labels) != 5 || labels[1] != "lambda-url" || labels[3] != "on" || labels[4] != "aws" {
		return "", false
	}
	return labels[2], true
}

// signer signs requests with the caller's own AWS credentials.
type signer struct {
	region      string
	next        http.RoundTripper
	credentials func() (aws.CredentialsProvider, error)
	now         func() time.Time
}

// newSigner finds credentials as every AWS tool does, when they are first needed.
func newSigner(region string, next http.RoundTripper) *signer {
	return &signer{region, next, sync.OnceValues(func() (aws.CredentialsProvider, error) {
		loaded, err := config.LoadDefaultConfig(context.Background(), config.WithRegion(region))
		return loaded.Credentials, err
	}), time.Now}
}

// RoundTrip implements [http.RoundTripper].
func (s *signer) RoundTrip(r *http.Request) (*http.Response, error) {
	provider, err := s.credentials()
	if err != nil {
		return nil, fmt.Errorf("find AWS credentials: %w", err)
	}
	credentials, err := provider.Retrieve(r.Context())
	if err != nil {
		return nil, fmt.Errorf("find AWS credentials (try `aws sts get-caller-identity`): %w", err)
	}
	var body []byte
	if r.Body != nil {
		body, err = io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			return nil, err
		}
	}
	signed := r.Clone(r.Context())
	signed.Body = io.NopCloser(bytes.NewReader(body))
	hash := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(r.Context(), credentials, signed, hex.EncodeToString(hash[:]), "lambda", s.region, s.now()); err != nil {
		return nil, fmt.Errorf("sign the request: %w", err)
	}
	return s.next.RoundTrip(signed)
}
