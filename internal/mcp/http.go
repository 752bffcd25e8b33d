package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage bounds one message of a server, as the SDK does for SSE and stdio.
const maxMessage = 16 << 20

// errUnknownSession is an SSE server's refusal of a message for a session it
// does not know (any more).
var errUnknownSession = errors.New("the server does not know the connection any more")

// httpLink reaches a server over streamable HTTP or SSE. No stream is held open
// between calls: over streamable HTTP nothing but answers to them is of use.
func httpLink(s Server, opts *Options, base http.RoundTripper) (*link, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" {
		return nil, errors.New("url is not an http or https URL")
	}
	rt := &roundTripper{base: base, origin: u, headers: s.Headers, resolve: opts.Resolve, sse: s.Transport == "sse"}
	client := &http.Client{Transport: rt}
	l := &link{
		undelivered: rt.undelivered,
		negotiated:  func(version string) { rt.version.Store(&version) },
	}
	if rt.sse {
		l.Transport = &sdk.SSEClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage}
	} else {
		l.Transport = &sdk.StreamableClientTransport{
			Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxMessage, DisableStandaloneSSE: true,
		}
	}
	return l, nil
}

// roundTripper adds the configured headers, resolved for each request, and what
// the SDK leaves out because the tap hides its transport from it.
type roundTripper struct {
	base    http.RoundTripper
	origin  *url.URL
	headers map[string]string
	resolve func(context.Context, string) (string, error)
	sse     bool
	version atomic.Pointer[string]
}

// RoundTrip implements [http.RoundTripper].
func (rt *roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	// A redirect or an SSE endpoint may lead elsewhere; the secrets stay here.
	if req.URL.Scheme == rt.origin.Scheme && req.URL.Host == rt.origin.Host {
		for name, value := range rt.headers {
			value, err := rt.resolve(req.Context(), value)
			if err != nil {
				if req.Body != nil {
					req.Body.Close()
				}
				return nil, &unresolved{fmt.Errorf("header %s: %w", name, err)}
			}
			req.Header.Set(name, value)
		}
	}
	if v := rt.version.Load(); v != nil && req.Header.Get("Mcp-Protocol-Version") == "" {
		req.Header.Set("Mcp-Protocol-Version", *v)
	}

	resp, err := rt.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if rt.sse && req.Method == http.MethodPost && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone) {
		resp.Body.Close()
		return nil, errUnknownSession
	}
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != "text/event-stream" {
		resp.Body = &limitedBody{ReadCloser: resp.Body, left: maxMessage}
	}
	return resp, nil
}

// limitedBody fails once more than left bytes were read.
type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, errors.New("the answer is larger than 16 MB")
	}
	return n, err
}

// unresolved is a header whose ${…} could not be resolved.
type unresolved struct{ error }

func (e *unresolved) Unwrap() error { return e.error }

// undelivered: no connection was made, the request was never complete, or the
// server refused it because it has no such session.
func (rt *roundTripper) undelivered(err error) bool {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return true
	}
	if rt.sse && errors.Is(err, io.EOF) {
		var request *url.Error // without one, the stream had ended before the POST
		return !errors.As(err, &request)
	}
	header := new(unresolved)
	return errors.Is(err, sdk.ErrSessionMissing) || errors.Is(err, errUnknownSession) || errors.As(err, &header)
}
