// Package rest sends JSON over HTTP for the clients of lambae: base address,
// bearer key, and retries that never repeat what must not happen twice. It
// knows nothing of what the requests mean.
package rest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"
)

// DefaultRetries is how often a request is tried again unless told otherwise.
const DefaultRetries = 3

// Config is what a [Client] is made of. Only BaseURL is required.
type Config struct {
	BaseURL    string
	Key        string                          // bearer key of requests that carry none of their own
	HTTPClient *http.Client                    // default http.DefaultClient
	Retries    int                             // tries after the first; 0 means DefaultRetries, negative none
	Backoff    func(attempt int) time.Duration // wait before retry attempt 0, 1, …; default Jitter
	UserAgent  string
}

// Client sends requests to one server. It is safe for concurrent use.
type Client struct {
	base    *url.URL
	key     string
	http    *http.Client
	retries int
	backoff func(int) time.Duration
	agent   string
}

// New checks the address and fills in the defaults.
func New(c Config) (*Client, error) {
	base, err := url.Parse(c.BaseURL)
	if err != nil || (base.Scheme != "http" && base.Scheme != "https") || base.Host == "" {
		return nil, fmt.Errorf("server address %q must look like http://127.0.0.1:8080 or https://host", c.BaseURL)
	}
	client := &Client{base: base, key: c.Key, http: c.HTTPClient, retries: c.Retries, backoff: c.Backoff, agent: c.UserAgent}
	if client.http == nil {
		client.http = http.DefaultClient
	}
	switch {
	case c.Retries == 0:
		client.retries = DefaultRetries
	case c.Retries < 0:
		client.retries = 0
	}
	if client.backoff == nil {
		client.backoff = Jitter
	}
	return client, nil
}

// Retries is how often a request is tried again at most.
func (c *Client) Retries() int { return c.retries }

// Backoff is the wait before retry number attempt, counted from 0.
func (c *Client) Backoff(attempt int) time.Duration { return c.backoff(attempt) }

// Request is one request. The same bytes are sent on every try.
type Request struct {
	Method         string
	Path           string // from the root, already escaped
	Query          url.Values
	Key            string // bearer key; "" for the client's
	Accept         string
	IdempotencyKey string
	Body           []byte // nil for none
	// Repeatable says that doing the request twice is as good as once. Any
	// other request is only tried again if the server cannot have acted on it.
	Repeatable bool
	// Stream leaves the body of the answer to be read as it comes. Otherwise the
	// whole answer is read first: one that breaks off counts as lost.
	Stream bool
}

// Response is an answer of any status. The caller closes its body.
type Response struct {
	*http.Response
	// Unsure says that an earlier try was lost on the way and may have taken
	// effect, so that a conflict may be this request's own doing.
	Unsure bool
}

// Do sends r, trying again as long as that is safe and promises anything. It
// returns the last answer whatever its status; an error means that none came.
func (c *Client) Do(ctx context.Context, r Request) (*Response, error) {
	if path.Clean(r.Path) != r.Path {
		return nil, fmt.Errorf("an empty id, or one with dots for a name, is in the path %s", r.Path)
	}
	unsure := false
	for attempt := 0; ; attempt++ {
		response, err := c.try(ctx, r)
		verdict := judge(response, err)
		final := ctx.Err() != nil || attempt >= c.retries ||
			verdict == settled || verdict == unknown && !r.Repeatable
		if final {
			if err != nil {
				return nil, err
			}
			return &Response{response, unsure}, nil
		}
		unsure = unsure || verdict == unknown
		wait := max(c.backoff(attempt), retryAfter(response))
		if response != nil {
			response.Body.Close()
		}
		if err := Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (c *Client) try(ctx context.Context, r Request) (*http.Response, error) {
	target := c.base.JoinPath(r.Path)
	target.RawQuery = r.Query.Encode()
	var body io.Reader
	if r.Body != nil {
		body = bytes.NewReader(r.Body)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, target.String(), body)
	if err != nil {
		return nil, err
	}
	if key := cmp.Or(r.Key, c.key); key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	if r.Body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for name, value := range map[string]string{
		"Accept": r.Accept, "Idempotency-Key": r.IdempotencyKey, "User-Agent": c.agent,
	} {
		if value != "" {
			request.Header.Set(name, value)
		}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, withoutQuery(err)
	}
	if !r.Stream {
		whole, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			return nil, fmt.Errorf("read the answer of %s: %w", c.base.Host, err)
		}
		response.Body = io.NopCloser(bytes.NewReader(whole))
	}
	return response, nil
}

// verdict is what a try tells about the request.
type verdict int

const (
	settled verdict = iota // an answer that another try would not change
	refused                // the server did not act: anyone may try again
	unknown                // the request may have taken effect
)

func judge(response *http.Response, err error) verdict {
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
			return refused
		}
		return unknown
	}
	switch response.StatusCode {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return refused
	case http.StatusRequestTimeout, http.StatusInternalServerError,
		http.StatusBadGateway, http.StatusGatewayTimeout:
		return unknown
	}
	return settled
}

// withoutQuery keeps the address of the server in the error but not cursors.
func withoutQuery(err error) error {
	if failed, ok := errors.AsType[*url.Error](err); ok {
		failed.URL, _, _ = strings.Cut(failed.URL, "?")
	}
	return err
}
