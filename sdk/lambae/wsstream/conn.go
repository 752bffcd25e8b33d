package wsstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/lambae/lambae/sdk/lambae"
)

// maxMessage is the longest message that is read: servers send 128 KB at most.
const maxMessage = 1 << 20

// errSilent ends a connection whose server does not even answer a ping.
var errSilent = errors.New("the connection was silent for too long")

// errMalformed is a message that is not what the protocol sends.
var errMalformed = errors.New("malformed message")

// conn is one WebSocket.
type conn struct {
	ws     *websocket.Conn
	ctx    context.Context
	cancel context.CancelCauseFunc
	heard  chan struct{}
	busy   atomic.Bool // nobody reads: the silence is ours
}

func dial(ctx context.Context, s *subscription) (*conn, error) {
	url := strings.ReplaceAll(s.url, "{session_id}", s.session.ID)
	ws, response, err := websocket.Dial(ctx, url, &websocket.DialOptions{
		HTTPClient: s.opts.HTTPClient,
		HTTPHeader: http.Header{"Authorization": {"Bearer " + s.session.Key}},
	})
	if err != nil {
		if response != nil && response.StatusCode >= 400 {
			return nil, lambae.ReadAPIError(response)
		}
		return nil, fmt.Errorf("connect to %s: %w", url, err)
	}
	ws.SetReadLimit(maxMessage)
	c := &conn{ws: ws, heard: make(chan struct{}, 1)}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	go c.keepAlive(s.opts.IdleTimeout)
	return c, nil
}

func (c *conn) close() {
	c.cancel(nil)
	_ = c.ws.CloseNow()
}

func (c *conn) subscribe(since string) error {
	params := map[string]string{}
	if since != "" {
		params["since_event_id"] = since
	}
	return c.send(map[string]any{"jsonrpc": "2.0", "id": "subscribe", "method": "session.subscribe", "params": params})
}

func (c *conn) send(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		err = c.ws.Write(c.ctx, websocket.MessageText, b)
	}
	return c.explain(err)
}

// keepAlive asks for a sign of life when half of the time is over in which none
// came. At a gateway the question also sends what is due.
func (c *conn) keepAlive(idle time.Duration) {
	limited := idle > 0
	if !limited {
		idle = lambae.DefaultIdleTimeout
	}
	t := time.NewTimer(idle / 2)
	defer t.Stop()
	asked := false
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.heard:
			asked = false
		case <-t.C:
			switch {
			case c.busy.Load():
			case asked && limited:
				c.cancel(errSilent)
				return
			default:
				asked = true
				_ = c.send(map[string]any{"jsonrpc": "2.0", "id": "ping", "method": "session.ping"}) // a failure shows when reading
			}
		}
		t.Reset(idle / 2)
	}
}

// pause says that nobody reads until resume is called.
func (c *conn) pause() (resume func()) {
	c.busy.Store(true)
	return func() {
		c.hear()
		c.busy.Store(false)
	}
}

func (c *conn) hear() {
	select {
	case c.heard <- struct{}{}:
	default:
	}
}

// message is a message of the server.
type message struct {
	Method string           `json:"method"`
	Params json.RawMessage  `json:"params"`
	Error  *lambae.RPCError `json:"error"`
}

func (c *conn) next() (*message, error) {
	_, b, err := c.ws.Read(c.ctx)
	if err != nil {
		return nil, c.explain(err)
	}
	c.hear()
	m := new(message)
	if err := json.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("%w: %w: %.80q", errMalformed, err, b)
	}
	return m, nil
}

// explain replaces the cancellation that silence caused by its reason.
func (c *conn) explain(err error) error {
	if err != nil && errors.Is(context.Cause(c.ctx), errSilent) {
		return errSilent
	}
	return err
}

func (m *message) event() (lambae.Event, error) {
	var event lambae.Event
	if err := json.Unmarshal(m.Params, &event); err != nil {
		return event, fmt.Errorf("%w: %w: %.80q", errMalformed, err, m.Params)
	}
	return event, nil
}

// omitted reports whether the event came without its payload.
func (m *message) omitted() bool {
	var v struct {
		Omitted bool `json:"payload_omitted"`
	}
	return json.Unmarshal(m.Params, &v) == nil && v.Omitted
}

// ended is the outcome of a subscription that the server ended.
func (m *message) ended() error {
	var v struct {
		Reason string `json:"reason"`
	}
	_ = json.Unmarshal(m.Params, &v) // the reason matters only where it is known
	if v.Reason == "key_revoked" {
		return &lambae.APIError{Type: lambae.TypeUnauthorized, Title: http.StatusText(http.StatusUnauthorized), Status: http.StatusUnauthorized, Detail: "the client key was revoked"}
	}
	return nil
}
