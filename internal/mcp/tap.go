package mcp

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// exchange is one request and its answer as they pass the transport. It travels
// to the tap in the context of the request.
type exchange struct {
	// reduce makes the result that the SDK decodes out of the raw one, so that a
	// block type it does not know cannot fail the call. Nil keeps it.
	reduce func(raw json.RawMessage) json.RawMessage
	raw    json.RawMessage // the result; set when the request succeeded
	id     jsonrpc.ID      // of the last request
	sent   atomic.Bool     // it may have reached the server
	heard  atomic.Bool     // it was answered at least once
}

type exchangeKey struct{}

func withExchange(ctx context.Context, x *exchange) context.Context {
	return context.WithValue(ctx, exchangeKey{}, x)
}

// tap is a connection that keeps the raw results of exchanges, and knows which
// requests were handed to the transport.
type tap struct {
	link *link
	sdk.Connection

	mu         sync.Mutex
	open       map[jsonrpc.ID]*exchange
	initialize jsonrpc.ID
}

func newTap(l *link) *tap { return &tap{link: l, open: map[jsonrpc.ID]*exchange{}} }

// Connect implements [sdk.Transport]; it is called once.
func (t *tap) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.link.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.Connection = c
	return t, nil
}

// Write implements [sdk.Connection].
func (t *tap) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, ok := msg.(*jsonrpc.Request)
	if !ok || !req.IsCall() {
		return t.Connection.Write(ctx, msg)
	}
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	t.mu.Lock()
	if req.Method == "initialize" {
		t.initialize = req.ID
	}
	if ok {
		x.id = req.ID
		t.open[req.ID] = x
	}
	t.mu.Unlock()
	if !ok {
		return t.Connection.Write(ctx, msg)
	}

	x.sent.Store(true)
	err := t.Connection.Write(ctx, msg)
	if err != nil && t.link.undelivered(err) {
		x.sent.Store(x.heard.Load())
	}
	return err
}

// Read implements [sdk.Connection].
func (t *tap) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := t.Connection.Read(ctx)
	resp, ok := msg.(*jsonrpc.Response)
	if err != nil || !ok {
		return msg, err
	}
	t.mu.Lock()
	x := t.open[resp.ID]
	delete(t.open, resp.ID)
	initialized := t.initialize.IsValid() && t.initialize == resp.ID
	t.mu.Unlock()

	if initialized && t.link.negotiated != nil && resp.Error == nil {
		var result struct {
			ProtocolVersion string `json:"protocolVersion"`
		}
		if json.Unmarshal(resp.Result, &result) == nil {
			t.link.negotiated(result.ProtocolVersion)
		}
	}
	if x == nil {
		return msg, nil
	}
	x.heard.Store(true)
	x.raw = resp.Result
	if x.reduce == nil || resp.Error != nil {
		return msg, nil
	}
	reduced := *resp
	reduced.Result = x.reduce(resp.Result)
	return &reduced, nil
}

// forget drops what a request left that was given up before its answer.
func (t *tap) forget(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.open, x.id)
}
