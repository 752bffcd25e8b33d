package main

import (
	"context"
	"errors"
	"testing"

	"github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/require"
)

// notes is what the handler told.
type notes struct {
	lost   [][2]string
	swept  int
	refuse error
}

func (n *notes) Lost(_ context.Context, id, detail string) error {
	n.lost = append(n.lost, [2]string{id, detail})
	return n.refuse
}

const sbx = "sbx_0123456789abcdef0123456789abcdef"

func TestTaskEventsBecomeNewsOfSandboxes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kind, detail string
		lost         string // "" when nobody is told
	}{
		"out of memory": {"ECS Task State Change", `{"lastStatus":"STOPPED","startedBy":"` + sbx + `","stopCode":"EssentialContainerExited","stoppedReason":"Essential container in task exited",
			"containers":[{"name":"init"},{"name":"sandbox","reason":"OutOfMemoryError: Container killed due to memory usage","exitCode":137}]}`,
			"the task has stopped: Essential container in task exited; sandbox: OutOfMemoryError: Container killed due to memory usage"},
		"taken back by Spot": {"ECS Task State Change", `{"lastStatus":"STOPPED","startedBy":"` + sbx + `","stopCode":"SpotInterruption","stoppedReason":"Your Spot Task was interrupted."}`,
			"the task has stopped: Your Spot Task was interrupted. (AWS took the spare capacity back)"},
		"still running":       {"ECS Task State Change", `{"lastStatus":"RUNNING","startedBy":"` + sbx + `"}`, ""},
		"somebody else's":     {"ECS Task State Change", `{"lastStatus":"STOPPED","startedBy":"ecs-svc/123"}`, ""},
		"nobody's":            {"ECS Task State Change", `{"lastStatus":"STOPPED"}`, ""},
		"another kind":        {"ECS Deployment State Change", `{}`, ""},
		"something new in it": {"ECS Task State Change", `{"lastStatus":"STOPPED","startedBy":"` + sbx + `","new":{"a":[1]}}`, "the task has stopped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := &notes{}
			h := handler{sandboxes: n, sweep: func(context.Context) { n.swept++ }}
			require.NoError(t, h.handle(t.Context(), events.EventBridgeEvent{DetailType: c.kind, Detail: []byte(c.detail)}))
			require.Zero(t, n.swept)
			if c.lost == "" {
				require.Empty(t, n.lost)
				return
			}
			require.Equal(t, [][2]string{{sbx, c.lost}}, n.lost)
		})
	}
}

func TestTheScheduleSweeps(t *testing.T) {
	t.Parallel()
	n := &notes{}
	h := handler{sandboxes: n, sweep: func(context.Context) { n.swept++ }}
	require.NoError(t, h.handle(t.Context(), events.EventBridgeEvent{DetailType: "Scheduled Event"}))
	require.Equal(t, 1, n.swept)
}

func TestNewsThatCannotBeNotedComeAgain(t *testing.T) {
	t.Parallel()
	n := &notes{refuse: errors.New("the table is away")}
	h := handler{sandboxes: n}
	require.ErrorIs(t, h.handle(t.Context(), events.EventBridgeEvent{DetailType: "ECS Task State Change", Detail: []byte(`{"lastStatus":"STOPPED","startedBy":"` + sbx + `"}`)}), n.refuse)
	require.Error(t, h.handle(t.Context(), events.EventBridgeEvent{DetailType: "ECS Task State Change", Detail: []byte(`[`)}))
}
