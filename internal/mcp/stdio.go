package mcp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// stdioLink starts a server as a child process and speaks over its standard
// input and output.
func stdioLink(s Server, opts *Options) *link {
	t := &stdioTransport{server: s, opts: opts}
	return &link{
		Transport: t,
		// A message ends with a newline, the last byte written: after an error the
		// server has an incomplete line at most.
		undelivered: func(error) bool { return true },
		ended:       t.ended,
	}
}

// stdioTransport is the SDK's for a pair of pipes, with a process of our own: the
// SDK's would wait long for a stubborn server and leave its children running.
type stdioTransport struct {
	server  Server
	opts    *Options
	process *process
}

// Connect implements [sdk.Transport].
func (t *stdioTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	cmd, err := t.command(ctx)
	if err != nil {
		return nil, err
	}
	log := t.opts.Logger.With("mcp_server", t.server.Name)
	if t.process, err = startProcess(cmd, log); err != nil {
		return nil, err
	}
	pipes := &sdk.IOTransport{Reader: io.NopCloser(t.process.stdout), Writer: t.process, MaxLineLength: maxMessage}
	conn, err := pipes.Connect(ctx)
	if err != nil {
		t.process.Close()
		return nil, err
	}
	return &stdioConn{Connection: conn, process: t.process, writing: make(chan struct{}, 1)}, nil
}

func (t *stdioTransport) command(ctx context.Context) (*exec.Cmd, error) {
	args := make([]string, len(t.server.Args))
	for i, a := range t.server.Args {
		v, err := t.opts.Resolve(ctx, a)
		if err != nil {
			return nil, fmt.Errorf("argument %d: %w", i+1, err)
		}
		args[i] = v
	}
	own := make(map[string]string, len(t.server.Env))
	for name, value := range t.server.Env {
		v, err := t.opts.Resolve(ctx, value)
		if err != nil {
			return nil, fmt.Errorf("env %s: %w", name, err)
		}
		own[name] = v
	}
	cmd := exec.Command(t.server.Command, args...)
	cmd.Env = childEnv(t.opts.Environ, own)
	return cmd, nil
}

func (t *stdioTransport) ended() (how, stderr string) {
	if t.process == nil {
		return "", ""
	}
	return t.process.ended()
}

// stdioConn lets a context end a write. A server that does not read fills the
// pipe, and the SDK's write then waits for it whatever its context says.
type stdioConn struct {
	sdk.Connection
	process *process
	writing chan struct{} // held by the one who writes
}

// Write implements [sdk.Connection].
func (c *stdioConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(interrupted)
		c.process.stdin.SetWriteDeadline(time.Unix(1, 0))
	})
	err := c.Connection.Write(ctx, msg)
	if stop() {
		return err
	}
	<-interrupted
	if err == nil { // it came too late
		return c.process.stdin.SetWriteDeadline(time.Time{})
	}
	// Half a line is in the pipe and nobody can take it back.
	go c.process.Close()
	return err
}

// logStderr forwards a server's standard error to the debug log, up to limits of
// one line and of all, and keeps reading beyond them: a server must not block on
// a full pipe.
func logStderr(r io.Reader, log *slog.Logger) (last string) {
	const maxLine, maxTotal = 4 << 10, 256 << 10
	total := 0
	for line := range lines(r, maxLine) {
		last = line
		if total > maxTotal {
			continue
		}
		if total += len(line); total > maxTotal {
			log.Debug("MCP server writes much to stderr; the rest is dropped")
			continue
		}
		log.Debug("MCP server stderr", "line", line)
	}
	return last
}
