package claude

import (
	"context"
	"encoding/json"
	"fmt"
)

// callbacks answers the requests that claude sends to this program.
type callbacks struct {
	opts  *Options
	hooks map[string]HookFunc
	mcp   *mcpBridge
}

// answer is the second half of a request: it may block.
type answer func(ctx context.Context) (any, error)

// begin looks at a request in the order requests arrive, and returns the
// function that answers it. A nil function means that nobody may answer.
func (c *callbacks) begin(id string, raw json.RawMessage) (answer, error) {
	var req struct {
		Subtype    string          `json:"subtype"`
		ServerName string          `json:"server_name"`
		Message    json.RawMessage `json:"message"`
	}
	if err := json.Unmarshal(raw, &req); err != nil && req.Subtype == "" {
		return nil, fmt.Errorf("decode control request: %w", err)
	}
	switch req.Subtype {
	case "can_use_tool":
		return c.canUseTool(id, raw), nil
	case "hook_callback":
		return c.hook(raw), nil
	case "mcp_message":
		wait, err := c.mcp.begin(req.ServerName, req.Message)
		if err != nil {
			return nil, err
		}
		return func(ctx context.Context) (any, error) {
			response, err := wait(ctx)
			return map[string]json.RawMessage{"mcp_response": response}, err
		}, nil
	case "elicitation":
		return c.elicit(raw), nil
	case "request_user_dialog":
		if c.opts.Dialog == nil {
			return nil, nil // another client may be the one that shows it
		}
		return c.dialog(raw), nil
	}
	return nil, &unsupportedError{subtype: req.Subtype}
}

func (c *callbacks) canUseTool(id string, raw json.RawMessage) answer {
	return func(ctx context.Context) (any, error) {
		if c.opts.CanUseTool == nil {
			return nil, fmt.Errorf("nobody decides about tools here; set Options.CanUseTool")
		}
		req := PermissionRequest{RequestID: id, Raw: raw}
		if err := json.Unmarshal(raw, &req); err != nil {
			return nil, fmt.Errorf("decode permission request: %w", err)
		}
		result, err := c.opts.CanUseTool(ctx, req)
		if err != nil {
			return nil, err
		}
		if result.Behavior == "" {
			return nil, fmt.Errorf("CanUseTool returned no decision; return Allow() or Deny(why)")
		}
		if result.ToolUseID == "" {
			result.ToolUseID = req.ToolUseID
		}
		if result.Behavior == "allow" && result.UpdatedInput == nil {
			result.UpdatedInput = req.Input
		}
		return result, nil
	}
}

func (c *callbacks) hook(raw json.RawMessage) answer {
	return func(ctx context.Context) (any, error) {
		var req struct {
			CallbackID string          `json:"callback_id"`
			Input      json.RawMessage `json:"input"`
			ToolUseID  string          `json:"tool_use_id"`
		}
		if err := json.Unmarshal(raw, &req); err != nil {
			return nil, fmt.Errorf("decode hook request: %w", err)
		}
		hook, ok := c.hooks[req.CallbackID]
		if !ok {
			return nil, fmt.Errorf("no hook has id %q", req.CallbackID)
		}
		in := HookInput{ToolUseID: req.ToolUseID, Raw: req.Input}
		if err := json.Unmarshal(req.Input, &in); err != nil {
			return nil, fmt.Errorf("decode hook input: %w", err)
		}
		out, err := hook(ctx, in)
		if err != nil {
			return nil, err
		}
		if out.Specific != nil && out.Specific.Event == "" {
			specific := *out.Specific
			specific.Event = in.Event
			out.Specific = &specific
		}
		return out, nil
	}
}

func (c *callbacks) elicit(raw json.RawMessage) answer {
	return func(ctx context.Context) (any, error) {
		if c.opts.Elicit == nil {
			return ElicitationResult{Action: "decline"}, nil
		}
		var req ElicitationRequest
		if err := json.Unmarshal(raw, &req); err != nil {
			return nil, fmt.Errorf("decode elicitation: %w", err)
		}
		return c.opts.Elicit(ctx, req)
	}
}

func (c *callbacks) dialog(raw json.RawMessage) answer {
	return func(ctx context.Context) (any, error) {
		var req DialogRequest
		if err := json.Unmarshal(raw, &req); err != nil {
			return nil, fmt.Errorf("decode dialog request: %w", err)
		}
		return c.opts.Dialog(ctx, req)
	}
}
