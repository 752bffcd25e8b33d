package turn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/session"
)

// ImageStatus is an element of a session.sandbox.available event.
type ImageStatus = sandbox.ImageStatus

// ImageStatuses is what session.sandbox.available shows of a profile's images.
func (e *Engine) ImageStatuses(ctx context.Context, images []string) []ImageStatus {
	return e.Sandboxes.Images(ctx, images)
}

func notRunning(tool string) string {
	return fmt.Sprintf("no remote sandbox is running for tool '%s'; call session.startRemoteSandbox first", tool)
}

// sandboxEffect runs an automatic sandbox tool (protocol, "The turn", step 5).
func (r *run) sandboxEffect(c toolCall) effect {
	var input struct {
		Command json.RawMessage `json:"command"`
	}
	_ = json.Unmarshal(c.input, &input)
	shown := json.RawMessage("null")
	var command *string
	if len(input.Command) > 0 && input.Command[0] == '"' && json.Unmarshal(input.Command, &command) == nil {
		shown = input.Command
	}
	request := r.event(session.SandboxRequest, fmt.Appendf(nil, `{"tool":%s,"input":%s,"command":%s}`, session.Quote(c.name), c.input, shown))
	return effect{
		before: func(*session.State) []session.Entry { return []session.Entry{request} },
		run: func() ([]session.Entry, error) {
			id, res, err := r.runInSandbox(c, command)
			if err != nil {
				return []session.Entry{
					r.event(session.SandboxResponse, fmt.Appendf(nil, `{"sandbox_id":%s,"ok":false,"error":%s}`, nullable(id), session.Quote(err.Error()))),
					r.toolResult(c, session.DispatchSandbox, "", true, text("sandbox error: "+err.Error())),
				}, nil
			}
			result := session.EscapeLines(session.MarshalJSON(CommandResult(res)))
			return []session.Entry{
				r.event(session.SandboxResponse, fmt.Appendf(nil, `{"sandbox_id":%s,"ok":%t,"result":%s}`, session.Quote(id), res.ExitCode == 0, result)),
				r.toolResult(c, session.DispatchSandbox, "", res.ExitCode != 0, text(resultText(res))),
			}, nil
		},
	}
}

func (r *run) runInSandbox(c toolCall, command *string) (id string, res sandbox.Result, err error) {
	ctx, span := r.engine.Telemetry.Tool(r.ctx, c.name, session.DispatchSandbox)
	defer func() {
		reason := ""
		switch {
		case err != nil:
			reason = "failed"
		case res.ExitCode != 0:
			reason = "nonzero_exit"
		}
		span.End(ctx, reason)
	}()
	if command == nil {
		return "", res, fmt.Errorf("sandbox tool '%s' input is missing the required string \"command\"", c.name)
	}
	id, res, err = r.engine.Sandboxes.Exec(ctx, r.call.Log, *command, nil)
	if errors.Is(err, session.ErrNoSandbox) {
		return "", res, errors.New(notRunning(c.name))
	}
	return id, res, err
}

// CommandResult is a command's result as clients see it.
type CommandResult struct {
	Stdout    string `json:"stdout"`
	Stderr    string `json:"stderr"`
	ExitCode  int    `json:"exit_code"`
	TimedOut  bool   `json:"-"`
	Truncated bool   `json:"truncated,omitempty"`
}

// resultText is what the model is told of a command (protocol, "Events: payloads").
func resultText(res sandbox.Result) string {
	var b strings.Builder
	b.WriteString(res.Stdout)
	line := func(s string) {
		if b.Len() > 0 && !strings.HasSuffix(b.String(), "\n") {
			b.WriteByte('\n')
		}
		b.WriteString(s)
	}
	if !blank(res.Stderr) {
		line("[stderr]\n" + res.Stderr)
	}
	if res.ExitCode != 0 {
		line(fmt.Sprintf("[exit_code: %d]", res.ExitCode))
	}
	return b.String()
}
