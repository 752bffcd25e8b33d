package lambaetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
)

// turn is one call of session.sendMessage; the server's lock guards it. It runs
// on when its caller is gone.
type turn struct {
	message  lambae.Message
	stream   bool
	lines    [][]byte       // notifications so far
	events   []lambae.Event // all events so far
	result   any            // or refused, once done
	refused  *lambae.RPCError
	done     bool
	keyID    string
	answered []lambae.Block   // a paused turn's server-side results
	open     []lambae.ToolUse // and the calls that wait for the client
}

// paused reports whether t holds the gate and waits for its client.
func (t *turn) paused() bool { return t.done && len(t.open) > 0 }

// sendMessage puts a turn into the queue.
func (s *Server) sendMessage(c *rpcRequest) (*turn, *lambae.RPCError) {
	if refused := c.driver(); refused != nil {
		return nil, refused
	}
	if refused := c.open(); refused != nil {
		return nil, refused
	}
	name := c.ses.ID + " " + c.key.secret + " " + c.idempotencyKey
	if first := s.answers[name]; first != nil && c.idempotencyKey != "" {
		if !bytes.Equal(first.body, c.body) {
			return nil, &lambae.RPCError{Code: lambae.CodeSession, Message: "idempotency_mismatch: the key was used with another body"}
		}
		return first.turn, nil
	}
	var params struct {
		Message *lambae.Message `json:"message"`
		Stream  bool            `json:"stream"`
	}
	if err := json.Unmarshal(c.Params, &params); err != nil || params.Message == nil {
		return nil, invalidParams(`missing "message"`)
	}
	t := &turn{message: *params.Message, stream: params.Stream, keyID: c.key.ID}
	if resumes := len(c.ses.queue) > 0 && c.ses.queue[0].paused() && c.ses.queue[0].keyID == t.keyID; resumes {
		if detail := c.ses.queue[0].resume(t); detail != "" {
			return nil, s.spoil(c, detail)
		}
		c.ses.queue[0] = t
	} else if hasResults(t.message) {
		return nil, invalidParams("no paused turn awaits a tool_result")
	} else {
		c.ses.queue = append(c.ses.queue, t)
	}
	if c.idempotencyKey != "" {
		s.answers[name] = &stored{body: c.body, turn: t}
	}
	go s.run(c.ses, t)
	return t, nil
}

func hasResults(message lambae.Message) bool {
	return slices.ContainsFunc(message.Content.Blocks(), func(block lambae.Block) bool { return block.Type() == lambae.BlockToolResult })
}

// spoil ends a session whose tool exchange cannot be completed.
func (s *Server) spoil(c *rpcRequest, detail string) *lambae.RPCError {
	s.record(c.ses, c.key.ID, lambae.EventSessionError, map[string]string{"reason": lambae.ReasonToolResultMergeInvalid, "detail": detail})
	now := s.now()
	c.ses.State, c.ses.ClosedAt = admin.StateError, &now
	return &lambae.RPCError{Code: lambae.CodeSession, Message: "tool result merge invalid: " + detail}
}

// resume merges what the paused turn p still needs into the message of next,
// and says what is missing.
func (p *turn) resume(next *turn) (detail string) {
	given := map[string]lambae.Block{}
	rest := []lambae.Block{}
	for _, block := range next.message.Content.Blocks() {
		if result, ok := block.ToolResult(); ok {
			given[result.ToolUseID] = block
		} else {
			rest = append(rest, block)
		}
	}
	merged := slices.Clone(p.answered)
	for _, call := range p.open {
		block, ok := given[call.ID]
		switch {
		case !ok && len(given) > 0:
			return "no result for " + call.ID
		case !ok:
			block = lambae.ToolResultBlock(lambae.ToolResult{
				ToolUseID: call.ID, IsError: true, Content: lambae.Text("Client tool call was abandoned before returning a result."),
			})
		}
		merged = append(merged, block)
	}
	next.message.Content = lambae.Blocks(append(merged, rest...)...)
	return ""
}

// follow writes what happens in a turn until it is done.
func (s *Server) follow(out *answer, c *rpcRequest, t *turn) {
	stop := context.AfterFunc(c.ctx, s.wake)
	defer stop()
	for sent := 0; ; {
		s.mu.Lock()
		for sent == len(t.lines) && !t.done && c.ctx.Err() == nil && !s.closed {
			s.changed.Wait()
		}
		lines, done, closed := t.lines[sent:], t.done, s.closed
		s.mu.Unlock()
		if closed {
			panic(http.ErrAbortHandler)
		}
		for _, line := range lines {
			if !out.line(slices.Clone(line)) {
				return
			}
		}
		sent += len(lines)
		switch {
		case len(lines) > 0:
		case done:
			out.line(c.reply(t.result, t.refused))
			return
		default:
			return // the caller is gone
		}
	}
}

// maxRoundTrips is how often one turn may ask the model.
const maxRoundTrips = 8

// run takes a turn from its place in the queue to its end or its pause.
func (s *Server) run(ses *session, t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for ses.queue[0] != t && ses.State == admin.StateOpen && !s.closed {
		s.changed.Wait()
	}
	defer s.changed.Broadcast()
	defer func() {
		t.done = true
		if !t.paused() {
			ses.queue = slices.DeleteFunc(ses.queue, func(queued *turn) bool { return queued == t })
		}
	}()
	if ses.State != admin.StateOpen || s.closed {
		t.refused = &lambae.RPCError{Code: lambae.CodeSession, Message: "session is " + ses.State + ", not open"}
		return
	}
	s.say(ses, t, t.message)
	for range maxRoundTrips {
		blocks, err := s.ask(ses, t)
		if ses.State != admin.StateOpen {
			t.refused = &lambae.RPCError{Code: lambae.CodeSession, Message: "session is " + ses.State + ", not open"}
			return
		}
		if err != nil {
			s.note(ses, t, lambae.EventSessionError, map[string]string{"reason": lambae.ReasonProviderCallFailed, "provider": "mock", "detail": err.Error()})
			s.fail(ses, t, lambae.ReasonAllProvidersFailed)
			return
		}
		blocks = s.runTools(ses, t, blocks)
		ses.history = append(ses.history, lambae.Message{Role: lambae.RoleAssistant, Content: lambae.Blocks(blocks...)})
		if len(t.open) == 0 && len(t.answered) > 0 {
			ses.history = append(ses.history, lambae.Message{Role: lambae.RoleUser, Content: lambae.Blocks(t.answered...)})
			t.answered = nil
			continue
		}
		message := ses.history[len(ses.history)-1]
		s.note(ses, t, lambae.EventServerMessage, message)
		t.result = map[string]any{"message": message, "events": t.events}
		return
	}
	s.fail(ses, t, lambae.ReasonLoopLimit)
}

// say records the user's side; none of it is shown to the sender live.
func (s *Server) say(ses *session, t *turn, message lambae.Message) {
	ses.history = append(ses.history, message)
	t.events = append(t.events, s.record(ses, t.keyID, lambae.EventClientMessage, message))
	for _, block := range message.Content.Blocks() {
		if result, ok := block.ToolResult(); ok {
			payload := lambae.ToolResultPayload{ToolResult: result, Dispatch: lambae.DispatchClient}
			t.events = append(t.events, s.record(ses, t.keyID, lambae.EventToolResult, payload))
		}
	}
}

// ask is one provider round trip. The lock is free while the model thinks.
func (s *Server) ask(ses *session, t *turn) ([]lambae.Block, error) {
	question := Turn{slices.Clone(ses.history), slices.Concat(ses.declared[t.keyID].Tools, ses.declared[t.keyID].SandboxTools)}
	s.note(ses, t, lambae.EventProviderRequest, map[string]any{
		"attempt": 0, "kind": "primary", "provider": "mock", "base_url": "http://model.invalid", "model": "mock", "max_tokens": 4096,
		"messages": question.Messages, "tools": question.Tools,
	})
	s.mu.Unlock()
	blocks, err := s.options.Model(question)
	s.mu.Lock()
	if ses.State != admin.StateOpen {
		return nil, err
	}
	response := map[string]any{"attempt": 0, "kind": "primary", "provider": "mock", "ok": err == nil, "status": http.StatusOK}
	if err != nil {
		response["status"], response["error"], response["body"] = http.StatusInternalServerError, err.Error(), nil
	} else {
		s.spell(ses, t, blocks)
		response["body"] = map[string]any{"type": "message", "role": lambae.RoleAssistant, "content": blocks}
	}
	s.note(ses, t, lambae.EventProviderResponse, response)
	return blocks, err
}

// spell sends the texts word by word to whoever asked for that.
func (s *Server) spell(ses *session, t *turn, blocks []lambae.Block) {
	if !t.stream {
		return
	}
	for index, block := range blocks {
		for _, word := range strings.SplitAfter(block.Text(), " ") {
			t.lines = append(t.lines, notification("session.delta", lambae.Delta{
				SessionID: ses.ID, Index: index, Type: lambae.DeltaText, Text: word,
			}))
		}
	}
	s.changed.Broadcast()
}

// runTools runs the server's tools and says of each call who runs it.
func (s *Server) runTools(ses *session, t *turn, blocks []lambae.Block) []lambae.Block {
	tagged := make([]lambae.Block, 0, len(blocks))
	for _, block := range blocks {
		call, ok := block.ToolUse()
		if !ok {
			tagged = append(tagged, block)
			continue
		}
		call.Dispatch = lambae.DispatchMCP
		if slices.Contains(names(ses.declared[t.keyID].Tools), call.Name) {
			call.Dispatch = lambae.DispatchClient
			t.open = append(t.open, call)
		}
		payload := lambae.ToolCallPayload{ToolUse: call}
		if call.Dispatch == lambae.DispatchMCP && s.options.ServerTools[call.Name] != nil {
			payload.ServerName = new("test")
		}
		s.note(ses, t, lambae.EventToolCall, payload)
		if call.Dispatch == lambae.DispatchMCP {
			t.answered = append(t.answered, s.runTool(ses, t, call))
		}
		tagged = append(tagged, toolUseBlock(call))
	}
	return tagged
}

func (s *Server) runTool(ses *session, t *turn, call lambae.ToolUse) lambae.Block {
	result := lambae.ToolResult{ToolUseID: call.ID, IsError: true,
		Content: lambae.Blocks(lambae.TextBlock("no MCP server is configured for tool '" + call.Name + "'"))}
	if tool := s.options.ServerTools[call.Name]; tool != nil {
		text := tool(call.Input)
		s.note(ses, t, lambae.EventMCPRequest, lambae.MCPRequestPayload{Method: "tools/call", ServerName: "test", Tool: call.Name, Input: call.Input})
		s.note(ses, t, lambae.EventMCPResponse, lambae.MCPResponsePayload{ServerName: "test", OK: true, Result: encode(text)})
		result.Content, result.IsError = lambae.Blocks(lambae.TextBlock(text)), false
	}
	s.note(ses, t, lambae.EventToolResult, lambae.ToolResultPayload{ToolResult: result, Dispatch: call.Dispatch})
	return lambae.ToolResultBlock(result)
}

// note records an event of the turn and shows it to its caller.
func (s *Server) note(ses *session, t *turn, kind lambae.EventType, payload any) {
	event := s.record(ses, t.keyID, kind, payload)
	t.events = append(t.events, event)
	t.lines = append(t.lines, notification("session.event", event))
}

// fail ends the turn and the session with it.
func (s *Server) fail(ses *session, t *turn, reason string) {
	s.note(ses, t, lambae.EventSessionError, map[string]string{"reason": reason})
	now := s.now()
	ses.State, ses.ClosedAt = admin.StateError, &now
	apology := lambae.Message{Role: lambae.RoleAssistant, Content: lambae.Blocks(lambae.TextBlock("The provider is currently unavailable."))}
	t.result = map[string]any{"message": apology, "events": t.events}
}

// ToolUse is a block with which a model calls a tool.
func ToolUse(id, name, input string) lambae.Block {
	return toolUseBlock(lambae.ToolUse{ID: id, Name: name, Input: json.RawMessage(input)})
}

func toolUseBlock(call lambae.ToolUse) lambae.Block {
	raw := fmt.Sprintf(`{"type":"tool_use","id":%s,"name":%s,"input":%s`, encode(call.ID), encode(call.Name), call.Input)
	if call.Dispatch != "" {
		raw += fmt.Sprintf(`,"dispatch":%q`, call.Dispatch)
	}
	block, err := lambae.RawBlock([]byte(raw + "}"))
	if err != nil {
		panic(fmt.Sprintf("lambaetest: input of %s is not JSON: %v", call.Name, err))
	}
	return block
}
