package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// legacyVersion is the newest protocol version that starts with an initialize
// request. It is tried first because every server answers it, while a request
// before initialize, which 2026-07-28 starts with, ends some stdio servers.
const legacyVersion = "2025-11-25"

// probeTimeout is how long an unused connection may take to answer a ping.
const probeTimeout = 5 * time.Second

var errSlow = errors.New("no answer in time")

// conn is one connection: opening, open or ended. Its goroutine, run, owns it.
type conn struct {
	pool   *Pool
	key    key
	server Server

	ctx    context.Context // ends with the connection, its cause says why
	cancel context.CancelCauseFunc
	ready  chan struct{} // closed when sdk or err is set
	done   chan struct{} // closed when nothing of the connection is left
	sdk    *sdk.ClientSession
	tap    *tap
	err    error

	users int // guarded by pool.mu, as is idle
	idle  idleness
}

// link is a transport and what its tap must know of it.
type link struct {
	sdk.Transport
	// undelivered reports that an error of a write proves that the message did
	// not reach the server.
	undelivered func(error) bool
	// negotiated, if set, learns the protocol version before the next message.
	negotiated func(version string)
	// ended, if set, tells after the end how the server went and the last line it
	// wrote to standard error. The line is for the log alone: it may hold anything.
	ended func() (how, stderr string)
}

func newConn(p *Pool, k key) *conn {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &conn{
		pool: p, key: k, server: p.servers[k.server],
		ctx: ctx, cancel: cancel,
		ready: make(chan struct{}), done: make(chan struct{}),
	}
}

// end makes run close the connection. It does not wait.
func (c *conn) end(cause error) { c.cancel(cause) }

// run opens the connection, keeps it until somebody or the server ends it, and
// closes it.
func (c *conn) run() {
	defer close(c.done)
	defer c.end(errRetired) // frees the context
	log := c.pool.opts.Logger.With("mcp_server", c.server.Name, "session_id", c.key.session)

	link, err := c.open()
	if err != nil {
		c.pool.retire(c)
		c.err = err
		_, stderr := link.end()
		log.Warn("MCP server did not connect", "error", err, "stderr", stderr)
		close(c.ready)
		return
	}
	close(c.ready)

	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c.sdk.Wait()
	}()
	died := false
	select {
	case <-c.ctx.Done():
	case <-gone:
		died = true
	}
	c.pool.retire(c)
	if died {
		c.end(errGone)
	}
	// Calls that run end with the context: Close would wait for their answers.
	c.sdk.Close()
	<-gone
	if died {
		how, stderr := link.end()
		log.Warn("MCP server closed the connection", "how", how, "stderr", stderr)
	}
}

// open connects and initializes. The link is nil if there was none to try.
func (c *conn) open() (*link, error) {
	timer := time.AfterFunc(c.pool.opts.ConnectTimeout, func() { c.cancel(errSlow) })
	defer timer.Stop()

	l, err := c.connect(legacyVersion)
	if refusal(err) != nil && c.ctx.Err() == nil {
		if l2, err2 := c.connect(""); err2 == nil { // the newest the SDK has
			l, err = l2, nil
		}
	}
	if err == nil {
		return l, nil
	}
	switch cause := context.Cause(c.ctx); {
	case errors.Is(cause, errSlow):
		return l, fmt.Errorf("no answer within %s", c.pool.opts.ConnectTimeout)
	case cause != nil:
		return l, cause
	}
	return l, err
}

// connect makes one attempt with a protocol version. An error that is no
// refusal by the server is as short as [reason] makes it.
func (c *conn) connect(version string) (*link, error) {
	l, err := c.link()
	if err != nil {
		return nil, err
	}
	c.tap = newTap(l)
	c.sdk, err = c.pool.client.Connect(c.ctx, c.tap, &sdk.ClientSessionOptions{ProtocolVersion: version})
	if err == nil {
		if l.negotiated != nil {
			l.negotiated(c.sdk.InitializeResult().ProtocolVersion)
		}
		return l, nil
	}
	if refusal := refusal(err); refusal != nil {
		return l, refusal
	}
	if how, _ := l.end(); how != "" {
		return l, errors.New(how)
	}
	return l, errors.New(reason(err))
}

// end is ended for links that may have no process.
func (l *link) end() (how, stderr string) {
	if l == nil || l.ended == nil {
		return "", ""
	}
	return l.ended()
}

func (c *conn) link() (*link, error) {
	switch c.server.Transport {
	case "stdio":
		return stdioLink(c.server, &c.pool.opts), nil
	case "http", "sse":
		return httpLink(c.server, &c.pool.opts, c.pool.transport)
	default:
		return nil, fmt.Errorf("unknown transport %q; use stdio, http or sse", c.server.Transport)
	}
}

// bind makes a context that also ends with the connection.
func (c *conn) bind(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// answers reports whether the server still answers, as far as one can ask it:
// 2026-07-28 has no ping, and over HTTP no connection that could be stale.
func (c *conn) answers(ctx context.Context) bool {
	if c.sdk.InitializeResult().ProtocolVersion > legacyVersion {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	ctx, unbind := c.bind(ctx)
	defer unbind()
	err := c.sdk.Ping(ctx, nil)
	return err == nil || refusal(err) != nil // a server without ping lives as well
}

// call runs a tool and returns the raw result. The exchange tells, after an
// error, whether the request may have reached the server.
func (c *conn) call(ctx context.Context, tool string, input json.RawMessage) (*exchange, error) {
	ctx, unbind := c.bind(ctx)
	defer unbind()
	x := &exchange{reduce: reduceCall}
	params := &sdk.CallToolParams{Name: tool, Arguments: input}
	_, err := c.sdk.CallTool(withExchange(ctx, x), params)
	c.tap.forget(x)
	if r := refusal(err); r != nil && r.Code == sdk.CodeHeaderMismatch {
		// The tool wants some arguments as headers, which its listing names, and
		// this connection has not listed it yet. The server refused to run it.
		if _, err := c.list(ctx); err != nil {
			return x, err
		}
		x = &exchange{reduce: reduceCall}
		_, err = c.sdk.CallTool(withExchange(ctx, x), params)
		c.tap.forget(x)
	}
	if err != nil && c.ctx.Err() != nil && refusal(err) == nil {
		err = context.Cause(c.ctx)
	}
	return x, err
}
