// Package awssecrets reads the secrets ${secretsmanager:…} and ${ssm:…} refer
// to. Each is one signed call of AWS's JSON protocol, written out here: the SDK's
// clients of the two services would add 1.5 MB to every function, a tenth of
// what it may weigh, for one operation each. Nothing is loaded before the first
// use, because set-up time is cold-start time.
package awssecrets

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	attempts  = 3
	maxAnswer = 1 << 20
)

// Secrets makes the calls. It is safe for concurrent use; its methods are the
// sources of a config.Resolver, which caches what they return.
type Secrets struct {
	load   func(context.Context) (aws.Config, error)
	client *http.Client

	mu     sync.Mutex
	config *aws.Config
}

// New returns a Secrets that uses the configuration load returns. Load runs on
// first use, and again after it failed.
func New(load func(context.Context) (aws.Config, error)) *Secrets {
	return &Secrets{load: load, client: &http.Client{Timeout: 10 * time.Second}}
}

// SecretsManager returns the current value of a secret, named by its name or ARN.
func (s *Secrets) SecretsManager(ctx context.Context, id string) (string, error) {
	var out struct {
		SecretString *string
		SecretBinary []byte
	}
	if err := s.call(ctx, "secretsmanager", "secretsmanager.GetSecretValue", map[string]any{"SecretId": id}, &out); err != nil {
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
	if err := s.call(ctx, "ssm", "AmazonSSM.GetParameter", map[string]any{"Name": name, "WithDecryption": true}, &out); err != nil {
		return "", fmt.Errorf("read from Parameter Store: %w", err)
	}
	return out.Parameter.Value, nil
}

func (s *Secrets) configuration(ctx context.Context) (aws.Config, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.config == nil {
		cfg, err := s.load(ctx)
		if err != nil {
			return aws.Config{}, fmt.Errorf("load AWS configuration: %w", err)
		}
		s.config = &cfg
	}
	return *s.config, nil
}

// call makes one call of a service, again when the service was busy or not reached.
func (s *Secrets) call(ctx context.Context, service, target string, in, out any) error {
	cfg, err := s.configuration(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		answer, again, err := s.once(ctx, cfg, service, target, body)
		if err == nil {
			return json.Unmarshal(answer, out)
		}
		if !again || attempt == attempts {
			return err
		}
		select {
		case <-time.After(time.Duration(attempt) * 200 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Secrets) once(ctx context.Context, cfg aws.Config, service, target string, body []byte) (answer []byte, again bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint(cfg, service), bytes.NewReader(body))
	if err != nil {
		return nil, false, err
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", target)
	credentials, err := cfg.Credentials.Retrieve(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("AWS credentials: %w", err)
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, credentials, req, hex.EncodeToString(sum[:]), service, cfg.Region, time.Now()); err != nil {
		return nil, false, err
	}
	res, err := s.client.Do(req)
	if err != nil {
		return nil, true, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, true, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests, refusal(res.StatusCode, answer)
	}
	return answer, false, nil
}

// refusal is what the service says of a call it refused. It holds no value.
func refusal(status int, answer []byte) error {
	var v struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
		Other   string `json:"Message"`
	}
	_ = json.Unmarshal(answer, &v)
	if v.Message == "" {
		v.Message = v.Other
	}
	_, kind, found := strings.Cut(v.Type, "#")
	if !found {
		kind = v.Type
	}
	return fmt.Errorf("HTTP %d %s: %s", status, kind, v.Message)
}

func endpoint(cfg aws.Config, service string) string {
	if cfg.BaseEndpoint != nil {
		return *cfg.BaseEndpoint
	}
	suffix := ""
	if strings.HasPrefix(cfg.Region, "cn-") {
		suffix = ".cn"
	}
	return fmt.Sprintf("https://%s.%s.amazonaws.com%s", service, cfg.Region, suffix)
}
