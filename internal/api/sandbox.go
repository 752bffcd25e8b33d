package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

var errNotRunning = refuse(codeSandboxStopped, "sandbox_not_running: no remote sandbox is running for this session")

// startRemoteSandbox checks in the protocol's order and starts. Without a driver
// the start fails as any failing start does.
func (c *Client) startRemoteSandbox(ctx context.Context, who *caller, p params) (any, error) {
	if err := who.openDriver("session.startRemoteSandbox"); err != nil {
		return nil, err
	}
	image, _ := str(p["image"])
	switch {
	case strings.TrimSpace(image) == "":
		return nil, badParams(`missing "image"`)
	case who.gone:
		return nil, refuse(codeRefused, "profile_unavailable: the session's profile was deleted")
	case !slices.Contains(who.profile.AvailableSandboxes, image):
		return nil, refuse(codeImageNotAllowed, "sandbox_image_not_allowed: image %q is not in this session profile's available_sandboxes", image)
	}
	id, at, err := c.Engine.Sandboxes.Start(ctx, who.log, turn.Wanted{Key: who.key, Profile: who.profileID, Image: image, Server: who.server})
	var failed *turn.SandboxError
	if errors.As(err, &failed) {
		return nil, refuse(codeSandboxStart, "sandbox_start_failed: %s", failed.Detail)
	}
	return struct {
		SandboxID string `json:"sandbox_id"`
		Image     string `json:"image"`
		StartedAt string `json:"started_at"`
	}{id, image, session.FormatTime(at)}, err
}

func (c *Client) stopRemoteSandbox(ctx context.Context, who *caller, _ params) (any, error) {
	if err := who.driver("session.stopRemoteSandbox"); err != nil {
		return nil, err
	}
	b, err := c.Engine.Sandboxes.Stop(ctx, who.log)
	var failed *turn.SandboxError
	switch {
	case errors.Is(err, session.ErrNoSandbox):
		return nil, errNotRunning
	case errors.As(err, &failed):
		return nil, refuse(codeRefused, "sandbox stop failed: %s", failed.Detail)
	}
	return struct {
		Stopped   bool   `json:"stopped"`
		Image     string `json:"image"`
		SandboxID string `json:"sandbox_id"`
	}{true, b.Image, b.ID}, err
}

func (c *Client) execRemoteSandbox(ctx context.Context, who *caller, p params) (any, error) {
	return c.execute(ctx, who, p, nil)
}

// execute runs a command. A failing driver leaves an event, a command that ran
// leaves none.
func (c *Client) execute(ctx context.Context, who *caller, p params, output func(stream, text string)) (any, error) {
	if err := who.driver("session.execRemoteSandbox"); err != nil {
		return nil, err
	}
	command, ok := str(p["command"])
	if !ok {
		return nil, badParams(`missing "command"`)
	}
	id, res, err := c.Engine.Sandboxes.Exec(ctx, who.log, command, output)
	if errors.Is(err, session.ErrNoSandbox) {
		return nil, errNotRunning
	}
	if err != nil {
		detail := err.Error()
		if err := who.log.SandboxFailed(context.WithoutCancel(ctx), who.key, id, detail); err != nil {
			return nil, err
		}
		return nil, refuse(codeRefused, "sandbox exec failed: %s", detail)
	}
	return turn.CommandResult(res), nil
}

// watchExec serves a session.execRemoteSandbox with stream: true, whose output
// comes as notifications while the command runs. They are not stored.
func (c *Client) watchExec(w http.ResponseWriter, r *http.Request, who *caller, req rpcRequest) {
	out := newLines(w, r, who.log.ID, c.source(who.log.ID))
	defer out.close()
	notify := out.output
	if req.ID == nil {
		notify = nil
	}
	result, err := c.execute(context.WithoutCancel(r.Context()), who, req.Params, notify)
	out.answer(req.ID, result, c.toRPC(r, err))
}

// wantsStream reads the opt-in to notifications.
func wantsStream(p params) bool {
	var stream bool
	return json.Unmarshal(p["stream"], &stream) == nil && stream
}

// output writes what a command said as a notification.
func (l *lines) output(stream, text string) {
	type params struct {
		SessionID string `json:"session_id"`
		Stream    string `json:"stream"`
		Text      string `json:"text"`
	}
	b := append([]byte(`{"jsonrpc":"2.0","method":"session.sandbox.output","params":`), session.EscapeLines(session.MarshalJSON(params{l.sid, stream, text}))...)
	l.put(newPiece(append(b, eventTail...)))
}

// cancelSubagent cancels one remote subagent. One that has ended already is a
// success that changes nothing.
func (c *Client) cancelSubagent(ctx context.Context, who *caller, p params) (any, error) {
	if err := who.driver("session.cancelSubagent"); err != nil {
		return nil, err
	}
	id, _ := str(p["subagent_id"])
	if strings.TrimSpace(id) == "" {
		return nil, badParams(`missing "subagent_id"`)
	}
	was, err := c.Engine.Sandboxes.Cancel(ctx, who.log, id)
	if errors.Is(err, turn.ErrNoSubagent) {
		return nil, refuse(codeSubagentNotFound, "subagent_not_found: no tracked subagent %q for this session", id)
	}
	return struct {
		Cancelled  bool   `json:"cancelled"`
		SubagentID string `json:"subagent_id"`
		WasRunning bool   `json:"was_running"`
	}{true, id, was}, err
}
