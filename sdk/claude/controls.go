package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
)

// Control sends any control request, for those without a method here. The
// request must have a "subtype"; the answer is claude's payload as it came.
func (st *Stream) Control(ctx context.Context, request any) (json.RawMessage, error) {
	defer runtime.KeepAlive(st)
	if err := st.s.ready(ctx); err != nil {
		return nil, err
	}
	return st.s.control.call(ctx, request)
}

func (st *Stream) ask(ctx context.Context, into any, request map[string]any) error {
	body, err := st.Control(ctx, request)
	if err != nil {
		return err
	}
	if into == nil || len(body) == 0 {
		return nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode answer to %s: %w", request["subtype"], err)
	}
	return nil
}

// InterruptReceipt says what an interrupt did not stop.
type InterruptReceipt struct {
	// StillQueued are messages that will run unless they are cancelled too.
	StillQueued []string `json:"still_queued"`
	// Cancelled are messages that CancelQueued took out of the queue.
	Cancelled []string `json:"cancelled"`
}

// Interrupt stops the current turn; its result follows as usual.
func (st *Stream) Interrupt(ctx context.Context) (InterruptReceipt, error) {
	var receipt InterruptReceipt
	err := st.ask(ctx, &receipt, map[string]any{"subtype": "interrupt"})
	return receipt, err
}

// InterruptAll stops the current turn and cancels what waits behind it.
func (st *Stream) InterruptAll(ctx context.Context) (InterruptReceipt, error) {
	var receipt InterruptReceipt
	err := st.ask(ctx, &receipt, map[string]any{"subtype": "interrupt", "cancel_queued": true})
	return receipt, err
}

// SetModel changes the model, from the running turn's next call of the model
// on. Empty is claude's default.
func (st *Stream) SetModel(ctx context.Context, model string) error {
	request := map[string]any{"subtype": "set_model"}
	if model != "" {
		request["model"] = model
	}
	return st.ask(ctx, nil, request)
}

// SetPermissionMode changes the permission mode and returns the one in effect,
// which can differ from the one asked for.
func (st *Stream) SetPermissionMode(ctx context.Context, mode PermissionMode) (PermissionMode, error) {
	var answer struct{ Mode PermissionMode }
	err := st.ask(ctx, &answer, map[string]any{"subtype": "set_permission_mode", "mode": mode})
	if err == nil && answer.Mode == "" {
		answer.Mode = mode
	}
	return answer.Mode, err
}

// SetMaxThinkingTokens bounds thinking; nil lifts the bound.
func (st *Stream) SetMaxThinkingTokens(ctx context.Context, tokens *int) error {
	return st.ask(ctx, nil, map[string]any{"subtype": "set_max_thinking_tokens", "max_thinking_tokens": tokens})
}

// ApplyFlagSettings merges settings into the highest tier a user controls; a
// nil value clears a key.
func (st *Stream) ApplyFlagSettings(ctx context.Context, settings map[string]any) error {
	return st.ask(ctx, nil, map[string]any{"subtype": "apply_flag_settings", "settings": settings})
}

// RewindResult is what a rewind changed, or would change.
type RewindResult struct {
	CanRewind    bool     `json:"canRewind"`
	Error        string   `json:"error"`
	FilesChanged []string `json:"filesChanged"`
	Insertions   int      `json:"insertions"`
	Deletions    int      `json:"deletions"`
}

// RewindFiles puts files back to their state at a user message. It needs
// [Options.FileCheckpointing]. A dry run only reports.
func (st *Stream) RewindFiles(ctx context.Context, userMessageUUID string, dryRun bool) (RewindResult, error) {
	var result RewindResult
	err := st.ask(ctx, &result, map[string]any{
		"subtype": "rewind_files", "user_message_id": userMessageUUID, "dry_run": dryRun,
	})
	return result, err
}

// StopTask stops a background task.
func (st *Stream) StopTask(ctx context.Context, taskID string) error {
	return st.ask(ctx, nil, map[string]any{"subtype": "stop_task", "task_id": taskID})
}

// Initialization is claude's answer to the handshake.
type Initialization struct {
	Commands              []Command       `json:"commands"`
	Agents                []AgentInfo     `json:"agents"`
	Models                []ModelInfo     `json:"models"`
	Account               json.RawMessage `json:"account"`
	OutputStyle           string          `json:"output_style"`
	AvailableOutputStyles []string        `json:"available_output_styles"`
	ClaudeCodeVersion     string          `json:"claude_code_version"`
	Raw                   json.RawMessage `json:"-"`
}

// Command is a slash command or skill.
type Command struct {
	Name         string   `json:"name"`
	Description  string   `json:"description"`
	ArgumentHint string   `json:"argumentHint"`
	Aliases      []string `json:"aliases"`
}

// AgentInfo describes a subagent claude knows.
type AgentInfo struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Model       string `json:"model"`
}

// ModelInfo describes a model claude offers.
type ModelInfo struct {
	Value         string `json:"value"`
	ResolvedModel string `json:"resolvedModel"`
	DisplayName   string `json:"displayName"`
	Description   string `json:"description"`
}

// Initialization waits for the handshake and returns what claude said: its
// commands, agents, models and account.
func (st *Stream) Initialization(ctx context.Context) (Initialization, error) {
	defer runtime.KeepAlive(st)
	if err := st.s.ready(ctx); err != nil {
		return Initialization{}, err
	}
	init := Initialization{Raw: st.s.initBody}
	if err := json.Unmarshal(st.s.initBody, &init); err != nil {
		return Initialization{}, fmt.Errorf("decode claude's initialization: %w", err)
	}
	return init, nil
}
