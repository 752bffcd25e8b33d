package claude

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// controlRequest and controlResponse are the envelopes of the control
// protocol, the same in both directions.
type controlRequest struct {
	Type      string          `json:"type"`
	RequestID string          `json:"request_id"`
	Request   json.RawMessage `json:"request"`
}

type controlResponse struct {
	Type     string `json:"type"`
	Response struct {
		Subtype   string          `json:"subtype"`
		RequestID string          `json:"request_id"`
		Response  json.RawMessage `json:"response,omitempty"`
		Error     string          `json:"error,omitempty"`
		ErrorCode string          `json:"error_code,omitempty"`
	} `json:"response"`
}

// controller keeps track of control requests in both directions.
type controller struct {
	write func(line []byte) error

	mu      sync.Mutex
	next    int
	pending map[string]chan controlResponse    // ours, by request id
	serving map[string]context.CancelCauseFunc // claude's, by request id
	closed  error
}

func newController(write func([]byte) error) *controller {
	return &controller{
		write: write, pending: make(map[string]chan controlResponse), serving: make(map[string]context.CancelCauseFunc),
	}
}

// call sends a request and waits for its response. When ctx ends first the
// request is withdrawn.
func (c *controller) call(ctx context.Context, request any) (json.RawMessage, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode control request: %w", err)
	}
	var kind struct{ Subtype string }
	_ = json.Unmarshal(body, &kind)

	answer := make(chan controlResponse, 1)
	c.mu.Lock()
	if c.closed != nil {
		c.mu.Unlock()
		return nil, c.closed
	}
	c.next++
	id := "req_" + strconv.Itoa(c.next)
	c.pending[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()

	line, err := json.Marshal(controlRequest{Type: "control_request", RequestID: id, Request: body})
	if err != nil {
		return nil, fmt.Errorf("encode control request: %w", err)
	}
	if err := c.write(line); err != nil {
		return nil, fmt.Errorf("send %s: %w", kind.Subtype, err)
	}
	select {
	case r, ok := <-answer:
		if !ok {
			return nil, fmt.Errorf("%s was not answered: %w", kind.Subtype, c.reason())
		}
		if r.Response.Subtype != "success" {
			return nil, &ControlError{Subtype: kind.Subtype, Message: r.Response.Error, Code: r.Response.ErrorCode}
		}
		return r.Response.Response, nil
	case <-ctx.Done():
		withdraw, _ := json.Marshal(map[string]string{"type": "control_cancel_request", "request_id": id})
		_ = c.write(withdraw)
		return nil, fmt.Errorf("%s: %w", kind.Subtype, context.Cause(ctx))
	}
}

func (c *controller) reason() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// errEnded is why nothing is answered any more when claude ended by itself.
var errEnded = fmt.Errorf("claude has ended; set Options.Stderr to see what it printed: %w", ErrClosed)

// answered hands a response of claude to the call that waits for it.
func (c *controller) answered(line []byte) {
	var r controlResponse
	if json.Unmarshal(line, &r) != nil {
		return
	}
	c.mu.Lock()
	answer := c.pending[r.Response.RequestID]
	delete(c.pending, r.Response.RequestID)
	c.mu.Unlock()
	if answer != nil {
		answer <- r
	}
}

// serve registers a request of claude, so that claude can withdraw it. The
// returned function forgets it again.
func (c *controller) serve(ctx context.Context, id string) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		cancel(c.closed)
	}
	c.serving[id] = cancel
	return ctx, func() {
		cancel(nil)
		c.mu.Lock()
		delete(c.serving, id)
		c.mu.Unlock()
	}
}

var errWithdrawn = errors.New("claude withdrew the request")

// withdrawn ends the context of a request that claude no longer wants answered.
func (c *controller) withdrawn(line []byte) {
	var r struct {
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(line, &r) != nil {
		return
	}
	c.mu.Lock()
	cancel := c.serving[r.RequestID]
	c.mu.Unlock()
	if cancel != nil {
		cancel(errWithdrawn)
	}
}

// respond answers a request of claude.
func (c *controller) respond(id string, body any, failure error) error {
	var r controlResponse
	r.Type, r.Response.RequestID, r.Response.Subtype = "control_response", id, "success"
	if failure == nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			failure = fmt.Errorf("encode answer: %w", err)
		}
		r.Response.Response = encoded
	}
	if failure != nil {
		r.Response.Subtype, r.Response.Response, r.Response.Error = "error", nil, failure.Error()
		var unsupported *unsupportedError
		if errors.As(failure, &unsupported) {
			r.Response.ErrorCode = "unsupported_request"
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode control response: %w", err)
	}
	return c.write(line)
}

// close rejects everything that waits, now and later.
func (c *controller) close(reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return
	}
	c.closed = reason
	for id, answer := range c.pending {
		close(answer)
		delete(c.pending, id)
	}
	for _, cancel := range c.serving {
		cancel(reason)
	}
}

// unsupportedError refuses a request of a kind this package does not know.
type unsupportedError struct{ subtype string }

func (e *unsupportedError) Error() string {
	return "unsupported control request: " + e.subtype
}
