package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Tool is a tool as its server lists it. InputSchema is the server's JSON, byte
// for byte, or the schema of an object when it gave none.
type Tool struct {
	Server, Name, Description string
	InputSchema               json.RawMessage
}

// List connects to servers for a session, all at a time, and returns their tools:
// servers in the order given, tools as listed, all pages. A server that is not in
// the configuration, or fails to connect and list within ConnectTimeout, is
// logged and skipped. When two tools have one name the later stays and the clash
// is logged (admin-and-config, "MCP").
func (p *Pool) List(ctx context.Context, session string, servers []string) []Tool {
	log := p.opts.Logger.With("session_id", session)
	lists := make([][]Tool, len(servers))
	var wg sync.WaitGroup
	for i, name := range servers {
		if slices.Contains(servers[:i], name) {
			continue
		}
		wg.Go(func() {
			tools, err := p.list(ctx, key{session, name})
			if err != nil {
				log.Error("MCP server skipped", "mcp_server", name, "error", err)
			}
			lists[i] = tools
		})
	}
	wg.Wait()

	all := slices.Concat(lists...)
	last := make(map[string]int, len(all))
	for i, t := range all {
		if earlier, ok := last[t.Name]; ok {
			log.Warn("MCP tools have the same name; the later one stays", "tool", t.Name,
				"mcp_server", t.Server, "dropped", all[earlier].Server)
		}
		last[t.Name] = i
	}
	tools := make([]Tool, 0, len(last))
	for i, t := range all {
		if last[t.Name] == i {
			tools = append(tools, t)
		}
	}
	return tools
}

func (p *Pool) list(ctx context.Context, k key) ([]Tool, error) {
	if _, ok := p.servers[k.server]; !ok {
		return nil, errors.New("not in the configuration")
	}
	slow := fmt.Errorf("no answer within %s", p.opts.ConnectTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.ConnectTimeout, slow)
	defer cancel()
	c, _, err := p.acquire(ctx, k)
	if err == nil {
		defer p.put(c)
		var tools []Tool
		if tools, err = c.list(ctx); err == nil {
			return tools, nil
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, errors.New(reason(err))
}

// list reads all pages of tools/list.
func (c *conn) list(ctx context.Context) ([]Tool, error) {
	ctx, unbind := c.bind(ctx)
	defer unbind()
	tools := []Tool{}
	cursors := map[string]bool{}
	for cursor := ""; ; {
		page, next, err := c.page(ctx, cursor)
		if err != nil {
			return nil, err
		}
		tools = append(tools, page...)
		if next == "" {
			return tools, nil
		}
		if cursors[next] {
			return nil, errors.New("the server's list of tools has no end: a cursor came twice")
		}
		cursors[next] = true
		cursor = next
	}
}

func (c *conn) page(ctx context.Context, cursor string) (tools []Tool, next string, err error) {
	x := &exchange{}
	if c.sdk.InitializeResult().ProtocolVersion <= legacyVersion {
		x.reduce = reduceList
	}
	listed, err := c.sdk.ListTools(withExchange(ctx, x), &sdk.ListToolsParams{Cursor: cursor})
	c.tap.forget(x)
	if err != nil {
		return nil, "", err
	}
	raw := x.raw
	if raw == nil { // from the SDK's cache, which newer servers may ask it to keep
		if raw, err = json.Marshal(listed); err != nil {
			return nil, "", err
		}
	}
	var r struct {
		Tools []struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			InputSchema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
		NextCursor string `json:"nextCursor"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return nil, "", fmt.Errorf("the server's list of tools is malformed: %w", err)
	}
	for _, t := range r.Tools {
		if t.Name == "" || x.reduce == nil && !slices.ContainsFunc(listed.Tools, func(l *sdk.Tool) bool { return l.Name == t.Name }) {
			continue // nameless, or refused by the SDK for its header annotations
		}
		if len(t.InputSchema) == 0 || isNull(t.InputSchema) {
			t.InputSchema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		tools = append(tools, Tool{c.server.Name, t.Name, t.Description, t.InputSchema})
	}
	return tools, r.NextCursor, nil
}

// reduceList leaves the SDK nothing to decode of a list that only 2026-07-28
// servers annotate for it.
func reduceList(json.RawMessage) json.RawMessage { return json.RawMessage(`{"tools":[]}`) }
