// Package fargate runs sandboxes as Fargate tasks. A task runs the profile's image
// with sandboxd as its entry point, which an init container of the task definition
// copies into a volume; so any image works. It has no role, no inbound port and
// knows nothing but a code that is of no use once sandboxd has enrolled.
//
// There is a task definition per image, see [Family]: ECS does not let a task
// replace its image. The stack makes them.
package fargate

import (
	"cmp"
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

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/queue"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// ContainerName is the name of the container that runs the image, in every task
// definition.
const ContainerName = "sandbox"

// BootVariable is the environment variable of that container with a [wire.Boot].
// sandboxd takes it out of its environment before it does anything else.
const BootVariable = "LAMBAE_BOOT"

// Options of a [Driver].
type Options struct {
	ECS            *ECS
	Cluster        string // name or ARN
	Family         string // beginning of the task definitions' families
	Subnets        []string
	SecurityGroups []string
	// Download is where the init container fetches sandboxd; nil when the task
	// definition knows.
	Download Download
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
	defined, err := d.o.ECS.defines(ctx, family)
	switch {
	case err == nil && !defined:
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
	overrides := []containerOverride{{ContainerName, []variable{{BootVariable, string(boot)}}}}
	if d.o.Download != nil {
		link, err := d.o.Download(ctx)
		if err != nil {
			return fmt.Errorf("sign a link to sandboxd: %w", err)
		}
		overrides = append(overrides, containerOverride{InitName, []variable{{DownloadVariable, link}}})
	}
	task, err := d.o.ECS.run(ctx, d.task(s, overrides))
	if err != nil {
		return fmt.Errorf("run a task: %w", err)
	}
	return d.enrolled(ctx, s.ID, task.ARN)
}

func (d *Driver) task(s sandbox.Spec, o []containerOverride) runTask {
	capacity := onDemand
	if d.o.Spot {
		capacity = spareCapacity
	}
	return runTask{
		Cluster: d.o.Cluster, TaskDefinition: Family(d.o.Family, s.Image), Count: 1,
		// The id makes a repeated call start nothing twice, and finds the task again.
		ClientToken: s.ID, StartedBy: s.ID,
		CapacityProviderStrategy: []capacityProvider{{capacity, 1}},
		NetworkConfiguration:     network{vpc{Subnets: d.o.Subnets, SecurityGroups: d.o.SecurityGroups, AssignPublicIP: "DISABLED"}},
		Overrides:                overrides{o},
		Tags: []tag{
			{"lambae:sandbox", s.ID},
			{"lambae:session", s.Session},
			{"lambae:stop-after", time.Now().Add(d.o.MaxAge).UTC().Format(time.RFC3339)},
		},
	}
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
			if err := d.ended(ctx, task); err != nil {
				cancel(err)
				return
			}
		}
	}()
	err := d.Enrolled(ctx, id)
	if errors.Is(err, queue.ErrUnwanted) {
		// The news of its end was here first, without the reason.
		return cmp.Or(d.ended(ctx, task), err)
	}
	return err
}

// ended says why a task has stopped; nil when it has not, as far as is known.
func (d *Driver) ended(ctx context.Context, task string) error {
	tasks, err := d.o.ECS.describe(ctx, d.o.Cluster, []string{task})
	if err == nil && len(tasks) == 1 && tasks[0].Stopped() {
		return errors.New(tasks[0].Reason())
	}
	return nil
}

// Stop implements [sandbox.Driver].
func (d *Driver) Stop(ctx context.Context, id string) error {
	if err := d.End(ctx, id); err != nil {
		return err
	}
	arns, err := d.o.ECS.list(ctx, d.o.Cluster, id)
	if err != nil {
		return fmt.Errorf("look for the task of %s: %w", id, err)
	}
	for _, arn := range arns {
		if err := d.o.ECS.stop(ctx, d.o.Cluster, arn, "the sandbox was stopped"); err != nil {
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
	arns, err := d.o.ECS.list(ctx, d.o.Cluster, "")
	if err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	tasks, err := d.o.ECS.describe(ctx, d.o.Cluster, arns)
	if err != nil {
		return nil, fmt.Errorf("describe tasks: %w", err)
	}
	all := map[string]bool{}
	for _, t := range tasks {
		if t.StartedBy != "" && !t.Stopped() {
			all[t.StartedBy] = true
		}
	}
	return all, nil
}

// Close implements [sandbox.Driver].
func (d *Driver) Close() error { return nil }
