package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpBridge carries MCP messages between claude's control protocol and the
// servers in this program. Claude is the client.
type mcpBridge struct {
	servers map[string]*LocalMCPServer
	// send writes a message of a server to claude.
	send func(ctx context.Context, server string, message json.RawMessage) error

	mu     sync.Mutex
	conns  map[string]*mcpConn
	closed bool
}

func newMCPBridge(servers map[string]MCPServer, send func(context.Context, string, json.RawMessage) error) *mcpBridge {
	b := &mcpBridge{servers: make(map[string]*LocalMCPServer), conns: make(map[string]*mcpConn), send: send}
	b.replace(servers)
	return b
}

// replace changes the set of servers; sessions of those that are gone close.
func (b *mcpBridge) replace(servers map[string]MCPServer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	clear(b.servers)
	for name, server := range servers {
		if local, ok := server.(*LocalMCPServer); ok {
			b.servers[name] = local
		}
	}
	for name, conn := range b.conns {
		if b.servers[name] != conn.server {
			conn.close()
			delete(b.conns, name)
		}
	}
}

// begin delivers one message from claude. It never blocks, so that calling it
// as messages arrive keeps their order. The returned function waits for the
// server's answer.
func (b *mcpBridge) begin(server string, raw json.RawMessage) (func(context.Context) (json.RawMessage, error), error) {
	message, err := jsonrpc.DecodeMessage(raw)
	if err != nil {
		return nil, fmt.Errorf("decode MCP message for %q: %w", server, err)
	}
	request, isRequest := message.(*jsonrpc.Request)
	conn, err := b.conn(server, isRequest && request.Method == "initialize")
	if err != nil {
		return nil, err
	}
	if isRequest && request.IsCall() {
		return conn.call(request), nil
	}
	conn.deliver(message)
	return func(context.Context) (json.RawMessage, error) {
		// A notification has no answer of its own, but a control request must
		// have one.
		return json.RawMessage(`{"jsonrpc":"2.0","result":{},"id":0}`), nil
	}, nil
}

// conn returns the session with a server; a client that initialises again
// gets a new one.
func (b *mcpBridge) conn(name string, fresh bool) (*mcpConn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrClosed
	}
	server, ok := b.servers[name]
	if !ok {
		return nil, fmt.Errorf("no MCP server %q in this program; name it in Options.MCPServers", name)
	}
	conn := b.conns[name]
	if conn != nil && fresh && conn.used() {
		conn.close()
		conn = nil
	}
	if conn == nil {
		ctx, cancel := context.WithCancel(context.Background())
		conn = &mcpConn{
			name: name, server: server, bridge: b, cancel: cancel, done: ctx.Done(),
			ready: make(chan struct{}, 1), waiting: make(map[any]chan *jsonrpc.Response),
		}
		if _, err := server.MCP().Connect(ctx, conn, nil); err != nil {
			cancel()
			return nil, fmt.Errorf("connect to MCP server %q: %w", name, err)
		}
		b.conns[name] = conn
	}
	return conn, nil
}

// close ends the sessions of all servers; the servers themselves live on.
func (b *mcpBridge) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	for name, conn := range b.conns {
		conn.close()
		delete(b.conns, name)
	}
}

// mcpConn is one session of a server: a transport of the MCP SDK whose other
// end is the control protocol.
type mcpConn struct {
	name   string
	server *LocalMCPServer
	bridge *mcpBridge
	cancel context.CancelFunc
	done   <-chan struct{}
	ready  chan struct{} // holds a token while queue may have something

	mu      sync.Mutex
	queue   []jsonrpc.Message // from claude, in order
	waiting map[any]chan *jsonrpc.Response
	began   bool
}

func (c *mcpConn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c *mcpConn) SessionID() string { return "" }

func (c *mcpConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		c.mu.Lock()
		if len(c.queue) > 0 {
			m := c.queue[0]
			c.queue = c.queue[1:]
			c.mu.Unlock()
			return m, nil
		}
		c.mu.Unlock()
		select {
		case <-c.ready:
		case <-c.done:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *mcpConn) Write(ctx context.Context, message jsonrpc.Message) error {
	if response, ok := message.(*jsonrpc.Response); ok {
		c.mu.Lock()
		waiter := c.waiting[response.ID.Raw()]
		c.mu.Unlock()
		if waiter != nil {
			waiter <- response // buffered for the one response a call has
		}
		return nil
	}
	raw, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return fmt.Errorf("encode message of MCP server %q: %w", c.name, err)
	}
	return c.bridge.send(ctx, c.name, raw)
}

func (c *mcpConn) Close() error {
	c.cancel()
	return nil
}

func (c *mcpConn) close() { c.cancel() }

func (c *mcpConn) used() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.began
}

func (c *mcpConn) deliver(message jsonrpc.Message) {
	c.mu.Lock()
	c.began = true
	c.queue = append(c.queue, message)
	c.mu.Unlock()
	select {
	case c.ready <- struct{}{}:
	default:
	}
}

func (c *mcpConn) call(request *jsonrpc.Request) func(context.Context) (json.RawMessage, error) {
	id, waiter := request.ID.Raw(), make(chan *jsonrpc.Response, 1)
	c.mu.Lock()
	c.waiting[id] = waiter
	c.mu.Unlock()
	c.deliver(request)
	return func(ctx context.Context) (json.RawMessage, error) {
		defer func() {
			c.mu.Lock()
			delete(c.waiting, id)
			c.mu.Unlock()
		}()
		select {
		case response := <-waiter:
			return jsonrpc.EncodeMessage(response)
		case <-c.done:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
