package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/awsjson"
	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/agent"
	"github.com/lambae/lambae/internal/sandbox/fargate"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// control plays the control plane of ECS over HTTP: a task is a sandboxd in this
// process.
type control struct {
	t testing.TB

	mu    sync.Mutex
	tasks map[string]*task // by ARN
	runs  []run
	fail  string // reason of the next run's failure
	crash string // reason for which the next task stops before sandboxd enrolls
}

type task struct {
	fargate.Task
	stop context.CancelFunc
	done chan struct{}
}

// run is what RunTask was asked.
type run struct {
	Cluster, TaskDefinition, ClientToken, StartedBy string
	CapacityProviderStrategy                        []struct{ CapacityProvider string }
	NetworkConfiguration                            struct {
		AwsvpcConfiguration struct {
			Subnets, SecurityGroups []string
			AssignPublicIp          string
		}
	}
	Overrides struct {
		TaskRoleArn        *string
		ContainerOverrides []struct {
			Name        string
			Environment []struct{ Name, Value string }
		}
	}
}

func (r run) boot(t testing.TB) (boot wire.Boot) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(r.Overrides.ContainerOverrides[0].Environment[0].Value), &boot))
	return boot
}

func (c *control) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var in struct {
		Task, StartedBy, TaskDefinition string
		Tasks                           []string
	}
	_ = json.Unmarshal(body, &in)
	var out any = struct{}{}
	switch operation := r.Header.Get("X-Amz-Target"); operation {
	case "AmazonEC2ContainerServiceV20141113.RunTask":
		var asked run
		_ = json.Unmarshal(body, &asked)
		out = c.run(asked)
	case "AmazonEC2ContainerServiceV20141113.StopTask":
		c.stop(in.Task)
	case "AmazonEC2ContainerServiceV20141113.ListTasks":
		out = map[string]any{"taskArns": c.running(in.StartedBy)}
	case "AmazonEC2ContainerServiceV20141113.DescribeTasks":
		out = map[string]any{"tasks": c.described(in.Tasks)}
	case "AmazonEC2ContainerServiceV20141113.DescribeTaskDefinition":
		if in.TaskDefinition != fargate.Family("box", "img") {
			w.WriteHeader(http.StatusBadRequest)
			out = map[string]any{"__type": "ClientException", "message": "Unable to describe task definition."}
		}
	default:
		w.WriteHeader(http.StatusBadRequest)
		out = map[string]any{"__type": "UnknownOperationException", "message": operation}
	}
	_ = json.NewEncoder(w).Encode(out)
}

func (c *control) run(asked run) any {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = append(c.runs, asked)
	if c.fail != "" {
		return map[string]any{"failures": []any{map[string]string{"reason": c.fail}}}
	}
	k := c.add(asked.StartedBy)
	started := map[string]any{"tasks": []fargate.Task{k.Task}}
	if c.crash != "" {
		k.LastStatus, k.StoppedReason = "STOPPED", c.crash
		return started
	}
	boot := asked.boot(c.t)
	boot.Dir = c.t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	k.stop = cancel
	go func() {
		defer close(k.done)
		_ = agent.New(agent.Options{Boot: boot, Env: []string{"PATH=/usr/bin:/bin"}, Poll: 5 * time.Millisecond, PollMax: 20 * time.Millisecond}).Run(ctx)
		c.mu.Lock()
		k.LastStatus = "STOPPED"
		c.mu.Unlock()
	}()
	return started
}

// add adds a task that runs nothing. The caller holds mu.
func (c *control) add(startedBy string) *task {
	k := &task{
		Task: fargate.Task{ARN: "arn:aws:ecs:eu-west-1:1:task/" + startedBy, StartedBy: startedBy, LastStatus: "RUNNING"},
		stop: func() {}, done: make(chan struct{}),
	}
	c.tasks[k.ARN] = k
	return k
}

func (c *control) stop(arn string) {
	c.mu.Lock()
	k := c.tasks[arn]
	c.mu.Unlock()
	k.stop()
	<-k.done
}

func (c *control) running(startedBy string) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	arns := []string{}
	for arn, k := range c.tasks {
		if !k.Stopped() && (startedBy == "" || startedBy == k.StartedBy) {
			arns = append(arns, arn)
		}
	}
	return arns
}

func (c *control) described(arns []string) (tasks []fargate.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, arn := range arns {
		tasks = append(tasks, c.tasks[arn].Task)
	}
	return tasks
}

// tasked starts a server whose sandboxes are tasks.
func tasked(t testing.TB) (*server, *control) {
	c := &control{t: t, tasks: map[string]*task{}}
	ecs := httptest.NewServer(c)
	t.Cleanup(ecs.Close)
	client := awsjson.New(func(context.Context) (aws.Config, error) {
		keys := aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "id", SecretAccessKey: "key"}, nil
		})
		return aws.Config{Region: "eu-west-1", BaseEndpoint: &ecs.URL, Credentials: keys}, nil
	})
	s := start(t, setup{boxes: func(q *queue.Queue, _ func(context.Context, string, string)) (sandbox.Driver, error) {
		return fargate.New(q, fargate.Options{ECS: fargate.NewECS(client), Cluster: "c", Family: "box", Subnets: []string{"subnet-1"}, SecurityGroups: []string{"sg-1"}, Spot: true, Download: func(context.Context) (string, error) { return "https://signed", nil }, Look: 10 * time.Millisecond}), nil
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
	require.Equal(t, id, run.ClientToken)
	require.Equal(t, id, run.StartedBy)
	require.Equal(t, "c", run.Cluster)
	require.Equal(t, fargate.Family("box", "img"), run.TaskDefinition)
	require.Equal(t, "FARGATE_SPOT", run.CapacityProviderStrategy[0].CapacityProvider)
	network := run.NetworkConfiguration.AwsvpcConfiguration
	require.Equal(t, "DISABLED", network.AssignPublicIp)
	require.Equal(t, []string{"subnet-1"}, network.Subnets)
	require.Equal(t, []string{"sg-1"}, network.SecurityGroups)
	require.Nil(t, run.Overrides.TaskRoleArn)
	require.Equal(t, fargate.ContainerName, run.Overrides.ContainerOverrides[0].Name)
	require.Equal(t, fargate.InitName, run.Overrides.ContainerOverrides[1].Name)
	require.Equal(t, []struct{ Name, Value string }{{fargate.DownloadVariable, "https://signed"}}, run.Overrides.ContainerOverrides[1].Environment)
	boot := run.boot(t)
	require.Equal(t, s.url, boot.URL, "the task calls where the client called")
	require.Equal(t, int64(12*60*60), boot.MaxSeconds)

	d.result("session.stopRemoteSandbox", `{}`)
	require.Empty(t, c.running(""))
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
		if k.StartedBy == c.runs[0].StartedBy {
			first = k
		}
	}
	first.stop() // as when AWS takes it back, and the news of it get lost
	<-first.done
	ctx, cancel := context.WithCancel(t.Context())
	c.mu.Lock()
	stray := c.add("sbx_ffffffffffffffffffffffffffffffff")
	stray.stop = cancel
	close(stray.done)
	c.mu.Unlock()

	require.NoError(t, s.app.Sandboxes.Sweep(t.Context()))
	require.Equal(t, "session.subagent.failed", lost.ended(agent).Type)
	tail := lost.log()
	require.Equal(t, "session.sandbox.stopped", tail[len(tail)-1].Type)
	require.Error(t, ctx.Err(), "the stray task runs on")
	require.Equal(t, "x\n", fine.result("session.execRemoteSandbox", `{"command":"echo x"}`)["stdout"])
}
