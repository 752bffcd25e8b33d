package claude

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
)

// DirectConnection is a [Transport] to a session on a server: claude runs
// there. Give it to [QueryOver].
type DirectConnection struct {
	SessionID  string
	WorkDir    string // on the server, if it said
	SessionKey string // as the server returned it

	target    DirectConnectTarget
	opts      DirectConnectOptions
	socketURL string
	log       *slog.Logger
	ctx       context.Context // ends when this side closes
	cancel    context.CancelFunc

	mu      sync.Mutex
	socket  *websocket.Conn
	closing bool // this side closed first
	ended   chan struct{}
	endOnce sync.Once

	fragment []byte   // of a line whose newline has not come
	lines    [][]byte // complete ones that were not read yet
}

// DirectConnect creates a session on a server and opens its socket.
func DirectConnect(ctx context.Context, target DirectConnectTarget, opts *DirectConnectOptions) (*DirectConnection, error) {
	c := &DirectConnection{target: target, ended: make(chan struct{})}
	if opts != nil {
		c.opts = *opts
	}
	if c.log = c.opts.Logger; c.log == nil {
		c.log = slog.Default()
	}
	c.ctx, c.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := c.create(ctx); err != nil {
		c.cancel()
		return nil, err
	}
	if err := c.open(ctx); err != nil {
		c.cancel()
		if c.opts.DeleteSessionOnClose { // a session that nobody will use
			err = errors.Join(err, c.deleteSession())
		}
		return nil, err
	}
	return c, nil
}

func (c *DirectConnection) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, directOpenTimeout)
	defer cancel()
	header := make(http.Header)
	c.authorize(header)
	socket, resp, err := websocket.Dial(ctx, c.socketURL, &websocket.DialOptions{HTTPHeader: header, HTTPClient: c.opts.HTTPClient})
	if err != nil {
		failed := &DirectConnectError{Op: "open socket", Err: err}
		if resp != nil {
			failed.Status = resp.StatusCode
		}
		return failed
	}
	socket.SetReadLimit(MaxLineBytes)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		_ = socket.CloseNow()
		return &DirectConnectError{Op: "open socket", Err: ErrClosed}
	}
	c.socket = socket
	return nil
}

func (c *DirectConnection) current() *websocket.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.socket
}

// ReadLine implements [Transport]. Lines that are not JSON are logged and
// dropped; a line without its newline is not returned when the socket closes.
func (c *DirectConnection) ReadLine() ([]byte, error) {
	for {
		if len(c.lines) > 0 {
			line := c.lines[0]
			c.lines = c.lines[1:]
			return line, nil
		}
		_, message, err := c.current().Read(c.ctx)
		if err != nil {
			if err = c.broken(err); err != nil {
				c.endOnce.Do(func() { close(c.ended) })
				return nil, err
			}
			continue
		}
		c.split(message)
	}
}

func (c *DirectConnection) split(message []byte) {
	c.fragment = append(c.fragment, message...)
	for {
		line, rest, ok := bytes.Cut(c.fragment, []byte{'\n'})
		if !ok {
			return
		}
		c.fragment = rest
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if !gjson.ValidBytes(line) {
			c.log.Debug("direct connect: dropped a line that is not JSON", "session", c.SessionID, "bytes", len(line))
			continue
		}
		c.lines = append(c.lines, bytes.Clone(line))
	}
}

// broken decides what the end of a socket means: nil that there is a new one,
// io.EOF that the session is over.
func (c *DirectConnection) broken(err error) error {
	c.mu.Lock()
	closing := c.closing
	c.mu.Unlock()
	if closing || websocket.CloseStatus(err) == websocket.StatusNormalClosure {
		return io.EOF
	}
	c.fragment = nil
	for attempt := 1; c.opts.Reconnect != nil; attempt++ {
		wait, again := c.opts.Reconnect(attempt, err)
		if !again {
			break
		}
		select {
		case <-time.After(wait):
		case <-c.ctx.Done():
			return io.EOF
		}
		if openErr := c.open(c.ctx); openErr == nil {
			return nil
		} else if err = openErr; c.ctx.Err() != nil {
			return io.EOF
		}
	}
	var failed *DirectConnectError
	if errors.As(err, &failed) {
		return err
	}
	return &DirectConnectError{Op: "read", Err: err}
}

// WriteLine implements [Transport].
func (c *DirectConnection) WriteLine(line []byte) error {
	if err := c.current().Write(c.ctx, websocket.MessageText, append(line[:len(line):len(line)], '\n')); err != nil {
		return &DirectConnectError{Op: "write", Err: err}
	}
	return nil
}

// CloseInput implements [Transport]. A socket cannot close one way, so this
// closes the connection.
func (c *DirectConnection) CloseInput() error { return c.Close() }

// Close implements [Transport].
func (c *DirectConnection) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.ended: // the other side closed first
		return nil
	default:
	}
	if c.closing {
		return nil
	}
	c.closing = true
	go func(socket *websocket.Conn) {
		_ = socket.Close(websocket.StatusNormalClosure, "")
		c.cancel()
	}(c.socket)
	return nil
}

// Wait implements [Transport]. It deletes the session if that was asked for and
// this side closed the connection.
func (c *DirectConnection) Wait() error {
	<-c.ended
	c.mu.Lock()
	closing, socket := c.closing, c.socket
	c.mu.Unlock()
	_ = socket.CloseNow()
	c.cancel()
	if closing && c.opts.DeleteSessionOnClose {
		return c.deleteSession()
	}
	return nil
}

// QueryOver is [Query] over a transport of the caller's, which it owns from
// here on. Options about the process and about stores do not apply.
func QueryOver(ctx context.Context, transport Transport, prompt Prompt, opts *Options) *Stream {
	o := Options{}
	if opts != nil {
		o = *opts
	}
	s := newSession(ctx, &o, func(context.Context, *session) (Transport, error) { return transport, nil })
	s.begin(prompt)
	return newStream(s)
}
