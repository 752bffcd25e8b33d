package turn

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/lambae/lambae/internal/session"
)

// Sandboxes is the seam to remote sandboxes: a driver that starts them and runs
// commands in them. A server without a driver has none; then no sandbox ever
// runs, and every call that needs one is answered as the protocol says.
type Sandboxes interface {
	// Start starts a sandbox of an image for a session and returns its id.
	Start(ctx context.Context, session, image string) (id string, err error)
	// Images reports which of the images can be started.
	Images(ctx context.Context, images []string) []ImageStatus
}

// ImageStatus is an element of a session.sandbox.available event.
type ImageStatus struct {
	Name   string `json:"name"`
	Status string `json:"status"` // pending, available or error
	Detail string `json:"detail,omitempty"`
}

// NoDriver is the detail of everything that fails for want of a sandbox driver.
const NoDriver = "this server has no sandbox driver"

// ImageStatuses is what session.sandbox.available shows of a profile's images.
func (e *Engine) ImageStatuses(ctx context.Context, images []string) []ImageStatus {
	if e.Sandboxes != nil {
		return e.Sandboxes.Images(ctx, images)
	}
	out := make([]ImageStatus, len(images))
	for i, name := range images {
		out[i] = ImageStatus{Name: name, Status: "error", Detail: NoDriver}
	}
	return out
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
	command := json.RawMessage("null")
	if len(input.Command) > 0 && input.Command[0] == '"' {
		command = input.Command
	}
	return effect{
		before: []session.Entry{r.event(session.SandboxRequest, fmt.Appendf(nil, `{"tool":%s,"input":%s,"command":%s}`, session.Quote(c.name), c.input, command))},
		run: func() []session.Entry {
			detail := notRunning(c.name)
			return []session.Entry{
				r.event(session.SandboxResponse, fmt.Appendf(nil, `{"sandbox_id":null,"ok":false,"error":%s}`, session.Quote(detail))),
				r.toolResult(c, session.DispatchSandbox, "", true, text("sandbox error: "+detail)),
			}
		},
	}
}

// subagentEffect launches a remote subagent (protocol, "Remote subagents"). A
// refusal has no events of its own, so nothing is recorded before it.
func (r *run) subagentEffect(c toolCall) effect {
	return effect{run: func() []session.Entry {
		return []session.Entry{r.toolResult(c, session.DispatchSubagent, "", true, text(string(session.MarshalJSON(struct {
			Error string `json:"error"`
		}{r.refuseSubagent(c)}))))}
	}}
}

// refuseSubagent checks a launch in the protocol's order up to the sandbox.
func (r *run) refuseSubagent(c toolCall) string {
	var input struct {
		Harness, Model, Prompt string
	}
	if json.Unmarshal(c.input, &input) != nil || blank(input.Harness) || blank(input.Model) || blank(input.Prompt) {
		return c.name + ` requires string "harness", "model", and "prompt"`
	}
	return notRunning(c.name)
}
