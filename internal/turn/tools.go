package turn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lambae/lambae/internal/jsonfield"
	"github.com/lambae/lambae/internal/mcp"
	"github.com/lambae/lambae/internal/session"
)

// advertise returns the tools the model is shown for a client (protocol, "The
// turn", step 4) and who runs each. The first that has a name runs it.
func advertise(s *session.State, key string) (json.RawMessage, map[string]route) {
	routes := map[string]route{}
	var adverts []json.RawMessage
	add := func(tools []session.Tool, dispatch string) {
		for _, t := range tools {
			if t.Name == session.ReservedToolName {
				continue // an MCP server's; the name is ours
			}
			adverts = append(adverts, t.Advert)
			if _, taken := routes[t.Name]; !taken {
				routes[t.Name] = route{dispatch: dispatch, server: t.Server}
			}
		}
	}
	if c := s.Clients[key]; c != nil {
		add(c.Tools, session.DispatchClient)
		add(c.Sandbox, session.DispatchSandbox)
		add(c.Subagent, session.DispatchSubagent)
	}
	add(s.MCP, session.DispatchMCP)
	if len(s.Subagents) > 0 {
		adverts = append(adverts, json.RawMessage(statusTool))
	}
	return array(adverts), routes
}

// toolCall is a tool_use block of the model's answer.
type toolCall struct {
	raw   json.RawMessage
	id    string
	name  string
	input json.RawMessage
}

func toolCalls(content json.RawMessage) (calls []toolCall) {
	if len(content) == 0 || content[0] != '[' || !bytes.Contains(content, []byte("tool_use")) {
		return nil
	}
	for _, raw := range session.Blocks(content) {
		if b := parseBlock(raw); b.Type == "tool_use" {
			if len(b.Input) == 0 {
				b.Input = json.RawMessage("{}")
			}
			calls = append(calls, toolCall{raw: raw, id: b.ID, name: b.Name, input: session.CompactJSON(b.Input)})
		}
	}
	return calls
}

// route of a call: what was advertised with the request it answers. A name that
// nobody declared goes to MCP, where it fails with a result that says so.
func (r *run) route(name string) route {
	if to, ok := r.asked.routes[name]; ok {
		return to
	}
	if name == session.ReservedToolName {
		return route{dispatch: session.DispatchSubagent}
	}
	return route{dispatch: session.DispatchMCP}
}

// effect is one server-side tool call: what is recorded before it, how it is
// run, and what is recorded of it.
type effect struct {
	// before decides what is recorded, on the state it is appended to; it may be nil.
	before func(s *session.State) []session.Entry
	run    func() (after []session.Entry, err error)
}

// dispatch records an answer that calls tools, runs those the server runs, in
// block order, and goes on with the next round trip, or pauses for the client.
func (r *run) dispatch(answer session.Entry, content json.RawMessage, calls []toolCall) (*session.Chunk, error) {
	message, paused := r.tagged(content, calls)
	entries := []session.Entry{answer, {Type: session.MarkStep, Key: r.call.Key, Payload: message}}
	var effects []effect
	for _, c := range calls {
		to := r.route(c.name)
		entries = append(entries, r.callEvent(c, to))
		if to.dispatch != session.DispatchClient {
			effects = append(effects, r.effect(c, to))
		}
	}
	for _, f := range effects {
		c, err := r.append(func(s *session.State) (session.Draft, error) {
			d := session.Draft{Entries: clip(entries)}
			if f.before != nil {
				d.Entries = append(d.Entries, f.before(s)...)
			}
			return d, nil
		})
		if err != nil {
			return nil, err
		}
		if c != nil { // what precedes may be recorded already
			if err := r.emit(c); err != nil {
				return nil, err
			}
		}
		if entries, err = f.run(); err != nil {
			return nil, err
		}
	}
	return r.append(func(s *session.State) (session.Draft, error) {
		d := session.Draft{Entries: clip(entries)}
		if !paused {
			r.ask(s, &d)
			return d, nil
		}
		r.message = message
		d.Entries = append(d.Entries,
			session.Entry{Type: session.ServerMessageSend, Key: r.call.Key}, // the message of the step, see [session.Entry]
			session.Entry{Type: session.MarkPause, Key: r.call.Key, Wall: r.engine.now().UnixMilli()})
		return d, nil
	})
}

// clip keeps a decision that runs twice from appending to the same array.
func clip(e []session.Entry) []session.Entry { return e[:len(e):len(e)] }

// tagged is the assistant message as the history keeps it. When the client has
// to run a tool, every tool_use says who runs it.
func (r *run) tagged(content json.RawMessage, calls []toolCall) (message json.RawMessage, paused bool) {
	for _, c := range calls {
		paused = paused || r.route(c.name).dispatch == session.DispatchClient
	}
	if !paused {
		return session.NewMessage("assistant", session.CompactJSON(content)), false
	}
	blocks := session.Blocks(content)
	for i, raw := range blocks {
		blocks[i] = session.CompactJSON(raw)
		if b := parseBlock(raw); b.Type == "tool_use" {
			blocks[i] = tag(blocks[i], r.route(b.Name).dispatch)
		}
	}
	return session.NewMessage("assistant", array(blocks)), true
}

func (r *run) callEvent(c toolCall, to route) session.Entry {
	payload := fmt.Appendf(nil, `{"id":%s,"name":%s,"input":%s,"dispatch":"%s"`, session.Quote(c.id), session.Quote(c.name), c.input, to.dispatch)
	if to.dispatch == session.DispatchMCP {
		payload = fmt.Appendf(payload, `,"server_name":%s`, nullable(to.server))
	}
	return session.Entry{Type: session.ToolCall, Key: r.call.Key, Payload: append(payload, '}')}
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func nullable(s string) json.RawMessage {
	if s == "" {
		return json.RawMessage("null")
	}
	return session.Quote(s)
}

func (r *run) effect(c toolCall, to route) effect {
	switch to.dispatch {
	case session.DispatchSandbox:
		return r.sandboxEffect(c)
	case session.DispatchSubagent:
		return r.subagentEffect(c)
	}
	return r.mcpEffect(c, to.server)
}

// event is an event of the call's driver.
func (r *run) event(kind string, payload []byte) session.Entry {
	return session.Entry{Type: kind, Key: r.call.Key, Payload: payload}
}

// toolResult is the tool.result event of a server-side call. extra are further
// members, each with a leading comma.
func (r *run) toolResult(c toolCall, dispatch, extra string, isError bool, content json.RawMessage) session.Entry {
	return r.event(session.ToolResult, fmt.Appendf(nil, `{"tool_use_id":%s,"dispatch":"%s"%s,"is_error":%t,"content":%s}`,
		session.Quote(c.id), dispatch, extra, isError, content))
}

func (r *run) mcpEffect(c toolCall, server string) effect {
	name := nullable(server)
	request := r.event(session.MCPRequest, fmt.Appendf(nil, `{"method":"tools/call","server_name":%s,"tool":%s,"input":%s}`, name, session.Quote(c.name), c.input))
	return effect{
		before: func(*session.State) []session.Entry { return []session.Entry{request} },
		run: func() ([]session.Entry, error) {
			res, err := r.callMCP(c, server)
			extra := `,"server_name":` + string(name)
			if err != nil {
				return []session.Entry{
					r.event(session.MCPResponse, fmt.Appendf(nil, `{"server_name":%s,"ok":false,"error":%s}`, name, session.Quote(err.Error()))),
					r.toolResult(c, session.DispatchMCP, extra, true, text("MCP error: "+err.Error())),
				}, nil
			}
			return []session.Entry{
				r.event(session.MCPResponse, fmt.Appendf(nil, `{"server_name":%s,"ok":%t,"result":%s}`, name, !res.IsError, session.CompactJSON(res.Raw))),
				r.toolResult(c, session.DispatchMCP, extra, res.IsError, session.CompactJSON(mcp.ModelBlocks(res.Content))),
			}, nil
		},
	}
}

func (r *run) callMCP(c toolCall, server string) (mcp.Result, error) {
	if server == "" {
		return mcp.Result{}, fmt.Errorf("no MCP server is configured for tool '%s'", c.name)
	}
	if r.engine.MCP == nil {
		return mcp.Result{}, errors.New("this server has no MCP connections")
	}
	ctx, span := r.engine.Telemetry.Tool(r.ctx, c.name, session.DispatchMCP)
	res, err := r.engine.MCP.Call(ctx, r.call.Log.ID, server, c.name, c.input)
	if err == nil && jsonfield.Depth(res.Raw) > jsonfield.MaxDepth {
		err = errTooDeep
	}
	reason := ""
	if err != nil || res.IsError {
		reason = "tool_error"
	}
	span.End(ctx, reason)
	return res, err
}
