package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

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

// taskChange is the detail of an "ECS Task State Change", as far as it matters.
type taskChange struct {
	LastStatus    string `json:"lastStatus"`
	StartedBy     string `json:"startedBy"`
	StopCode      string `json:"stopCode"`
	StoppedReason string `json:"stoppedReason"`
	Containers    []struct {
		Name   string `json:"name"`
		Reason string `json:"reason"`
	} `json:"containers"`
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
	var t taskChange
	if err := json.Unmarshal(e.Detail, &t); err != nil {
		return fmt.Errorf("read the task state change %s: %w", e.ID, err)
	}
	if t.LastStatus != "STOPPED" || !session.IsID(session.SandboxPrefix, t.StartedBy) {
		return nil
	}
	return h.sandboxes.Lost(ctx, t.StartedBy, t.reason())
}

func (t taskChange) reason() string {
	task := types.Task{StoppedReason: &t.StoppedReason}
	for i := range t.Containers {
		task.Containers = append(task.Containers, types.Container{Name: &t.Containers[i].Name, Reason: &t.Containers[i].Reason})
	}
	text := fargate.Reason(task)
	if strings.Contains(t.StopCode, "Spot") {
		text += " (AWS took the spare capacity back)"
	}
	return text
}
