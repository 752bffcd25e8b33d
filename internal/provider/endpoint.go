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
	"os"
	"strings"
	"time"

	"github.com/lambae/lambae/internal/config"
)

// newHTTPClient returns the client all providers of a registry share.
//
// Compression stays off: an exchange with a 20 KB answer was measured at twice
// the CPU time with gzip, and compressed event streams arrive in lumps.
// Redirects are not followed, since a request carries a key in headers that Go
// would hand to the new host.
func newHTTPClient() *http.Client {
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout: 10 * time.Second,
			// The longest answers take minutes to begin when they are not streamed. One
			// that never begins must not hold the gate for ever.
			ResponseHeaderTimeout: 10 * time.Minute,
			ForceAttemptHTTP2:     true,
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

// endpoint is the address of one entry, how to authenticate there, and how what
// it answers is read.
type endpoint struct {
	info    Info
	url     string
	header  http.Header // besides what auth sets
	token   string      // as configured, may be a reference
	resolve func(context.Context, string) (string, error)
	auth    func(header http.Header, token string) // not called without a token
	stream  func(onDelta func(Delta)) assembly
	answer  answerFunc
	retries int
	retrier retrier
	client  *http.Client
	limit   int64 // bytes of an answer
}

// newEndpoint leaves url, auth, stream and answer to the format.
func newEndpoint(e config.Provider, info Info, o Options) *endpoint {
	header := http.Header{"Content-Type": {"application/json"}, "User-Agent": {"lambae"}}
	// With no value it is not sent; it tells net/http that the request may go out
	// again when a kept connection turns out to be dead.
	header["Idempotency-Key"] = []string{}
	return &endpoint{
		info: info, header: header, token: e.AuthToken, resolve: o.Resolve,
		retries: e.MaxRetries, retrier: o.retrier(), client: o.HTTPClient, limit: maxAnswer,
	}
}

// path returns the URL of a path under the base URL, which may end in a slash.
func (e *endpoint) path(p string) string { return strings.TrimRight(e.info.BaseURL, "/") + p }

// Info implements [Provider].
func (e *endpoint) Info() Info { return e.info }

// call makes one attempt with all its retries.
func (e *endpoint) call(ctx context.Context, b body, onDelta func(Delta)) (*Response, error) {
	return e.retrier.do(ctx, e.retries, func() (*Response, error) { return e.post(ctx, b, onDelta) })
}

// post sends the body once and reads the answer. Errors are as [Provider].Call
// returns them.
func (e *endpoint) post(ctx context.Context, b body, onDelta func(Delta)) (*Response, error) {
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
	req.Header = e.header.Clone()
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
	if isEventStream(resp) {
		return e.readStream(ctx, resp, onDelta)
	}
	return e.readWhole(ctx, resp, onDelta)
}

func (e *endpoint) readStream(ctx context.Context, resp *http.Response, onDelta func(Delta)) (*Response, error) {
	s := e.stream(onDelta)
	err := readEvents(resp.Body, e.limit, s.event)
	if errors.Is(err, errStop) {
		drain(resp.Body)
	}
	return finish(ctx, e.info.Name, resp.StatusCode, s, e.answer, err)
}

func (e *endpoint) readWhole(ctx context.Context, resp *http.Response, onDelta func(Delta)) (*Response, error) {
	raw, err := e.readAll(ctx, resp)
	if err != nil {
		return nil, err
	}
	answer, err := usable(e.info.Name, resp.StatusCode, raw, e.answer)
	if err != nil {
		return nil, err
	}
	(&speaker{onDelta: onDelta}).sayWhole(answer.Content)
	return answer, nil
}

func (e *endpoint) readAll(ctx context.Context, resp *http.Response) ([]byte, error) {
	var buf bytes.Buffer
	if size := resp.ContentLength; 0 < size && size <= 1<<20 {
		buf.Grow(int(size) + bytes.MinRead)
	}
	n, err := buf.ReadFrom(io.LimitReader(resp.Body, e.limit+1))
	if err != nil && ctx.Err() != nil {
		return nil, e.ended(ctx)
	}
	if err != nil {
		return nil, &Error{Status: resp.StatusCode, Detail: fmt.Sprintf("the answer of %s broke off: %v", e.info.Name, err), Temporary: true}
	}
	if n > e.limit {
		return nil, &Error{Status: resp.StatusCode, Detail: fmt.Sprintf("the answer of %s is larger than %d MB", e.info.Name, e.limit>>20)}
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
		RetryAfter: retryAfter(resp.Header, e.retrier.now()),
	}
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
		var call *os.SyscallError
		if errors.As(err, &call) {
			err = call.Err
		}
	}
	return &Error{Detail: fmt.Sprintf("%s %s: %v", doing, e.info.BaseURL, err), Temporary: true}
}

func (e *endpoint) ended(ctx context.Context) error {
	return fmt.Errorf("call %s: %w", e.info.Name, context.Cause(ctx))
}
