package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-lambda-go/events"

	"github.com/lambae/lambae/internal/sandbox/fargate"
	"github.com/lambae/lambae/internal/session"
)

// sandboxes is what the handler tells.
type sandboxes interface {
	// Lost notes that a sandbox ended by itself. Late and repeated news are no error.
	Lost(ctx context.Context, id, detail string) error
}

// handler takes EventBridge events.
type handler struct {
	sandboxes sandboxes
	sweep     func(ctx context.Context)
}

// handle does what one event asks. An error makes EventBridge deliver it again.
func (h handler) handle(ctx context.Context, e events.EventBridgeEvent) error {
	switch e.DetailType {
	case "Scheduled Event":
		h.sweep(ctx)
		return nil
	case "ECS Task State Change":
	default:
		return nil
	}
	var t fargate.Task // the detail is one
	if err := json.Unmarshal(e.Detail, &t); err != nil {
		return fmt.Errorf("read the task state change %s: %w", e.ID, err)
	}
	if !t.Stopped() || !session.IsID(session.SandboxPrefix, t.StartedBy) {
		return nil
	}
	return h.sandboxes.Lost(ctx, t.StartedBy, t.Reason())
}
