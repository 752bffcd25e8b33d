package session

// Types of public events (protocol, "Events: payloads"). The set is closed:
// clients fail on a type they do not know.
const (
	ClientMessageSend     = "client.message.send"
	ServerMessageSend     = "server.message.send"
	ProviderRequest       = "provider.request"
	ProviderResponse      = "provider.response"
	ToolCall              = "tool.call"
	ToolResult            = "tool.result"
	MCPRequest            = "mcp.request"
	MCPResponse           = "mcp.response"
	SandboxRequest        = "sandbox.request"
	SandboxResponse       = "sandbox.response"
	SessionOpen           = "session.open"
	SessionJoin           = "session.join"
	SessionDriverRegister = "session.driver.register"
	SandboxAvailable      = "session.sandbox.available"
	SandboxStart          = "session.sandbox.start"
	SandboxRunning        = "session.sandbox.running"
	SandboxStop           = "session.sandbox.stop"
	SandboxStopped        = "session.sandbox.stopped"
	SandboxError          = "session.sandbox.error"
	SubagentStart         = "session.subagent.start"
	SubagentRunning       = "session.subagent.running"
	SubagentCompleted     = "session.subagent.completed"
	SubagentFailed        = "session.subagent.failed"
	SubagentCancelled     = "session.subagent.cancelled"
	SessionClose          = "session.close"
	SessionError          = "session.error"
	SessionCompaction     = "session.compaction" // reserved, never written
)

// Types of marks: entries of the log that only the server sees.
const (
	MarkCreate   = "session.create"  // first entry of chunk 0: profile, MCP tools
	MarkKey      = "key.session"     // a session key (by hash) now belongs to a client key
	MarkRevoked  = "key.revoked"     // a client key lost all its rights here
	MarkDeclare  = "tools.declare"   // a client's tool declarations, all three kinds
	MarkTools    = "tools.client"    // full replacement of a client's own tools
	MarkQueue    = "turn.queue"      // an arrival waits for the gate
	MarkSkip     = "turn.skip"       // a waiter left the queue without a turn
	MarkBegin    = "turn.begin"      // the gate is taken
	MarkResume   = "turn.resume"     // the owner of a paused turn goes on
	MarkStep     = "turn.step"       // an assistant message that calls tools
	MarkPause    = "turn.pause"      // the turn waits for its client's tool results
	MarkEnd      = "turn.end"        // the gate is free
	MarkBroken   = "turn.broken"     // the gate was taken from a dead or absent owner
	MarkIdem     = "idempotency"     // an Idempotency-Key was spent on this chunk
	MarkUnsubs   = "subscribers.end" // every subscription before this ends
	MarkErrState = "session.failed"  // the session is in state error from here on
	MarkSandbox  = "sandbox.begin"   // a sandbox starts: its id, and the lease of the start
	MarkSubagent = "subagent.begin"  // a subagent is launched: all that is tracked of it
	MarkOutput   = "subagent.output" // what a subagent said
	MarkForget   = "subagent.forget" // subagents whose end was reported
)

// Reasons of a session.error event.
const (
	ReasonProviderConfig     = "provider_config"
	ReasonProviderCallFailed = "provider_call_failed"
	ReasonAllProvidersFailed = "all_providers_failed"
	ReasonLoopLimit          = "loop_limit"
	ReasonProfileUnavailable = "profile_unavailable"
	ReasonPrimaryUnavailable = "primary_provider_unavailable"
	ReasonTurnAbandoned      = "driver_turn_abandoned"
	ReasonMergeInvalid       = "tool_result_merge_invalid"
)

// Reasons of a session.close event.
const (
	CloseByClient  = "client_close"
	CloseByRevoked = "client_key_revoked"
)

// Dispatch says who runs a tool call (protocol, "The turn", step 5).
const (
	DispatchClient   = "client"
	DispatchSandbox  = "sandbox"
	DispatchSubagent = "subagent"
	DispatchMCP      = "mcp"
)

// States of a session.
const (
	StateOpen   = "open"
	StateClosed = "closed"
	StateError  = "error"
)

var eventTypes = setOf(ClientMessageSend, ServerMessageSend, ProviderRequest, ProviderResponse, ToolCall, ToolResult,
	MCPRequest, MCPResponse, SandboxRequest, SandboxResponse, SessionOpen, SessionJoin, SessionDriverRegister,
	SandboxAvailable, SandboxStart, SandboxRunning, SandboxStop, SandboxStopped, SandboxError, SubagentStart,
	SubagentRunning, SubagentCompleted, SubagentFailed, SubagentCancelled, SessionClose, SessionError, SessionCompaction)

var markTypes = setOf(MarkCreate, MarkKey, MarkRevoked, MarkDeclare, MarkTools, MarkQueue, MarkSkip, MarkBegin, MarkResume,
	MarkStep, MarkPause, MarkEnd, MarkBroken, MarkIdem, MarkUnsubs, MarkErrState, MarkSandbox, MarkSubagent, MarkOutput, MarkForget)

func setOf(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}
