package mcp

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Server says how to reach one MCP server (admin-and-config, [[mcp.servers]]).
// A config.MCPServer converts to it.
type Server struct {
	Name      string
	Transport string // stdio | http (streamable) | sse
	Command   string
	Args      []string          // may hold ${…}
	Env       map[string]string // values may hold ${…}
	URL       string            // http and sse
	Headers   map[string]string // values may hold ${…}
}

// Options tune a [Pool]. Zero values take the defaults named.
type Options struct {
	// Resolve replaces ${…} in arguments, environment and headers at the moment
	// of use. Nil uses the strings as they are.
	Resolve func(ctx context.Context, s string) (string, error)
	// Logger gets what is skipped and why, and at debug level what stdio servers
	// write to standard error. Nil logs nothing.
	Logger *slog.Logger
	// Environ is what stdio servers inherit a part of, see [Pool.Call]. Nil is
	// the environment of this process.
	Environ []string
	// Version is told to servers as the client's.
	Version string

	ConnectTimeout time.Duration // to connect and, in List, to list; 30 s
	CallTimeout    time.Duration // of one call; 5 min
	IdleTimeout    time.Duration // after which an unused connection ends; 10 min
	ProbeAfter     time.Duration // without use, a connection is pinged before a call; 1 min
	MaxIdle        int           // unused connections beyond it end, oldest first; 128
}

// Pool holds the connections of all sessions. It is safe for concurrent use.
type Pool struct {
	servers   map[string]Server
	opts      Options
	client    *sdk.Client
	transport *http.Transport

	mu     sync.Mutex
	conns  map[key]*conn
	closed bool
	wg     sync.WaitGroup // goroutines of connections
}

// key names a connection.
type key struct{ session, server string }

// Why connections end. Calls that run then report the text.
var (
	errReleased = errors.New("the session ended")
	errClosed   = errors.New("this process is shutting down")
	errUnused   = errors.New("the connection was not used for long")
	errGone     = errors.New("the server closed the connection")
	errRetired  = errors.New("the connection was given up")
)

// NewPool returns a pool over the servers of the configuration, whose names are
// distinct. It connects to none yet. opts may be nil.
func NewPool(servers []Server, opts *Options) *Pool {
	p := &Pool{
		servers:   make(map[string]Server, len(servers)),
		conns:     map[key]*conn{},
		transport: http.DefaultTransport.(*http.Transport).Clone(),
	}
	if opts != nil {
		p.opts = *opts
	}
	p.opts.fill()
	for _, s := range servers {
		p.servers[s.Name] = s
	}
	// A server that asks for roots, sampling or input from a person is told that
	// this client has none, which the empty capabilities announce.
	p.client = sdk.NewClient(
		&sdk.Implementation{Name: "lambae", Version: p.opts.Version},
		&sdk.ClientOptions{Capabilities: &sdk.ClientCapabilities{}, Logger: p.opts.Logger},
	)
	return p
}

func (o *Options) fill() {
	if o.Resolve == nil {
		o.Resolve = func(_ context.Context, s string) (string, error) { return s, nil }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Version == "" {
		o.Version = "0"
	}
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&o.ConnectTimeout, 30 * time.Second},
		{&o.CallTimeout, 5 * time.Minute},
		{&o.IdleTimeout, 10 * time.Minute},
		{&o.ProbeAfter, time.Minute},
	} {
		if *d.value <= 0 {
			*d.value = d.standard
		}
	}
	if o.MaxIdle <= 0 {
		o.MaxIdle = 128
	}
}

// Release ends the connections of a session, and with them its stdio servers'
// process groups. Calls that still run fail. It returns when all have ended,
// which takes a few seconds at most: a stdio server is asked to stop first.
func (p *Pool) Release(session string) {
	p.end(errReleased, func(k key) bool { return k.session == session })
}

// Close ends every connection; later calls fail. It waits as [Pool.Release] does.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.end(errClosed, func(key) bool { return true })
	p.wg.Wait()
	p.transport.CloseIdleConnections()
	return nil
}

// end closes the connections that match and waits until they are gone.
func (p *Pool) end(cause error, match func(key) bool) {
	var ending []*conn
	p.mu.Lock()
	for k, c := range p.conns {
		if match(k) {
			p.forget(c)
			ending = append(ending, c)
		}
	}
	p.mu.Unlock()
	for _, c := range ending {
		c.end(cause)
	}
	for _, c := range ending {
		<-c.done
	}
}

// acquire returns an open connection, which the caller gives back with put. A
// connection that is being opened is shared; it goes on opening when ctx ends,
// for the others who wait and for the next. Stale is one that nobody used for
// ProbeAfter.
func (p *Pool) acquire(ctx context.Context, k key) (c *conn, stale bool, err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, false, errClosed
	}
	c = p.conns[k]
	if c == nil {
		c = newConn(p, k)
		p.conns[k] = c
		p.wg.Go(c.run)
	}
	stale = c.users == 0 && !c.idle.since.IsZero() && time.Since(c.idle.since) > p.opts.ProbeAfter
	c.users++
	c.idle.stop()
	p.mu.Unlock()

	select {
	case <-c.ready:
	case <-ctx.Done():
		p.put(c)
		return nil, false, ctx.Err()
	}
	if c.err != nil {
		p.put(c)
		return nil, false, c.err
	}
	return c, stale, nil
}

// put gives a connection back. The last user starts its idle time, or ends it
// if it was retired meanwhile.
func (p *Pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c.users--
	if c.users > 0 {
		return
	}
	if p.conns[c.key] != c {
		c.end(errRetired)
		return
	}
	c.idle.start(p.opts.IdleTimeout, func() { p.expire(c) })
	p.trim()
}

// retire makes the next call open a new connection. This one ends with its last
// user, whose call may yet be answered.
func (p *Pool) retire(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forget(c)
}

// forget takes a connection out of the pool. The caller holds the lock.
func (p *Pool) forget(c *conn) {
	if p.conns[c.key] == c {
		delete(p.conns, c.key)
		c.idle.stop()
	}
}

func (p *Pool) expire(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c.users == 0 && p.conns[c.key] == c {
		p.forget(c)
		c.end(errUnused)
	}
}

// trim ends the longest unused connections beyond MaxIdle. The caller holds the
// lock.
func (p *Pool) trim() {
	for {
		var oldest *conn
		idle := 0
		for _, c := range p.conns {
			if c.users > 0 {
				continue
			}
			idle++
			if oldest == nil || c.idle.since.Before(oldest.idle.since) {
				oldest = c
			}
		}
		if idle <= p.opts.MaxIdle {
			return
		}
		p.forget(oldest)
		oldest.end(errUnused)
	}
}

// idleness is the time since a connection's last use. The pool's lock guards it.
type idleness struct {
	since time.Time
	timer *time.Timer
}

func (i *idleness) start(d time.Duration, expire func()) {
	i.since = time.Now()
	i.timer = time.AfterFunc(d, expire)
}

func (i *idleness) stop() {
	if i.timer != nil {
		i.timer.Stop()
	}
}
