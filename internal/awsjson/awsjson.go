// Package awsjson calls services of AWS that speak its JSON protocol, version 1.1.
// The SDK's client of a service is a megabyte or more in every function that
// links it, a tenth of what one may weigh; this is for services of which a few
// operations are used. Signing and credentials are the SDK's.
package awsjson

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

const (
	attempts  = 4
	backOff   = 200 * time.Millisecond // before the second attempt, doubled after each
	timeout   = 10 * time.Second       // of an attempt
	maxAnswer = 8 << 20
)

// Error is a service's refusal of a call. It holds nothing of what was asked.
type Error struct {
	Status  int    // of HTTP
	Code    string // the exception's name, like ClientException
	Message string
}

func (e *Error) Error() string {
	return fmt.Sprintf("HTTP %d %s: %s", e.Status, e.Code, e.Message)
}

// Is reports whether err is a service's refusal with that code.
func Is(err error, code string) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// Client makes calls. It is safe for concurrent use.
type Client struct {
	load func(context.Context) (aws.Config, error)
	http *http.Client

	mu     sync.Mutex
	config *aws.Config
}

// New returns a client that uses the configuration load returns. Load runs on
// the first call, since set-up time is cold-start time, and again after it failed.
func New(load func(context.Context) (aws.Config, error)) *Client {
	return &Client{load: load, http: &http.Client{Timeout: timeout}}
}

// Call sends in to a service's operation and reads the answer into out, a pointer.
// Service is the name the service signs with, target the value of X-Amz-Target,
// like "AmazonSSM.GetParameter". A call that was not reached, throttled or met an
// internal error is made again, so it must be one that may be made twice.
func (c *Client) Call(ctx context.Context, service, target string, in, out any) error {
	cfg, err := c.configuration(ctx)
	if err != nil {
		return err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	for attempt := 0; ; attempt++ {
		answer, again, err := c.once(ctx, cfg, service, target, body)
		if err == nil {
			return json.Unmarshal(answer, out)
		}
		if !again || attempt == attempts-1 {
			return err
		}
		wait := backOff << attempt
		select {
		case <-time.After(wait/2 + rand.N(wait/2)):
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

func (c *Client) configuration(ctx context.Context) (aws.Config, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.config == nil {
		cfg, err := c.load(ctx)
		if err != nil {
			return aws.Config{}, fmt.Errorf("load AWS configuration: %w", err)
		}
		c.config = &cfg
	}
	return *c.config, nil
}

func (c *Client) once(ctx context.Context, cfg aws.Config, service, target string, body []byte) (answer []byte, again bool, err error) {
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
	res, err := c.http.Do(req)
	if err != nil {
		return nil, ctx.Err() == nil, err
	}
	defer res.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, ctx.Err() == nil, err
	}
	if res.StatusCode != http.StatusOK {
		refused := refusal(res.StatusCode, answer)
		return nil, passes(refused), refused
	}
	return answer, false, nil
}

// passes reports whether a refusal is one that a later attempt may not meet.
func passes(e *Error) bool {
	switch {
	case e.Status >= http.StatusInternalServerError, e.Status == http.StatusTooManyRequests:
		return true
	case strings.Contains(e.Code, "Throttl"), e.Code == "TooManyRequestsException", e.Code == "RequestLimitExceeded":
		return true
	}
	return false
}

// refusal is what the service says of a call it refused.
func refusal(status int, answer []byte) *Error {
	var v struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
		Other   string `json:"Message"`
	}
	_ = json.Unmarshal(answer, &v)
	_, code, qualified := strings.Cut(v.Type, "#")
	if !qualified {
		code = v.Type
	}
	if v.Message == "" {
		v.Message = v.Other
	}
	return &Error{Status: status, Code: code, Message: v.Message}
}

// endpoint is where a service answers. An emulator may stand in for all services
// or for one of them, as the SDK's own clients take it.
func endpoint(cfg aws.Config, service string) string {
	if one := os.Getenv("AWS_ENDPOINT_URL_" + strings.ToUpper(service)); one != "" {
		return one
	}
	if cfg.BaseEndpoint != nil {
		return *cfg.BaseEndpoint
	}
	suffix := ""
	if strings.HasPrefix(cfg.Region, "cn-") {
		suffix = ".cn"
	}
	return fmt.Sprintf("https://%s.%s.amazonaws.com%s", service, cfg.Region, suffix)
}
