// Package admin is a client of lambae's admin API: profiles, client keys, the
// sessions of everybody, and what the server is configured with.
//
// Errors of the server are [*lambae.APIError] values.
package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// Options tune a [Client]; they mean what they mean in [lambae.Options].
type Options struct {
	HTTPClient *http.Client
	Retries    int
	Backoff    func(attempt int) time.Duration
	UserAgent  string
}

// Client talks to one server's admin port. It is safe for concurrent use.
type Client struct{ rest *rest.Client }

// New makes a client of the admin API at baseURL, such as
// http://127.0.0.1:8081. On AWS the key is empty and HTTPClient signs requests.
func New(baseURL, adminKey string, opts *Options) (*Client, error) {
	if opts == nil {
		opts = &Options{}
	}
	sender, err := rest.New(rest.Config{
		BaseURL: baseURL, Key: adminKey, HTTPClient: opts.HTTPClient,
		Retries: opts.Retries, Backoff: opts.Backoff, UserAgent: opts.UserAgent,
	})
	if err != nil {
		return nil, fmt.Errorf("admin: %w", err)
	}
	return &Client{sender}, nil
}

// ask sends a request and reads its JSON answer.
func ask[T any](ctx context.Context, c *Client, doing string, r rest.Request, body any) (*T, error) {
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		r.Body = encoded
	}
	response, err := c.do(ctx, doing, r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var raw json.RawMessage
	if err := json.NewDecoder(response.Body).Decode(&raw); err != nil {
		return nil, fmt.Errorf("%s: read the answer: %w", doing, err)
	}
	answer, err := decode[T](raw)
	if err != nil {
		return nil, fmt.Errorf("%s: read the answer: %w", doing, err)
	}
	return answer, nil
}

// remove deletes what is at path.
func (c *Client) remove(ctx context.Context, doing, path string) error {
	response, err := c.do(ctx, doing, rest.Request{Method: http.MethodDelete, Path: path})
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// do sends a request and returns its answer if it is a success. Creating is the
// only thing that must not happen twice.
func (c *Client) do(ctx context.Context, doing string, r rest.Request) (*rest.Response, error) {
	r.Path, r.Accept = "/admin/v1/"+r.Path, "application/json"
	r.Repeatable = r.Method != http.MethodPost
	response, err := c.rest.Do(ctx, r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	if response.StatusCode/100 == 2 {
		return response, nil
	}
	problem := lambae.ReadAPIError(response.Response)
	if r.Method == http.MethodDelete && response.Unsure && problem.Type == lambae.TypeNotFound {
		return response, nil // an earlier try of this very call got through
	}
	return nil, fmt.Errorf("%s: %w", doing, problem)
}

// get reads what is at path.
func get[T any](ctx context.Context, c *Client, doing, path string, query url.Values) (*T, error) {
	return ask[T](ctx, c, doing, rest.Request{Method: http.MethodGet, Path: path, Query: query}, nil)
}

// maxPage is the largest page a server gives.
const maxPage = 200

// page reads one page of a list.
func page[T any](ctx context.Context, c *Client, doing, path string, query url.Values) (*lambae.Page[T], error) {
	raw, err := get[lambae.Page[json.RawMessage]](ctx, c, doing, path, query)
	if err != nil {
		return nil, err
	}
	out := &lambae.Page[T]{Items: make([]T, 0, len(raw.Items)), NextCursor: raw.NextCursor}
	for i, item := range raw.Items {
		v, err := decode[T](item)
		if err != nil {
			return nil, fmt.Errorf("%s: read item %d: %w", doing, i, err)
		}
		out.Items = append(out.Items, *v)
	}
	return out, nil
}

// pages yields the items of all pages of a list.
func pages[T any](read func(cursor string, limit int) (*lambae.Page[T], error)) iter.Seq2[T, error] {
	return lambae.Pages(func(cursor string) (*lambae.Page[T], error) { return read(cursor, maxPage) })
}

// at is the path of one item of a list.
func at(list, id string) string { return list + "/" + url.PathEscape(id) }
