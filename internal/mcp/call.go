package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
)

// errCallTimeout is why a call ends that took longer than CallTimeout.
var errCallTimeout = errors.New("call timed out")

// Call runs a tool of a server for a session (tools/call). It opens the
// connection when there is none or it died, and then sends; a call that may have
// reached the server is never sent twice. A tool that fails is a [Result] with
// IsError. An error says in a few words, for the model and for people, why there
// is no result; the protocol shows it after "MCP error: ".
//
// A stdio server runs with a few variables of this process's environment (PATH,
// HOME and the like, never keys) and the env of its own entry.
func (p *Pool) Call(ctx context.Context, session, server, tool string, input json.RawMessage) (Result, error) {
	if _, ok := p.servers[server]; !ok {
		return Result{}, fmt.Errorf("MCP server %q is not in the configuration", server)
	}
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.CallTimeout, errCallTimeout)
	defer cancel()

	k := key{session, server}
	for attempt := 1; ; attempt++ {
		c, stale, err := p.acquire(ctx, k)
		if err != nil {
			return Result{}, p.explain(ctx, server, "cannot connect to", err)
		}
		if stale && attempt == 1 && !c.answers(ctx) {
			p.retire(c)
			p.put(c)
			continue
		}
		x, err := c.call(ctx, tool, input)
		again := err != nil && !x.sent.Load() && ctx.Err() == nil
		if again {
			p.retire(c)
		}
		p.put(c)
		if err == nil {
			return newResult(x.raw)
		}
		if !again || attempt > 1 || errors.Is(err, errReleased) || errors.Is(err, errClosed) {
			return Result{}, p.explain(ctx, server, "no result from", err)
		}
	}
}
