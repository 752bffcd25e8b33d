package lambaetest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/admin"
)

// rpcRequest is one JSON-RPC call on its way through the server.
type rpcRequest struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`

	body           []byte
	idempotencyKey string
	ctx            context.Context
	ses            *session
	key            *clientKey
}

func (s *Server) rpc(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	ses, key, refusal := s.authenticate(r)
	s.mu.Unlock()
	if refusal != "" {
		status, answer := problem(http.StatusUnauthorized, lambae.TypeUnauthorized, refusal)
		s.respond(w, r.Pattern, status, answer)
		return
	}
	call := &rpcRequest{ctx: r.Context(), ses: ses, key: key, idempotencyKey: r.Header.Get("Idempotency-Key")}
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		return // the client is gone
	}
	call.body = body.Bytes()
	refused := call.parse()
	out := s.answer(w, call.Method)
	if refused == nil && call.Method == "session.subscribe" {
		if out.header(http.StatusOK, ndjson) {
			s.subscribe(out, call)
		}
		return
	}
	var sent *turn
	var result any
	if refused == nil {
		s.mu.Lock()
		if call.Method == "session.sendMessage" {
			sent, refused = s.sendMessage(call)
		} else {
			result, refused = s.dispatch(call)
		}
		s.mu.Unlock()
	}
	if !out.header(http.StatusOK, ndjson) {
		return
	}
	if sent != nil {
		s.follow(out, call, sent)
		return
	}
	out.line(call.reply(result, refused))
}

const ndjson = "application/x-ndjson"

func (c *rpcRequest) parse() *lambae.RPCError {
	if json.Unmarshal(c.body, c) != nil {
		return &lambae.RPCError{Code: lambae.CodeParse, Message: "Parse error"}
	}
	if c.JSONRPC != "2.0" {
		return &lambae.RPCError{Code: lambae.CodeInvalidRequest, Message: `Invalid Request: missing or wrong "jsonrpc" version`}
	}
	return nil
}

// reply is the line that ends a call.
func (c *rpcRequest) reply(result any, refused *lambae.RPCError) []byte {
	line := map[string]any{"jsonrpc": "2.0", "id": c.ID}
	if refused != nil {
		line["error"] = refused
	} else {
		line["result"] = result
	}
	return encode(line)
}

func notification(method string, params any) []byte {
	return encode(map[string]any{"jsonrpc": "2.0", "method": method, "params": params})
}

func encode(v any) []byte {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		panic(err) // a bug in this package
	}
	return bytes.TrimSpace(line.Bytes())
}

func invalidParams(detail string) *lambae.RPCError {
	return &lambae.RPCError{Code: lambae.CodeInvalidParams, Message: "Invalid params: " + detail}
}

// driver checks what every call but watching needs.
func (c *rpcRequest) driver() *lambae.RPCError {
	if slices.Contains(c.ses.drivers, c.key.ID) {
		return nil
	}
	return &lambae.RPCError{Code: lambae.CodeDriverNotRegistered, Message: "call session.registerDriver before " + c.Method}
}

func (c *rpcRequest) open() *lambae.RPCError {
	if c.ses.State == admin.StateOpen {
		return nil
	}
	return &lambae.RPCError{Code: lambae.CodeSession, Message: "session is " + c.ses.State + ", not open"}
}

// dispatch answers the calls that answer at once.
func (s *Server) dispatch(c *rpcRequest) (any, *lambae.RPCError) {
	switch c.Method {
	case "session.registerDriver":
		if refused := c.open(); refused != nil {
			return nil, refused
		}
		if at, found := slices.BinarySearch(c.ses.drivers, c.key.ID); !found {
			c.ses.drivers = slices.Insert(c.ses.drivers, at, c.key.ID)
			s.record(c.ses, c.key.ID, lambae.EventDriverRegister, struct{}{})
		}
		return map[string]bool{"registered": true}, nil
	case "session.unsubscribe":
		c.ses.unsubs++
		s.changed.Broadcast()
		return map[string]bool{"unsubscribed": true}, nil
	case "session.updateClientTools":
		return s.updateClientTools(c)
	case "session.startRemoteSandbox", "session.stopRemoteSandbox", "session.execRemoteSandbox":
		return s.sandboxCall(c)
	case "session.reportLocalSandbox", "session.reportLocalSubagent":
		return s.report(c)
	case "session.cancelSubagent":
		if refused := c.driver(); refused != nil {
			return nil, refused
		}
		return nil, &lambae.RPCError{Code: lambae.CodeSubagentNotFound, Message: "subagent_not_found: no such subagent is tracked for this session"}
	}
	return nil, &lambae.RPCError{Code: lambae.CodeMethodNotFound, Message: "Method not found: " + c.Method}
}

func (s *Server) updateClientTools(c *rpcRequest) (any, *lambae.RPCError) {
	if refused := cmp.Or(c.driver(), c.open()); refused != nil {
		return nil, refused
	}
	var params struct {
		Tools *[]lambae.Tool `json:"tools"`
	}
	if json.Unmarshal(c.Params, &params) != nil || params.Tools == nil {
		return nil, invalidParams(`missing "tools"`)
	}
	for _, tool := range *params.Tools {
		if !slices.Contains(c.ses.profile.AllowedTools, tool.Name) {
			return nil, &lambae.RPCError{Code: lambae.CodeToolNotAllowed, Message: `tool_not_allowed: tool "` + tool.Name + `" is not in the profile's allowlist`}
		}
	}
	declared := c.ses.declared[c.key.ID]
	declared.Tools = *params.Tools
	c.ses.declared[c.key.ID] = declared
	return map[string]bool{"updated": true}, nil
}

func (s *Server) sandboxCall(c *rpcRequest) (any, *lambae.RPCError) {
	var params struct{ Image, Command *string }
	if err := json.Unmarshal(c.Params, &params); err != nil {
		return nil, invalidParams(err.Error())
	}
	if refused := c.driver(); refused != nil {
		return nil, refused
	}
	starts := c.Method == "session.startRemoteSandbox"
	switch {
	case starts && (params.Image == nil || strings.TrimSpace(*params.Image) == ""):
		return nil, invalidParams(`missing "image"`)
	case starts:
		return s.startSandbox(c, *params.Image)
	case c.Method == "session.execRemoteSandbox" && params.Command == nil:
		return nil, invalidParams(`missing "command"`)
	case c.ses.sandbox == nil:
		return nil, &lambae.RPCError{Code: lambae.CodeSandboxNotRunning, Message: "sandbox_not_running: no remote sandbox is running for this session"}
	case c.Method == "session.execRemoteSandbox":
		return s.options.Exec(*params.Command), nil
	}
	stopped := s.stopSandbox(c.ses, c.key.ID, "explicit")
	return map[string]any{"stopped": true, "image": stopped.Image, "sandbox_id": stopped.SandboxID}, nil
}

func (s *Server) startSandbox(c *rpcRequest, image string) (any, *lambae.RPCError) {
	if refused := c.open(); refused != nil {
		return nil, refused
	}
	if !slices.Contains(c.ses.profile.AvailableSandboxes, image) {
		return nil, &lambae.RPCError{Code: lambae.CodeSandboxImageNotAllowed,
			Message: `sandbox_image_not_allowed: image "` + image + `" is not in this session profile's available_sandboxes`}
	}
	if c.ses.sandbox != nil {
		return nil, &lambae.RPCError{Code: lambae.CodeSession,
			Message: "a remote sandbox is already running for this session; call session.stopRemoteSandbox first"}
	}
	id := s.newID("sbx_")
	s.record(c.ses, c.key.ID, lambae.EventSandboxStart, map[string]string{"image": image, "dispatch": "remote"})
	running := s.record(c.ses, c.key.ID, lambae.EventSandboxRunning, map[string]string{"image": image, "dispatch": "remote", "sandbox_id": id})
	c.ses.sandbox = &lambae.RemoteSandbox{SandboxID: id, Image: image, StartedAt: &running.CreatedAt}
	return c.ses.sandbox, nil
}

func (s *Server) stopSandbox(ses *session, keyID, reason string) *lambae.RemoteSandbox {
	sandbox := ses.sandbox
	ses.sandbox = nil
	payload := map[string]string{"image": sandbox.Image, "sandbox_id": sandbox.SandboxID, "reason": reason, "dispatch": "remote"}
	s.record(ses, keyID, lambae.EventSandboxStop, payload)
	s.record(ses, keyID, lambae.EventSandboxStopped, payload)
	return sandbox
}

// report records what a client says of its own sandbox or subagent.
func (s *Server) report(c *rpcRequest) (any, *lambae.RPCError) {
	if refused := c.driver(); refused != nil {
		return nil, refused
	}
	kind, states := "sandbox", []string{"running", "stopped", "error"}
	if c.Method == "session.reportLocalSubagent" {
		kind, states = "subagent", []string{"start", "running", "completed", "failed", "cancelled"}
	}
	payload := map[string]any{}
	_ = json.Unmarshal(c.Params, &payload) // params of another type have no state either
	state, _ := payload["state"].(string)
	if !slices.Contains(states, state) {
		return nil, invalidParams(`"state" must be one of ` + strings.Join(states, ", "))
	}
	delete(payload, "state")
	payload["dispatch"] = "local"
	s.record(c.ses, c.key.ID, lambae.EventType("session."+kind+"."+state), payload)
	return map[string]bool{"reported": true}, nil
}

// subscribe sends events as they come until the session ends.
func (s *Server) subscribe(out *answer, c *rpcRequest) {
	var params struct {
		Since *string `json:"since_event_id"`
	}
	_ = json.Unmarshal(c.Params, &params) // anything else is no position
	stop := context.AfterFunc(c.ctx, s.wake)
	defer stop()

	s.mu.Lock()
	next, unsubs := len(c.ses.events), c.ses.unsubs
	if params.Since != nil { // an unknown position, -1, is the start
		next = 1 + slices.IndexFunc(c.ses.events, func(event lambae.Event) bool { return event.ID == *params.Since })
	}
	for {
		for next == len(c.ses.events) && c.ses.State == admin.StateOpen && c.ses.unsubs == unsubs && c.ctx.Err() == nil && !s.closed {
			s.changed.Wait()
		}
		events, closed := c.ses.events[next:], s.closed
		s.mu.Unlock()
		if closed {
			panic(http.ErrAbortHandler) // no clean end: the session goes on
		}
		for _, event := range events {
			if !out.line(notification("session.event", event)) {
				return
			}
		}
		if len(events) == 0 {
			return
		}
		next += len(events)
		s.mu.Lock()
	}
}

func (s *Server) wake() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed.Broadcast()
}
