package api

import (
	"context"
	"slices"
	"strings"

	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

var errNotRunning = refuse(codeSandboxStopped, "sandbox_not_running: no remote sandbox is running for this session")

// remoteSandbox is the payload of a remote sandbox's event.
type remoteSandbox struct {
	Image    string `json:"image"`
	Phase    string `json:"phase,omitempty"`
	Detail   string `json:"detail,omitempty"`
	Dispatch string `json:"dispatch"`
}

// startRemoteSandbox checks in the protocol's order and starts. Without a driver
// the start fails as any failing start does.
func (c *Client) startRemoteSandbox(ctx context.Context, who *caller, p params) (any, error) {
	if err := who.driver("session.startRemoteSandbox"); err != nil {
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
	if _, err := who.event(ctx, session.SandboxStart, remoteSandbox{Image: image, Dispatch: "remote"}, openOnly); err != nil {
		return nil, err
	}
	detail := turn.NoDriver
	failed := remoteSandbox{Image: image, Phase: "start", Detail: detail, Dispatch: "remote"}
	if _, err := who.event(ctx, session.SandboxError, failed, nil); err != nil {
		return nil, err
	}
	return nil, refuse(codeSandboxStart, "sandbox_start_failed: %s", detail)
}

func (c *Client) stopRemoteSandbox(_ context.Context, who *caller, _ params) (any, error) {
	if err := who.driver("session.stopRemoteSandbox"); err != nil {
		return nil, err
	}
	return nil, errNotRunning
}

func (c *Client) execRemoteSandbox(_ context.Context, who *caller, p params) (any, error) {
	if err := who.driver("session.execRemoteSandbox"); err != nil {
		return nil, err
	}
	if _, ok := str(p["command"]); !ok {
		return nil, badParams(`missing "command"`)
	}
	return nil, errNotRunning
}
