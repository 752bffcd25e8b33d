package turn

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/session"
)

// statusTool is how the model is shown remote_subagent_status.
const statusTool = `{"name":"` + session.ReservedToolName + `","description":"Report the remote subagents of this session: which still run, and the output of those that have ended. A finished subagent is reported once.",` +
	`"input_schema":{"type":"object","properties":{"subagent_id":{"type":"string","description":"Report this subagent only."}}}}`

// subagentEffect runs one of the two tools that concern remote subagents.
func (r *run) subagentEffect(c toolCall) effect {
	if c.name == session.ReservedToolName {
		return effect{run: func() ([]session.Entry, error) { return r.subagentStatus(c) }}
	}
	return r.launchEffect(c)
}

func (r *run) refuseSubagent(c toolCall, text string) session.Entry {
	return r.subagentResult(c, true, struct {
		Error string `json:"error"`
	}{text})
}

// subagentResult is a tool.result that holds one text block of compact JSON.
func (r *run) subagentResult(c toolCall, isError bool, v any) session.Entry {
	return r.toolResult(c, session.DispatchSubagent, "", isError, text(string(session.MarshalJSON(v))))
}

// launchEffect launches a remote subagent (protocol, "Remote subagents"). What it
// must not be refused for is decided with the append that begins it, so that no
// two launches pass one limit. A refusal has no events of its own.
func (r *run) launchEffect(c toolCall) effect {
	var input struct{ Harness, Model, Prompt string }
	var refusal string
	if json.Unmarshal(c.input, &input) != nil || blank(input.Harness) || blank(input.Model) || blank(input.Prompt) {
		refusal = c.name + ` requires string "harness", "model", and "prompt"`
	}
	missing := refusal != ""
	var agent session.Subagent
	var command sandbox.Command
	return effect{
		before: func(s *session.State) []session.Entry {
			if missing {
				return nil
			}
			tool, harness, fault := r.harness(s, c.name, input.Harness)
			if refusal = fault; fault == "" {
				refusal = r.cannotLaunch(s, c.name, tool.Image)
			}
			if refusal != "" {
				return nil
			}
			if command, refusal = r.subagentCommand(harness, input.Model, input.Prompt); refusal != "" {
				return nil
			}
			agent = session.Subagent{ID: command.ID, Sandbox: s.Sandbox.ID, Harness: input.Harness, Model: input.Model,
				Key: r.call.Key, Timeout: command.Timeout.Milliseconds(), Wall: command.Started.UnixMilli()}
			return session.BeginSubagent(agent)
		},
		run: func() ([]session.Entry, error) {
			if refusal != "" {
				return []session.Entry{r.refuseSubagent(c, refusal)}, nil
			}
			return r.launch(c, agent, command)
		},
	}
}

// harness finds the declaration of the acting client that a launch is about.
func (r *run) harness(s *session.State, tool, name string) (session.SubagentTool, session.SubagentHarness, string) {
	var declared []session.Tool
	if client := s.Clients[r.call.Key]; client != nil {
		declared = client.Subagent
	}
	i := slices.IndexFunc(declared, func(t session.Tool) bool { return t.Name == tool })
	if i < 0 {
		return session.SubagentTool{}, session.SubagentHarness{}, fmt.Sprintf("tool %q is not declared any more", tool)
	}
	t, err := session.SubagentToolOf(declared[i])
	if err != nil {
		return t, session.SubagentHarness{}, err.Error()
	}
	h, ok := t.Harness(name)
	if !ok {
		return t, h, fmt.Sprintf("unknown harness %q", name)
	}
	return t, h, ""
}

// cannotLaunch checks what the session must have, in the protocol's order.
func (r *run) cannotLaunch(s *session.State, tool, image string) string {
	limit := r.engine.Sandboxes.o.MaxSubagents
	switch {
	case s.RunningSubagents() >= limit:
		return fmt.Sprintf("subagent limit reached (max %d per session)", limit)
	case s.Sandbox == nil || !s.Sandbox.Running:
		return notRunning(tool)
	case s.Sandbox.Image != image:
		return fmt.Sprintf("remote sandbox image mismatch: subagent declared %q but the running sandbox uses %q", image, s.Sandbox.Image)
	case !slices.Contains(r.call.Profile.AvailableSandboxes, image):
		return fmt.Sprintf("sandbox_image_not_allowed: image %q is not in this session profile's available_sandboxes", image)
	}
	return ""
}

func (r *run) subagentCommand(h session.SubagentHarness, model, prompt string) (c sandbox.Command, refusal string) {
	command, err := session.ExpandCommandTemplate(h.CommandTemplate, model, prompt)
	if err != nil {
		return c, err.Error()
	}
	c = sandbox.Command{ID: session.NewID(session.SubagentPrefix), Command: command,
		Timeout: h.Timeout(r.engine.Sandboxes.o.SubagentTimeout), Started: r.engine.now()}
	if h.PromptVia == session.PromptViaStdin {
		c.Stdin = prompt
	}
	return c, ""
}

// launch starts a subagent whose start the log has already.
func (r *run) launch(c toolCall, a session.Subagent, command sandbox.Command) ([]session.Entry, error) {
	ctx, span := r.engine.Telemetry.Tool(r.ctx, c.name, session.DispatchSubagent)
	err := r.engine.Sandboxes.launch(ctx, r.call.Log.ID, a, command)
	if err == nil {
		span.End(ctx, "")
		return []session.Entry{r.subagentResult(c, false, struct {
			ID      string `json:"subagent_id"`
			Harness string `json:"harness"`
			Model   string `json:"model"`
			Status  string `json:"status"`
		}{a.ID, a.Harness, a.Model, "started"})}, nil
	}
	span.End(ctx, session.FailedSpawn)
	detail := err.Error()
	end := session.SubagentEnd{Reason: session.FailedSpawn, Detail: &detail}
	failed := r.refuseSubagent(c, "subagent launch failed: "+detail)
	chunk, err := r.append(func(s *session.State) (session.Draft, error) {
		return session.Draft{Entries: append(s.EndSubagent(a.ID, end), failed)}, nil
	})
	if err != nil {
		return nil, err
	}
	return nil, r.emit(chunk)
}

// subagentReport is an element of the status tool's answer.
type subagentReport struct {
	ID        string  `json:"subagent_id"`
	Harness   string  `json:"harness"`
	Model     string  `json:"model"`
	Status    string  `json:"status"`
	ExitCode  *int    `json:"exit_code"`
	Stdout    *string `json:"stdout"`
	Stderr    *string `json:"stderr"`
	Truncated bool    `json:"truncated"`
	Reason    *string `json:"reason"`
	Detail    *string `json:"detail"`
}

// subagentStatus reports subagents in launch order. Those that have ended are
// forgotten with the append that holds their report, before the next request to
// the model is composed: it is not offered the tool any more when none is left.
func (r *run) subagentStatus(c toolCall) ([]session.Entry, error) {
	var input struct {
		ID json.RawMessage `json:"subagent_id"`
	}
	_ = json.Unmarshal(c.input, &input)
	var only *string
	asked := len(input.ID) > 0 && string(input.ID) != "null"
	if asked {
		_ = json.Unmarshal(input.ID, &only)
	}
	var agents []session.Subagent
	r.call.Log.View(func(s *session.State) { agents = s.Subagents })
	if asked {
		agents = slices.DeleteFunc(slices.Clone(agents), func(a session.Subagent) bool { return only == nil || a.ID != *only })
		if len(agents) == 0 {
			return []session.Entry{r.refuseSubagent(c, "unknown subagent_id")}, nil
		}
	}
	reports := []subagentReport{}
	var ended []string
	for _, a := range agents {
		report := subagentReport{ID: a.ID, Harness: a.Harness, Model: a.Model, Status: a.Status, ExitCode: a.ExitCode, Reason: a.Reason, Detail: a.Detail}
		out, err := r.call.Log.Output(r.ctx, a)
		if err != nil {
			return nil, err
		}
		if out != nil {
			report.Stdout, report.Stderr, report.Truncated = &out.Stdout, &out.Stderr, out.Truncated
		}
		if a.Status != session.SubagentStatusRunning {
			ended = append(ended, a.ID)
		}
		reports = append(reports, report)
	}
	entries := []session.Entry{r.subagentResult(c, false, struct {
		Subagents []subagentReport `json:"subagents"`
	}{reports})}
	if len(ended) == 0 {
		return entries, nil
	}
	entries = append(entries, session.ForgetSubagents(r.call.Key, ended))
	chunk, err := r.append(func(*session.State) (session.Draft, error) { return session.Draft{Entries: entries}, nil })
	if err != nil {
		return nil, err
	}
	return nil, r.emit(chunk)
}
