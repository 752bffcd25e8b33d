package lambae

import (
	"context"
	"encoding/json"
	"fmt"
)

// ToolHandler runs one call of a client tool. Its error goes to the model as a
// failed result; to stop the run instead, end ctx or use a hook.
type ToolHandler func(ctx context.Context, call ToolUse) (Content, error)

// ClientTool is a tool that runs in this program: what is declared to the
// server, and the code.
type ClientTool struct {
	Tool
	Handler ToolHandler
}

// TypedTool is a client tool whose input is decoded into In first. Input that
// does not fit is a failed result, which the model sees and may correct.
func TypedTool[In any](tool Tool, handler func(ctx context.Context, input In) (string, error)) ClientTool {
	return ClientTool{tool, func(ctx context.Context, call ToolUse) (Content, error) {
		var input In
		if len(call.Input) > 0 {
			if err := json.Unmarshal(call.Input, &input); err != nil {
				return Content{}, fmt.Errorf("input of %s: %w", call.Name, err)
			}
		}
		text, err := handler(ctx, input)
		return Text(text), err
	}}
}

// Declarations is what [OpenRequest.Tools] and [Session.UpdateClientTools] take.
func Declarations(tools []ClientTool) []Tool {
	declared := make([]Tool, 0, len(tools))
	for _, tool := range tools {
		declared = append(declared, tool.Tool)
	}
	return declared
}

// Hooks watch a run. Any may be nil; an error from one ends the run.
type Hooks struct {
	BeforeSend     func(ctx context.Context, message Message) error
	OnUpdate       func(ctx context.Context, update Update) error // events, deltas, lost connections
	AfterReceive   func(ctx context.Context, result *Result) error
	BeforeToolCall func(ctx context.Context, call ToolUse) error
	AfterToolCall  func(ctx context.Context, call ToolUse, result ToolResult) error
}

// RunOptions tune a run.
type RunOptions struct {
	// Tools are the tools this program can run. Declare them when opening or
	// joining, or with [Session.UpdateClientTools].
	Tools []ClientTool
	// Stream asks for deltas, which [Hooks.OnUpdate] sees.
	Stream bool
	Hooks  Hooks
}

// Run sends a message and, as long as the model asks for tools of this client,
// runs them and sends their results, until the final answer (seed, "The harness
// tool-call loop"). Calls that the server runs itself are left to it. The
// Result holds the events of the whole run.
//
// When Run fails while the turn waits for tool results, the turn stays paused:
// the next message abandons it, and so does the server after a while.
func (s *Session) Run(ctx context.Context, message Message, opts *RunOptions) (*Result, error) {
	if opts == nil {
		opts = &RunOptions{}
	}
	if err := s.ensureDriver(ctx); err != nil {
		return nil, err
	}
	run := &run{session: s, opts: opts, handlers: map[string]ToolHandler{}}
	for _, tool := range opts.Tools {
		run.handlers[tool.Name] = tool.Handler
	}
	for {
		result, err := run.leg(ctx, message)
		if err != nil {
			return result, err
		}
		answers, err := run.answer(ctx, result)
		if err != nil || len(answers) == 0 {
			return result, err
		}
		message = Message{RoleUser, Blocks(answers...)}
	}
}

// run is one message on its way to the final answer.
type run struct {
	session  *Session
	opts     *RunOptions
	handlers map[string]ToolHandler
	events   []Event
}

// leg is one send and what came back.
func (r *run) leg(ctx context.Context, message Message) (*Result, error) {
	hooks := r.opts.Hooks
	if hooks.BeforeSend != nil {
		if err := hooks.BeforeSend(ctx, message); err != nil {
			return nil, err
		}
	}
	var result *Result
	for update, err := range r.session.Send(ctx, message, &SendOptions{Stream: r.opts.Stream}) {
		if update.Result != nil {
			result = update.Result
			r.events = append(r.events, result.Events...)
			result.Events = r.events
		}
		if err != nil {
			return result, err
		}
		if hooks.OnUpdate != nil {
			if err := hooks.OnUpdate(ctx, update); err != nil {
				return result, err
			}
		}
	}
	if hooks.AfterReceive != nil {
		if err := hooks.AfterReceive(ctx, result); err != nil {
			return result, err
		}
	}
	return result, nil
}

// answer runs the calls in result that are this client's.
func (r *run) answer(ctx context.Context, result *Result) ([]Block, error) {
	var answers []Block
	for _, call := range result.ToolUses() {
		if !r.ours(call) {
			continue
		}
		answer, err := r.call(ctx, call)
		if err != nil {
			return nil, err
		}
		answers = append(answers, ToolResultBlock(answer))
	}
	return answers, nil
}

// ours reports whether call is this client's to run. Servers that do not say
// so only show calls to tools that some client declared.
func (r *run) ours(call ToolUse) bool {
	return r.session.ours(call) || call.Dispatch == "" && r.handlers[call.Name] != nil
}

func (r *run) call(ctx context.Context, call ToolUse) (ToolResult, error) {
	hooks := r.opts.Hooks
	if hooks.BeforeToolCall != nil {
		if err := hooks.BeforeToolCall(ctx, call); err != nil {
			return ToolResult{}, err
		}
	}
	result := r.execute(ctx, call)
	if err := ctx.Err(); err != nil {
		return ToolResult{}, fmt.Errorf("run tool %s: %w", call.Name, err)
	}
	if hooks.AfterToolCall != nil {
		if err := hooks.AfterToolCall(ctx, call, result); err != nil {
			return ToolResult{}, err
		}
	}
	return result, nil
}

// execute always has a result: a call left unanswered would end the session.
func (r *run) execute(ctx context.Context, call ToolUse) ToolResult {
	handler := r.handlers[call.Name]
	if handler == nil {
		return ToolResult{call.ID, Text(fmt.Sprintf("tool %q is declared but this client has no handler for it", call.Name)), true}
	}
	content, err := handler(ctx, call)
	if err != nil {
		return ToolResult{call.ID, Text(err.Error()), true}
	}
	return ToolResult{call.ID, content, false}
}
