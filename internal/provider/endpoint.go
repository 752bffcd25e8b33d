package provider

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lambae/lambae/internal/config"
)

const (
	maxAnswer     = 64 << 20 // bytes of an answer, streamed or whole
	maxErrorText  = 64 << 10 // bytes kept of an error's body
	maxDetailText = 300      // runes of it in an error's detail
)

// newHTTPClient returns the client all providers of a registry share.
//
// Compression stays off: inflating a 20 KB answer costs five times the work of
// reading it plain, and compressed event streams arrive in lumps. Redirects are
// not followed, since a request carries a key in headers that Go would hand to
// the new host.
func newHTTPClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			ForceAttemptHTTP2:   true,
			// A connection that died while a function was frozen must not hold a
			// turn up: pings find it.
			HTTP2:               &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second},
			MaxIdleConnsPerHost: 256,
			IdleConnTimeout:     90 * time.Second,
			WriteBufferSize:     64 << 10,
			ReadBufferSize:      32 << 10,
			DisableCompression:  true,
		},
	}
}

// endpoint is the address of one entry and how to authenticate there.
type endpoint struct {
	info    Info
	url     string
	token   string                                 // as configured, may be a reference
	auth    func(header http.Header, token string) // sets what the API wants; not called without a token
	resolve func(context.Context, string) (string, error)
	client  *http.Client
	now     func() time.Time
}

func newEndpoint(e config.Provider, info Info, path string, o Options, auth func(http.Header, string)) endpoint {
	return endpoint{
		info: info, url: strings.TrimRight(info.BaseURL, "/") + path, token: e.AuthToken,
		auth: auth, resolve: o.Resolve, client: o.HTTPClient, now: o.Now,
	}
}

// post sends the body and hands a 200 answer to read, which reads it to its end.
// Everything else is an error as [Provider].Call returns it.
func (e *endpoint) post(ctx context.Context, b body, read func(*http.Response) (*Response, error)) (*Response, error) {
	token, err := e.resolve(ctx, e.token)
	if err != nil {
		if ctx.Err() != nil {
			return nil, e.ended(ctx)
		}
		return nil, &Error{Detail: "auth_token: " + err.Error(), Config: true}
	}
	token = strings.TrimSpace(token) // secrets kept in files often end in a newline
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url, b.reader())
	if err != nil {
		return nil, &Error{Detail: "base_url: " + err.Error(), Config: true}
	}
	req.ContentLength = b.size
	req.GetBody = func() (io.ReadCloser, error) { return b.reader(), nil }
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "lambae")
	// With no value it is not sent; it tells net/http that the request may go out
	// again when a kept connection turns out to be dead.
	req.Header["Idempotency-Key"] = []string{}
	if token != "" {
		e.auth(req.Header, token)
	}

	resp, err := e.client.Do(req)
	if err != nil {
		return nil, e.broken(ctx, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, e.refused(ctx, resp, token)
	}
	return read(resp)
}

// readAll reads an answer that came whole.
func (e *endpoint) readAll(ctx context.Context, resp *http.Response) ([]byte, error) {
	var buf bytes.Buffer
	if size := resp.ContentLength; 0 < size && size <= 1<<20 {
		buf.Grow(int(size) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, e.brokeOff(ctx, resp.StatusCode, err)
	}
	if n > maxAnswer {
		return nil, &Error{Status: resp.StatusCode, Detail: fmt.Sprintf("the answer of %s is larger than %d MB", e.info.Name, maxAnswer>>20)}
	}
	return buf.Bytes(), nil
}

// refused is the error of an answer that is not 200. The token is taken out of
// its text, since some gateways repeat it.
func (e *endpoint) refused(ctx context.Context, resp *http.Response, token string) error {
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	if err != nil && ctx.Err() != nil {
		return e.ended(ctx)
	}
	text := strings.ToValidUTF8(string(raw), "\uFFFD")
	if len(token) >= 4 {
		text = strings.ReplaceAll(text, token, config.Mask)
	}
	return &Error{
		Status:     resp.StatusCode,
		Body:       &text,
		Detail:     httpDetail(e.info.Name, resp.StatusCode, text),
		Temporary:  temporary(resp.StatusCode),
		RetryAfter: retryAfter(resp.Header, e.now()),
	}
}

// bad is the error of a 200 answer that cannot be used.
func (e *endpoint) bad(status int, raw []byte, err error) error {
	text := strings.ToValidUTF8(string(raw[:min(len(raw), maxErrorText)]), "\uFFFD")
	return &Error{Status: status, Body: &text, Detail: fmt.Sprintf("unusable answer from %s: %v", e.info.Name, err)}
}

// brokeOff is the error of an answer that began and did not come to its end.
func (e *endpoint) brokeOff(ctx context.Context, status int, err error) error {
	if ctx.Err() != nil {
		return e.ended(ctx)
	}
	return &Error{Status: status, Detail: fmt.Sprintf("the answer of %s broke off: %v", e.info.Name, err), Temporary: true}
}

// broken is the error of a call that got no answer.
func (e *endpoint) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return e.ended(ctx)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	doing := "call"
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "dial" {
		doing, err = "connect to", op.Err
	}
	return &Error{Detail: fmt.Sprintf("%s %s: %v", doing, e.info.BaseURL, err), Temporary: true}
}

func (e *endpoint) ended(ctx context.Context) error {
	return fmt.Errorf("call %s: %w", e.info.Name, context.Cause(ctx))
}

// httpDetail is how a refused call reads in events.
func httpDetail(name string, status int, text string) string {
	detail := fmt.Sprintf("HTTP %d from %s", status, name)
	if text = strings.TrimSpace(text); text != "" {
		detail += ": " + firstRunes(text, maxDetailText)
	}
	return detail
}

func firstRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}
