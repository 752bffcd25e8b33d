package main

import (
	"context"

	"github.com/lambae/lambae/internal/awsjson"
)

// ecs is the control plane, as the platform under it sees it.
type ecs struct{ client *awsjson.Client }

// task is what is used of a task's description. All of it goes into the state
// change event, see [ecs.describe].
type task struct {
	ARN       string `json:"taskArn"`
	Cluster   string `json:"clusterArn"`
	StartedBy string `json:"startedBy"`
	Overrides struct {
		Containers []struct {
			Name        string `json:"name"`
			Environment []struct{ Name, Value string }
		} `json:"containerOverrides"`
	} `json:"overrides"`
}

// variable is what a container's environment is overridden with.
func (t task) variable(container, name string) string {
	for _, c := range t.Overrides.Containers {
		for _, v := range c.Environment {
			if c.Name == container && v.Name == name {
				return v.Value
			}
		}
	}
	return ""
}

func (e *ecs) call(ctx context.Context, operation string, in, out any) error {
	return e.client.Call(ctx, "ecs", "AmazonEC2ContainerServiceV20141113."+operation, in, out)
}

// running is every task that runs, by its ARN, with its cluster.
func (e *ecs) running(ctx context.Context) (map[string]string, error) {
	var clusters struct {
		ARNs []string `json:"clusterArns"`
	}
	if err := e.call(ctx, "ListClusters", struct{}{}, &clusters); err != nil {
		return nil, err
	}
	found := map[string]string{}
	for _, cluster := range clusters.ARNs {
		var tasks struct {
			ARNs []string `json:"taskArns"`
		}
		if err := e.call(ctx, "ListTasks", map[string]string{"cluster": cluster, "desiredStatus": "RUNNING"}, &tasks); err != nil {
			return nil, err
		}
		for _, arn := range tasks.ARNs {
			found[arn] = cluster
		}
	}
	return found, nil
}

// describe returns a task, and the description as ECS gave it.
func (e *ecs) describe(ctx context.Context, cluster, arn string) (t task, whole map[string]any, err error) {
	in := map[string]any{"cluster": cluster, "tasks": []string{arn}}
	var typed struct{ Tasks []task }
	var untyped struct{ Tasks []map[string]any }
	if err := e.call(ctx, "DescribeTasks", in, &typed); err != nil || len(typed.Tasks) == 0 {
		return t, nil, err
	}
	if err := e.call(ctx, "DescribeTasks", in, &untyped); err != nil || len(untyped.Tasks) == 0 {
		return t, nil, err
	}
	return typed.Tasks[0], untyped.Tasks[0], nil
}

func (e *ecs) stop(ctx context.Context, cluster, arn, reason string) error {
	return e.call(ctx, "StopTask", map[string]string{"cluster": cluster, "task": arn, "reason": reason}, &struct{}{})
}
