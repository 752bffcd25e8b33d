package fargate

import (
	"context"
	"fmt"
	"strings"

	"github.com/lambae/lambae/internal/awsjson"
)

// ECS calls the operations of ECS that the driver needs. Shapes are those of the
// ECS API reference, with the members that are used.
type ECS struct{ client *awsjson.Client }

// NewECS returns an ECS that makes its calls with client.
func NewECS(client *awsjson.Client) *ECS { return &ECS{client} }

// Codes of refusals.
const (
	codeClient           = "ClientException"           // also for a task definition that does not exist
	codeInvalidParameter = "InvalidParameterException" // also for a task that does not exist
)

// maxDescribe is how many tasks one DescribeTasks takes.
const maxDescribe = 100

// Statuses and capacity of tasks.
const (
	statusStopped = "STOPPED"
	onDemand      = "FARGATE"
	spareCapacity = "FARGATE_SPOT"
)

type (
	runTask struct {
		Cluster                  string             `json:"cluster"`
		TaskDefinition           string             `json:"taskDefinition"`
		Count                    int                `json:"count"`
		ClientToken              string             `json:"clientToken"`
		StartedBy                string             `json:"startedBy"`
		CapacityProviderStrategy []capacityProvider `json:"capacityProviderStrategy"`
		NetworkConfiguration     network            `json:"networkConfiguration"`
		Overrides                overrides          `json:"overrides"`
		Tags                     []tag              `json:"tags"`
	}
	capacityProvider struct {
		CapacityProvider string `json:"capacityProvider"`
		Weight           int    `json:"weight"`
	}
	network struct {
		VPC vpc `json:"awsvpcConfiguration"`
	}
	vpc struct {
		Subnets        []string `json:"subnets"`
		SecurityGroups []string `json:"securityGroups"`
		AssignPublicIP string   `json:"assignPublicIp"`
	}
	overrides struct {
		ContainerOverrides []containerOverride `json:"containerOverrides"`
	}
	containerOverride struct {
		Name        string     `json:"name"`
		Environment []variable `json:"environment"`
	}
	variable struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	tag struct {
		Key   string `json:"key"`
		Value string `json:"value"`
	}
	// failure says why one task was not started or described.
	failure struct {
		Reason string `json:"reason"`
		Detail string `json:"detail"`
	}
)

// Task is a task as ECS describes it, in answers and in state change events.
type Task struct {
	ARN           string      `json:"taskArn"`
	LastStatus    string      `json:"lastStatus"`
	StartedBy     string      `json:"startedBy"`
	StopCode      string      `json:"stopCode"`
	StoppedReason string      `json:"stoppedReason"`
	Containers    []Container `json:"containers"`
}

// Container is a container of a [Task].
type Container struct {
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// Stopped reports whether the task has ended.
func (t Task) Stopped() bool { return t.LastStatus == statusStopped }

// Reason says for people why a task stopped.
func (t Task) Reason() string {
	text := "the task has stopped"
	if t.StoppedReason != "" {
		text += ": " + t.StoppedReason
	}
	for _, c := range t.Containers {
		if c.Reason != "" {
			text += "; " + c.Name + ": " + c.Reason
		}
	}
	if strings.Contains(t.StopCode, "Spot") {
		text += " (AWS took the spare capacity back)"
	}
	return text
}

func (e *ECS) call(ctx context.Context, operation string, in, out any) error {
	return e.client.Call(ctx, "ecs", "AmazonEC2ContainerServiceV20141113."+operation, in, out)
}

// run starts a task. A repetition with the same client token starts nothing.
func (e *ECS) run(ctx context.Context, in runTask) (Task, error) {
	var out struct {
		Tasks    []Task    `json:"tasks"`
		Failures []failure `json:"failures"`
	}
	if err := e.call(ctx, "RunTask", in, &out); err != nil {
		return Task{}, err
	}
	if len(out.Failures) > 0 || len(out.Tasks) == 0 {
		return Task{}, fmt.Errorf("%s", failures(out.Failures))
	}
	return out.Tasks[0], nil
}

func failures(list []failure) string {
	var out []string
	for _, f := range list {
		out = append(out, strings.TrimSpace(f.Reason+" "+f.Detail))
	}
	if len(out) == 0 {
		return "ECS started none and did not say why"
	}
	return strings.Join(out, "; ")
}

// stop ends a task. One that is not there is no error.
func (e *ECS) stop(ctx context.Context, cluster, arn, reason string) error {
	err := e.call(ctx, "StopTask", map[string]string{"cluster": cluster, "task": arn, "reason": reason}, &struct{}{})
	if awsjson.Is(err, codeInvalidParameter) {
		return nil
	}
	return err
}

// list returns the ARNs of the cluster's tasks that run, of one starter or, with
// "", of all.
func (e *ECS) list(ctx context.Context, cluster, startedBy string) (arns []string, err error) {
	in := struct {
		Cluster   string `json:"cluster"`
		StartedBy string `json:"startedBy,omitempty"`
		NextToken string `json:"nextToken,omitempty"`
	}{Cluster: cluster, StartedBy: startedBy}
	for {
		var out struct {
			TaskARNs  []string `json:"taskArns"`
			NextToken string   `json:"nextToken"`
		}
		if err := e.call(ctx, "ListTasks", in, &out); err != nil {
			return nil, err
		}
		arns = append(arns, out.TaskARNs...)
		if in.NextToken = out.NextToken; in.NextToken == "" {
			return arns, nil
		}
	}
}

// describe returns those of the tasks that ECS still knows.
func (e *ECS) describe(ctx context.Context, cluster string, arns []string) (tasks []Task, err error) {
	for len(arns) > 0 {
		n := min(len(arns), maxDescribe)
		var out struct {
			Tasks []Task `json:"tasks"`
		}
		if err := e.call(ctx, "DescribeTasks", map[string]any{"cluster": cluster, "tasks": arns[:n]}, &out); err != nil {
			return nil, err
		}
		tasks, arns = append(tasks, out.Tasks...), arns[n:]
	}
	return tasks, nil
}

// defines reports whether there is an active task definition of the family.
func (e *ECS) defines(ctx context.Context, family string) (bool, error) {
	err := e.call(ctx, "DescribeTaskDefinition", map[string]string{"taskDefinition": family}, &struct{}{})
	if awsjson.Is(err, codeClient) {
		return false, nil
	}
	return err == nil, err
}
