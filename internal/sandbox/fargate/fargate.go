// Package fargate runs sandboxes as Fargate tasks. A task runs the profile's image
// with sandboxd as its entry point, which an init container of the task definition
// copies into a volume; so any image works. It has no role, no inbound port and
// knows nothing but a code that is of no use once sandboxd has enrolled.
//
// There is a task definition per image, see [Family]: ECS does not let a task
// replace its image. The stack makes them.
package fargate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ecs"
	"github.com/aws/aws-sdk-go-v2/service/ecs/types"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// ECS is what the driver needs of [ecs.Client].
type ECS interface {
	RunTask(ctx context.Context, in *ecs.RunTaskInput, o ...func(*ecs.Options)) (*ecs.RunTaskOutput, error)
	StopTask(ctx context.Context, in *ecs.StopTaskInput, o ...func(*ecs.Options)) (*ecs.StopTaskOutput, error)
	ListTasks(ctx context.Context, in *ecs.ListTasksInput, o ...func(*ecs.Options)) (*ecs.ListTasksOutput, error)
	DescribeTasks(ctx context.Context, in *ecs.DescribeTasksInput, o ...func(*ecs.Options)) (*ecs.DescribeTasksOutput, error)
	DescribeTaskDefinition(ctx context.Context, in *ecs.DescribeTaskDefinitionInput, o ...func(*ecs.Options)) (*ecs.DescribeTaskDefinitionOutput, error)
}

// Container is the name of the container that runs the image, in every task
// definition.
const Container = "sandbox"

// BootVariable is the environment variable of that container with a [wire.Boot].
// sandboxd takes it out of its environment before it does anything else.
const BootVariable = "LAMBAE_BOOT"

// Options of a [Driver].
type Options struct {
	ECS            ECS
	Cluster        string // name or ARN
	Family         string // beginning of the task definitions' families
	Subnets        []string
	SecurityGroups []string
	// Spot runs tasks on spare capacity, which AWS may take back.
	Spot bool
	// URL is where tasks reach the client API; "" takes the one at which the client
	// did that asked for the sandbox.
	URL string
	// MaxAge is how long a task may run at most; 12 hours by default.
	MaxAge time.Duration
	// Look is how often a task that starts is looked at; 3 s by default.
	Look time.Duration
}

// Driver runs tasks. It implements [sandbox.Driver]; commands go through the queue.
type Driver struct {
	*queue.Queue
	o Options

	mu     sync.Mutex
	images map[string]known
}

// known is what is known of an image's task definition, and since when.
type known struct {
	status sandbox.ImageStatus
	at     time.Time
}

var _ sandbox.Driver = (*Driver)(nil)

// New returns a driver.
func New(q *queue.Queue, o Options) *Driver {
	if o.MaxAge == 0 {
		o.MaxAge = 12 * time.Hour
	}
	if o.Look == 0 {
		o.Look = 3 * time.Second
	}
	return &Driver{Queue: q, o: o, images: map[string]known{}}
}

// Name implements [sandbox.Driver].
func (d *Driver) Name() string { return "fargate" }

// Family is the family of the task definition that runs an image.
func Family(prefix, image string) string {
	sum := sha256.Sum256([]byte(image))
	slug := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(image, "-"), "-")
	if len(slug) > 60 {
		slug = slug[len(slug)-60:]
	}
	return prefix + "-" + strings.Trim(slug, "-") + "-" + hex.EncodeToString(sum[:4])
}

// imagesFor is how long an answer about an image counts.
const imagesFor = time.Minute

// Images implements [sandbox.Driver].
func (d *Driver) Images(ctx context.Context, names []string) []sandbox.ImageStatus {
	out := make([]sandbox.ImageStatus, len(names))
	for i, n := range names {
		out[i] = d.image(ctx, n)
	}
	return out
}

func (d *Driver) image(ctx context.Context, name string) sandbox.ImageStatus {
	d.mu.Lock()
	k, ok := d.images[name]
	d.mu.Unlock()
	if ok && time.Since(k.at) < imagesFor {
		return k.status
	}
	s := sandbox.ImageStatus{Name: name, Status: sandbox.ImageAvailable}
	family := Family(d.o.Family, name)
	_, err := d.o.ECS.DescribeTaskDefinition(ctx, &ecs.DescribeTaskDefinitionInput{TaskDefinition: &family})
	var missing *types.ClientException
	switch {
	case errors.As(err, &missing):
		s.Status, s.Detail = sandbox.ImageError, fmt.Sprintf("sandbox image %q error: there is no task definition %s; add the image to the stack's sandbox images", name, family)
	case err != nil:
		return sandbox.ImageStatus{Name: name, Status: sandbox.ImagePending}
	}
	d.mu.Lock()
	d.images[name] = known{s, time.Now()}
	d.mu.Unlock()
	return s
}

// Start implements [sandbox.Driver].
func (d *Driver) Start(ctx context.Context, s sandbox.Spec) (err error) {
	if im := d.image(ctx, s.Image); im.Status == sandbox.ImageError {
		return errors.New(im.Detail)
	}
	server := d.o.URL
	if server == "" {
		server = s.Server
	}
	code, err := d.Prepare(ctx, s.ID)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.Stop(context.WithoutCancel(ctx), s.ID))
		}
	}()
	boot, err := json.Marshal(wire.Boot{URL: server, Sandbox: s.ID, Code: code, MaxSeconds: int64(d.o.MaxAge / time.Second)})
	if err != nil {
		return err
	}
	out, err := d.o.ECS.RunTask(ctx, d.task(s, string(boot)))
	if err != nil {
		return fmt.Errorf("run a task: %w", err)
	}
	if len(out.Failures) > 0 || len(out.Tasks) == 0 {
		return fmt.Errorf("run a task: %s", failures(out.Failures))
	}
	return d.enrolled(ctx, s.ID, aws.ToString(out.Tasks[0].TaskArn))
}

func (d *Driver) task(s sandbox.Spec, boot string) *ecs.RunTaskInput {
	capacity := "FARGATE"
	if d.o.Spot {
		capacity = "FARGATE_SPOT"
	}
	return &ecs.RunTaskInput{
		Cluster: &d.o.Cluster, TaskDefinition: aws.String(Family(d.o.Family, s.Image)), Count: aws.Int32(1),
		// The id makes a repeated call start nothing twice, and finds the task again.
		ClientToken: &s.ID, StartedBy: &s.ID,
		CapacityProviderStrategy: []types.CapacityProviderStrategyItem{{CapacityProvider: &capacity, Weight: 1}},
		NetworkConfiguration: &types.NetworkConfiguration{AwsvpcConfiguration: &types.AwsVpcConfiguration{
			Subnets: d.o.Subnets, SecurityGroups: d.o.SecurityGroups, AssignPublicIp: types.AssignPublicIpDisabled,
		}},
		Overrides: &types.TaskOverride{ContainerOverrides: []types.ContainerOverride{{
			Name: aws.String(Container), Environment: []types.KeyValuePair{{Name: aws.String(BootVariable), Value: &boot}},
		}}},
		Tags: []types.Tag{
			{Key: aws.String("lambae:sandbox"), Value: &s.ID},
			{Key: aws.String("lambae:session"), Value: &s.Session},
			{Key: aws.String("lambae:stop-after"), Value: aws.String(time.Now().Add(d.o.MaxAge).UTC().Format(time.RFC3339))},
		},
	}
}

func failures(list []types.Failure) string {
	var out []string
	for _, f := range list {
		out = append(out, strings.TrimSpace(aws.ToString(f.Reason)+" "+aws.ToString(f.Detail)))
	}
	if len(out) == 0 {
		return "ECS started none and did not say why"
	}
	return strings.Join(out, "; ")
}

// enrolled waits for sandboxd, and meanwhile for a task that ends instead.
func (d *Driver) enrolled(ctx context.Context, id, task string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		t := time.NewTicker(d.o.Look)
		defer t.Stop()
		for {
			select {
			case <-t.C:
			case <-ctx.Done():
				return
			}
			out, err := d.o.ECS.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &d.o.Cluster, Tasks: []string{task}})
			if err == nil && len(out.Tasks) == 1 && aws.ToString(out.Tasks[0].LastStatus) == "STOPPED" {
				cancel(errors.New(Reason(out.Tasks[0])))
				return
			}
		}
	}()
	return d.Enrolled(ctx, id)
}

// Reason says for people why a task stopped.
func Reason(t types.Task) string {
	text := "the task has stopped"
	if r := aws.ToString(t.StoppedReason); r != "" {
		text += ": " + r
	}
	for _, c := range t.Containers {
		if r := aws.ToString(c.Reason); r != "" {
			text += "; " + aws.ToString(c.Name) + ": " + r
		}
	}
	return text
}

// Stop implements [sandbox.Driver].
func (d *Driver) Stop(ctx context.Context, id string) error {
	if err := d.End(ctx, id); err != nil {
		return err
	}
	out, err := d.o.ECS.ListTasks(ctx, &ecs.ListTasksInput{Cluster: &d.o.Cluster, StartedBy: &id})
	if err != nil {
		return fmt.Errorf("look for the task of %s: %w", id, err)
	}
	for _, arn := range out.TaskArns {
		_, err := d.o.ECS.StopTask(ctx, &ecs.StopTaskInput{Cluster: &d.o.Cluster, Task: &arn, Reason: aws.String("the sandbox was stopped")})
		var gone *types.InvalidParameterException
		if err != nil && !errors.As(err, &gone) {
			return fmt.Errorf("stop the task of %s: %w", id, err)
		}
	}
	return nil
}

// Running implements [sandbox.Driver].
func (d *Driver) Running(ctx context.Context, ids []string) (map[string]bool, error) {
	all, err := d.All(ctx)
	if err != nil {
		return nil, err
	}
	running := map[string]bool{}
	for _, id := range ids {
		if all[id] {
			running[id] = true
		}
	}
	return running, nil
}

// All is every sandbox that runs in the cluster, which is this server's alone.
func (d *Driver) All(ctx context.Context) (map[string]bool, error) {
	all := map[string]bool{}
	for p := ecs.NewListTasksPaginator(d.o.ECS, &ecs.ListTasksInput{Cluster: &d.o.Cluster}); p.HasMorePages(); {
		page, err := p.NextPage(ctx)
		if err != nil {
			return nil, fmt.Errorf("list tasks: %w", err)
		}
		if len(page.TaskArns) == 0 {
			continue
		}
		out, err := d.o.ECS.DescribeTasks(ctx, &ecs.DescribeTasksInput{Cluster: &d.o.Cluster, Tasks: page.TaskArns})
		if err != nil {
			return nil, fmt.Errorf("describe tasks: %w", err)
		}
		for _, t := range out.Tasks {
			if id := aws.ToString(t.StartedBy); id != "" && aws.ToString(t.LastStatus) != "STOPPED" {
				all[id] = true
			}
		}
	}
	return all, nil
}

// Close implements [sandbox.Driver].
func (d *Driver) Close() error { return nil }
