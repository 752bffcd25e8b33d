package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	ecstypes "github.com/aws/aws-sdk-go-v2/service/ecs/types"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/agent"
	"github.com/lambae/lambae/internal/sandbox/fargate"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// control plays the control plane of ECS: a task is a sandboxd in this process.
type control struct {
	t testing.TB

	mu    sync.Mutex
	tasks map[string]*task
	runs  []*ecs.RunTaskInput
	fail  string // reason of the next run's failure
	crash string // reason for which the next task stops before sandboxd enrolls
}

type task struct {
	ecstypes.Task
	stop context.CancelFunc
	done chan struct{}
}

func (c *control) RunTask(_ context.Context, in *ecs.RunTaskInput, _ ...func(*ecs.Options)) (*ecs.RunTaskOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = append(c.runs, in)
	if c.fail != "" {
		return &ecs.RunTaskOutput{Failures: []ecstypes.Failure{{Reason: aws.String(c.fail)}}}, nil
	}
	arn := "arn:aws:ecs:eu-west-1:1:task/" + *in.StartedBy
	ctx, cancel := context.WithCancel(context.Background())
	k := &task{Task: ecstypes.Task{TaskArn: &arn, StartedBy: in.StartedBy, LastStatus: aws.String("RUNNING")}, stop: cancel, done: make(chan struct{})}
	c.tasks[arn] = k
	if c.crash != "" {
		k.LastStatus, k.StoppedReason = aws.String("STOPPED"), &c.crash
		return &ecs.RunTaskOutput{Tasks: []ecstypes.Task{k.Task}}, nil
	}
	var boot wire.Boot
	require.NoError(c.t, json.Unmarshal([]byte(*in.Overrides.ContainerOverrides[0].Environment[0].Value), &boot))
	boot.Dir = c.t.TempDir()
	go func() {
		defer close(k.done)
		_ = agent.New(agent.Options{Boot: boot, Env: []string{"PATH=/usr/bin:/bin"}, Poll: 5 * time.Millisecond, PollMax: 20 * time.Millisecond}).Run(ctx)
		c.mu.Lock()
		k.LastStatus = aws.String("STOPPED")
		c.mu.Unlock()
	}()
	return &ecs.RunTaskOutput{Tasks: []ecstypes.Task{k.Task}}, nil
}

func (c *control) StopTask(_ context.Context, in *ecs.StopTaskInput, _ ...func(*ecs.Options)) (*ecs.StopTaskOutput, error) {
	c.mu.Lock()
	k := c.tasks[*in.Task]
	c.mu.Unlock()
	k.stop()
	<-k.done
	return &ecs.StopTaskOutput{}, nil
}

func (c *control) ListTasks(_ context.Context, in *ecs.ListTasksInput, _ ...func(*ecs.Options)) (*ecs.ListTasksOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &ecs.ListTasksOutput{}
	for arn, k := range c.tasks {
		if *k.LastStatus != "STOPPED" && (in.StartedBy == nil || *in.StartedBy == *k.StartedBy) {
			out.TaskArns = append(out.TaskArns, arn)
		}
	}
	return out, nil
}

func (c *control) DescribeTasks(_ context.Context, in *ecs.DescribeTasksInput, _ ...func(*ecs.Options)) (*ecs.DescribeTasksOutput, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &ecs.DescribeTasksOutput{}
	for _, arn := range in.Tasks {
		out.Tasks = append(out.Tasks, c.tasks[arn].Task)
	}
	return out, nil
}

func (c *control) DescribeTaskDefinition(_ context.Context, in *ecs.DescribeTaskDefinitionInput, _ ...func(*ecs.Options)) (*ecs.DescribeTaskDefinitionOutput, error) {
	if *in.TaskDefinition != fargate.Family("box", "img") {
		return nil, &ecstypes.ClientException{Message: aws.String("Unable to describe task definition.")}
	}
	return &ecs.DescribeTaskDefinitionOutput{}, nil
}

// tasked starts a server whose sandboxes are tasks.
func tasked(t testing.TB) (*server, *control) {
	c := &control{t: t, tasks: map[string]*task{}}
	s := start(t, setup{boxes: func(q *queue.Queue, _ func(context.Context, string, string)) (sandbox.Driver, error) {
		return fargate.New(q, fargate.Options{ECS: c, Cluster: "c", Family: "box", Subnets: []string{"subnet-1"}, SecurityGroups: []string{"sg-1"}, Spot: true, Look: 10 * time.Millisecond}), nil
	}})
	t.Cleanup(func() {
		for _, k := range c.tasks {
			k.stop()
		}
	})
	return s, c
}

func TestTasksRunCommandsAndSubagents(t *testing.T) {
	t.Parallel()
	s, c := tasked(t)
	d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img", "other"}}), subagents)
	code, message := d.fault("session.startRemoteSandbox", `{"image":"other"}`)
	require.Equal(t, -32012, code)
	require.Contains(t, message, "there is no task definition box-other-")
	id := d.result("session.startRemoteSandbox", `{"image":"img"}`)["sandbox_id"].(string)
	require.Equal(t, "out\n", d.result("session.execRemoteSandbox", `{"command":"echo out"}`)["stdout"])
	require.Equal(t, "session.subagent.completed", d.ended(d.launch("cat", "m", "p")).Type)

	run := c.runs[0]
	require.Equal(t, id, *run.ClientToken)
	require.Equal(t, id, *run.StartedBy)
	require.Equal(t, "FARGATE_SPOT", *run.CapacityProviderStrategy[0].CapacityProvider)
	network := run.NetworkConfiguration.AwsvpcConfiguration
	require.Equal(t, ecstypes.AssignPublicIpDisabled, network.AssignPublicIp)
	require.Equal(t, []string{"sg-1"}, network.SecurityGroups)
	require.Nil(t, run.Overrides.TaskRoleArn)
	var boot wire.Boot
	require.NoError(t, json.Unmarshal([]byte(*run.Overrides.ContainerOverrides[0].Environment[0].Value), &boot))
	require.Equal(t, s.url, boot.URL, "the task calls where the client called")
	require.Equal(t, int64(12*60*60), boot.MaxSeconds)

	d.result("session.stopRemoteSandbox", `{}`)
	all, err := c.ListTasks(t.Context(), &ecs.ListTasksInput{})
	require.NoError(t, err)
	require.Empty(t, all.TaskArns)
}

func TestATaskThatCannotRunIsAFailedStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ fail, crash, want string }{
		"refused": {"RESOURCE:MEMORY", "", "run a task: RESOURCE:MEMORY"},
		"crashed": {"", "CannotPullContainerError: no such image", "the task has stopped: CannotPullContainerError: no such image"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, ecs := tasked(t)
			ecs.fail, ecs.crash = c.fail, c.crash
			d := s.open(s.profile(map[string]any{"available_sandboxes": []string{"img"}}), `{}`)
			code, message := d.fault("session.startRemoteSandbox", `{"image":"img"}`)
			require.Equal(t, "-32012 sandbox_start_failed: "+c.want, fmt.Sprintf("%d %s", code, message))
			rows, err := s.app.Store.Sandboxes(t.Context())
			require.NoError(t, err)
			require.Empty(t, rows)
		})
	}
}

func TestTheSweepFindsLostTasksAndStrayOnes(t *testing.T) {
	t.Parallel()
	s, c := tasked(t)
	profile := s.profile(map[string]any{"available_sandboxes": []string{"img"}})
	lost, fine := s.open(profile, subagents), s.open(profile, subagents)
	for _, d := range []*driver{lost, fine} {
		d.result("session.startRemoteSandbox", `{"image":"img"}`)
	}
	agent := lost.launch("long", "m", "p")
	var first *task
	for _, k := range c.tasks {
		if *k.StartedBy == *c.runs[0].StartedBy {
			first = k
		}
	}
	first.stop() // as when AWS takes it back, and the news of it get lost
	<-first.done
	stray := "sbx_ffffffffffffffffffffffffffffffff"
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { <-ctx.Done(); close(done) }()
	arn := "arn:stray"
	c.mu.Lock()
	c.tasks[arn] = &task{Task: ecstypes.Task{TaskArn: &arn, StartedBy: &stray, LastStatus: aws.String("RUNNING")}, stop: cancel, done: done}
	c.mu.Unlock()

	require.NoError(t, s.app.Sandboxes.Sweep(t.Context()))
	require.Equal(t, "session.subagent.failed", lost.ended(agent).Type)
	tail := lost.log()
	require.Equal(t, "session.sandbox.stopped", tail[len(tail)-1].Type)
	require.Error(t, ctx.Err(), "the stray task runs on")
	require.Equal(t, "x\n", fine.result("session.execRemoteSandbox", `{"command":"echo x"}`)["stdout"])
}
