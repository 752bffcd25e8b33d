package lambae

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// Options tune a [Client]. The zero value is good for most.
type Options struct {
	// HTTPClient sends the requests; default [http.DefaultClient]. Its Timeout
	// must be zero: answers stream for as long as a turn or a subscription lasts.
	HTTPClient *http.Client
	// Retries is how often a request is tried again when that is safe; 0 means
	// 3, negative none. A subscription that once stood comes back without limit.
	Retries int
	// Backoff is the wait before retry number attempt, counted from 0; default
	// doubles from 100 ms to 10 s, with jitter.
	Backoff func(attempt int) time.Duration
	// NoIdempotencyKeys leaves the Idempotency-Key header out, for servers that
	// do not know it.
	NoIdempotencyKeys bool
	// UserAgent names the program in the server's logs.
	UserAgent string
}

// Client talks to one server with one client key. It is safe for concurrent use.
type Client struct {
	rest       *rest.Client
	idempotent bool
}

// New makes a client of the server at baseURL, such as http://127.0.0.1:8080.
// The client key (bae_…) opens and joins sessions; it may be empty for a client
// that only comes back to sessions by their own keys. A nil opts is all defaults.
func New(baseURL, clientKey string, opts *Options) (*Client, error) {
	if opts == nil {
		opts = &Options{}
	}
	sender, err := rest.New(rest.Config{
		BaseURL: baseURL, Key: clientKey, HTTPClient: opts.HTTPClient,
		Retries: opts.Retries, Backoff: opts.Backoff, UserAgent: opts.UserAgent,
	})
	if err != nil {
		return nil, fmt.Errorf("lambae: %w", err)
	}
	return &Client{sender, !opts.NoIdempotencyKeys}, nil
}

// Meta is the server's version.
type Meta struct {
	Version     string   `json:"version"`
	APIVersions []string `json:"api_versions"`
	// WebSocketURL is where sessions can be followed over a WebSocket, "" where
	// they cannot; "{session_id}" in it stands for the session. Package wsstream
	// takes it.
	WebSocketURL string `json:"websocket_url"`
}

// Healthz returns nil if the server is up. It needs no key.
func (c *Client) Healthz(ctx context.Context) error {
	if err := c.getJSON(ctx, "", "/healthz", nil, nil); err != nil {
		return fmt.Errorf("check health: %w", err)
	}
	return nil
}

// Meta asks for the server's version. It needs no key.
func (c *Client) Meta(ctx context.Context) (*Meta, error) {
	meta := new(Meta)
	if err := c.getJSON(ctx, "", "/api/v1/meta", nil, meta); err != nil {
		return nil, fmt.Errorf("read server version: %w", err)
	}
	return meta, nil
}

func (c *Client) getJSON(ctx context.Context, key, path string, query url.Values, answer any) error {
	_, err := c.doJSON(ctx, rest.Request{Method: http.MethodGet, Path: path, Query: query, Key: key, Repeatable: true}, answer)
	return err
}

// doJSON sends r and reads a JSON answer, unless answer is nil.
func (c *Client) doJSON(ctx context.Context, r rest.Request, answer any) (unsure bool, err error) {
	r.Accept = "application/json"
	response, err := c.rest.Do(ctx, r)
	if err != nil {
		return false, err
	}
	if response.StatusCode/100 != 2 {
		return response.Unsure, ReadAPIError(response.Response)
	}
	if answer == nil {
		return response.Unsure, nil
	}
	if err := json.NewDecoder(response.Body).Decode(answer); err != nil {
		return response.Unsure, fmt.Errorf("read the answer: %w", err)
	}
	return response.Unsure, nil
}

// sessionPath is the path of a session's resource. Ids come from the network
// and from people, so that one with a slash in it must not reach another path.
func sessionPath(id, resource string) (string, error) {
	if id == "" || strings.ContainsFunc(id, func(r rune) bool {
		return !(r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z')
	}) {
		return "", fmt.Errorf("lambae: %q is not a session id (ses_ and 32 hex characters)", id)
	}
	return "/api/v1/sessions/" + id + resource, nil
}

var errNoSessionKey = errors.New("lambae: a session key is needed (bae_ses_…), as Open and Join return it")
