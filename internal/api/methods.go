package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lambae/lambae/internal/jsonfield"
	"github.com/lambae/lambae/internal/session"
)

func (c *Client) registerDriver(ctx context.Context, who *caller, _ params) (any, error) {
	entries := []session.Entry{{Type: session.SessionDriverRegister, Key: who.key, Payload: json.RawMessage(`{}`)}}
	if images := who.profile.AvailableSandboxes; len(images) > 0 && !who.gone {
		entries = append(entries, session.Entry{Type: session.SandboxAvailable, Key: who.key, Payload: session.MarshalJSON(struct {
			Images any `json:"images"`
		}{c.Engine.ImageStatuses(ctx, images)})})
	}
	_, err := who.log.Append(ctx, func(s *session.State) (session.Draft, error) {
		if !s.Open() {
			return session.Draft{}, session.NotOpen(s.Status)
		}
		if s.Driver(who.key) {
			return session.Draft{}, nil
		}
		return session.Draft{Entries: entries}, nil
	})
	return struct {
		Registered bool `json:"registered"`
	}{true}, err
}

func (c *Client) unsubscribe(ctx context.Context, who *caller, _ params) (any, error) {
	_, err := who.log.Append(ctx, func(*session.State) (session.Draft, error) {
		return session.Draft{Entries: []session.Entry{{Type: session.MarkUnsubs, Key: who.key}}}, nil
	})
	return struct {
		Unsubscribed bool `json:"unsubscribed"`
	}{true}, err
}

func (c *Client) updateClientTools(ctx context.Context, who *caller, p params) (any, error) {
	if err := who.openDriver("session.updateClientTools"); err != nil {
		return nil, err
	}
	if isNull(p["tools"]) {
		return nil, badParams(`missing "tools"`)
	}
	tools, err := readTools(p["tools"])
	if err != nil {
		return nil, badParams("%s", err)
	}
	if err := session.ValidateClientTools(tools, who.profile.AllowedTools); err != nil {
		var refusal *session.OpenRefusal
		if errors.As(err, &refusal) {
			return nil, refuse(codeToolNotAllowed, "tool_not_allowed: %s", refusal.Detail)
		}
		return nil, err
	}
	declared := make([]session.Tool, len(tools))
	for i, t := range tools {
		declared[i] = t.Tool()
	}
	_, err = who.log.Append(ctx, func(s *session.State) (session.Draft, error) {
		if !s.Open() {
			return session.Draft{}, session.NotOpen(s.Status)
		}
		return session.Draft{Entries: []session.Entry{{Type: session.MarkTools, Key: who.key, Payload: session.MarshalJSON(declared)}}}, nil
	})
	return struct {
		Updated bool `json:"updated"`
	}{true}, err
}

func readTools(raw json.RawMessage) ([]session.ClientTool, error) {
	o, err := jsonfield.Parse(fmt.Appendf(nil, `{"tools":%s}`, raw))
	if err != nil {
		return nil, err
	}
	tools := session.ReadClientTools(o, "tools")
	return tools, o.Err()
}

func (c *Client) reportLocalSandbox(ctx context.Context, who *caller, p params) (any, error) {
	if err := who.driver("session.reportLocalSandbox"); err != nil {
		return nil, err
	}
	types := map[string]string{"running": session.SandboxRunning, "stopped": session.SandboxStopped, "error": session.SandboxError}
	state, _ := str(p["state"])
	if types[state] == "" {
		return nil, badParams(`"state" must be "running", "stopped", or "error"`)
	}
	payload := struct {
		Dispatch    string          `json:"dispatch"`
		Image       *string         `json:"image"`
		Unsandboxed bool            `json:"unsandboxed"`
		ContainerID json.RawMessage `json:"container_id"`
		Detail      json.RawMessage `json:"detail"`
	}{Dispatch: "local", ContainerID: orNull(p["container_id"]), Detail: orNull(p["detail"])}
	if v := p["unsandboxed"]; !isNull(v) && json.Unmarshal(v, &payload.Unsandboxed) != nil {
		return nil, badParams(`"unsandboxed" must be a boolean`)
	}
	if v := p["image"]; !isNull(v) {
		image, ok := str(v)
		if !ok {
			return nil, badParams(`"image" must be a string or null`)
		}
		payload.Image = &image
	}
	switch {
	case payload.Unsandboxed && payload.Image != nil:
		return nil, badParams(`"image" must be null when "unsandboxed" is true`)
	case !payload.Unsandboxed && payload.Image == nil:
		return nil, badParams(`missing "image"`)
	}
	_, err := who.event(ctx, types[state], payload, notClosed)
	return reported, err
}

var reported = struct {
	Reported bool `json:"reported"`
}{true}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return json.RawMessage("null")
	}
	return session.CompactJSON(raw)
}

var subagentEvents = map[string]string{
	"start": session.SubagentStart, "running": session.SubagentRunning, "completed": session.SubagentCompleted,
	"failed": session.SubagentFailed, "cancelled": session.SubagentCancelled,
}

// subagentReport is the payload of a local subagent's event. Which members a
// state has is the protocol's, "Events: payloads".
type subagentReport struct {
	Dispatch   string           `json:"dispatch"`
	SubagentID string           `json:"subagent_id"`
	Harness    string           `json:"harness"`
	Model      string           `json:"model"`
	Detail     *string          `json:"detail"`
	Reason     *json.RawMessage `json:"reason,omitempty"`
	ExitCode   *json.RawMessage `json:"exit_code,omitempty"`
}

func (c *Client) reportLocalSubagent(ctx context.Context, who *caller, p params) (any, error) {
	if err := who.driver("session.reportLocalSubagent"); err != nil {
		return nil, err
	}
	state, _ := str(p["state"])
	kind := subagentEvents[state]
	if kind == "" {
		return nil, badParams(`"state" must be "start", "running", "completed", "failed", or "cancelled"`)
	}
	report := subagentReport{Dispatch: "local"}
	for name, to := range map[string]*string{"subagent_id": &report.SubagentID, "harness": &report.Harness, "model": &report.Model} {
		v, _ := str(p[name])
		if strings.TrimSpace(v) == "" {
			return nil, badParams(`"subagent_id", "harness", and "model" must be non-empty strings`)
		}
		*to = v
	}
	for _, name := range []string{"detail", "reason"} {
		if _, ok := str(p[name]); !ok && !isNull(p[name]) {
			return nil, badParams(`"%s" must be a string or null`, name)
		}
	}
	if v, ok := str(p["detail"]); ok {
		report.Detail = &v
	}
	var code int64
	if v := p["exit_code"]; !isNull(v) && json.Unmarshal(v, &code) != nil {
		return nil, badParams(`"exit_code" must be an integer`)
	}
	if slices.Contains([]string{"failed", "cancelled"}, state) {
		v := orNull(p["reason"])
		report.Reason = &v
	}
	if slices.Contains([]string{"completed", "failed"}, state) {
		v := orNull(p["exit_code"])
		report.ExitCode = &v
	}
	_, err := who.event(ctx, kind, report, notClosed)
	return reported, err
}
