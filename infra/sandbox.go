package main

import (
	"maps"
	"regexp"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsecs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/lambae/lambae/internal/sandbox/fargate"
)

// Sandboxes is where Fargate tasks run the commands of models: a cluster, a
// network that nobody can come in by, and a task definition an image. A task has
// no role. It exists only where the settings list images, since a network of its
// own costs while it is idle.
type Sandboxes struct {
	stack     *Stack
	cluster   awsecs.CfnCluster
	execution awsiam.Role // by which ECS itself pulls images and writes logs
	agent     awss3assets.Asset
	subnets   *[]*string
	group     awsec2.SecurityGroup
}

// Containers and the volume of task definitions.
const (
	agentVolume = "lambae"
	agentFolder = "/lambae"
	// agentImage has a shell and a wget that checks certificates.
	agentImage = "public.ecr.aws/docker/library/alpine:3.22"
)

// newSandboxes makes them; nil without images.
func newSandboxes(s *Stack) *Sandboxes {
	if len(s.settings.SandboxImages) == 0 {
		return nil
	}
	scope := constructs.NewConstruct(s.cdk, str("Sandboxes"))
	b := &Sandboxes{
		stack: s,
		agent: awss3assets.NewAsset(scope, str("Agent"), &awss3assets.AssetProps{Path: str(s.bundles.Agent())}),
		cluster: awsecs.NewCfnCluster(scope, str("Cluster"), &awsecs.CfnClusterProps{
			CapacityProviders: &[]any{str("FARGATE"), str("FARGATE_SPOT")},
		}),
	}
	accept(b.cluster, "AwsSolutions-ECS4", "insights cost by the task and tell of what the session's log tells as well")
	b.network(scope)
	b.definitions(scope)
	return b
}

// network is the given one, or a network of its own: private subnets whose only
// way out is a NAT gateway. Either way the tasks' group lets nobody in.
func (b *Sandboxes) network(scope constructs.Construct) {
	var vpc awsec2.IVpc
	if id := b.stack.settings.SandboxVPC; id != "" {
		vpc = awsec2.Vpc_FromVpcAttributes(scope, str("Network"), &awsec2.VpcAttributes{
			VpcId: &id, AvailabilityZones: &[]*string{awscdk.Fn_Select(number(0), awscdk.Fn_GetAzs(nil))},
		})
		subnets := make([]*string, len(b.stack.settings.SandboxSubnets))
		for i := range subnets {
			subnets[i] = &b.stack.settings.SandboxSubnets[i]
		}
		b.subnets = &subnets
	} else {
		own := awsec2.NewVpc(scope, str("Network"), &awsec2.VpcProps{
			MaxAzs: number(2), NatGateways: number(1), RestrictDefaultSecurityGroup: jsii.Bool(false),
		})
		accept(own, "AwsSolutions-VPC7", "flow logs cost by the gigabyte; who must keep them gives a network that has them")
		vpc, b.subnets = own, own.SelectSubnets(&awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PRIVATE_WITH_EGRESS}).SubnetIds
	}
	b.group = awsec2.NewSecurityGroup(scope, str("Group"), &awsec2.SecurityGroupProps{
		Vpc: vpc, Description: str("lambae sandboxes: nobody comes in; out to the web"), AllowAllOutbound: jsii.Bool(false),
	})
	out := func(port float64, what string) {
		b.group.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(&port), &what, nil)
	}
	out(443, "the client API, the web")
	out(80, "mirrors of packages")
}

// definitions makes a task definition for each image, since ECS does not let a
// task choose its image.
func (b *Sandboxes) definitions(scope constructs.Construct) {
	logs := awslogs.NewLogGroup(scope, str("Logs"), &awslogs.LogGroupProps{RemovalPolicy: awscdk.RemovalPolicy_DESTROY})
	logs.Node().DefaultChild().(awslogs.CfnLogGroup).SetRetentionInDays(jsii.Number(b.stack.settings.LogRetention))
	b.execution = awsiam.NewRole(scope, str("Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(str("ecs-tasks.amazonaws.com"), nil),
		Description: str("lambae " + b.stack.settings.Stage + ": ECS starts sandboxes with it; no task has it"),
	})
	allow(b.execution, nil, []*string{logs.LogGroupArn()}, "logs:CreateLogStream", "logs:PutLogEvents")
	b.allowPulls()
	for _, image := range b.stack.settings.SandboxImages {
		family := b.family(image)
		awsecs.NewCfnTaskDefinition(scope, str("Task-"+family), &awsecs.CfnTaskDefinitionProps{
			Family:                  &family,
			RequiresCompatibilities: &[]*string{str("FARGATE")},
			NetworkMode:             str("awsvpc"),
			Cpu:                     jsii.Sprintf("%d", b.stack.settings.SandboxCPU),
			Memory:                  jsii.Sprintf("%d", b.stack.settings.SandboxMemory),
			ExecutionRoleArn:        b.execution.RoleArn(),
			RuntimePlatform:         map[string]string{"cpuArchitecture": strings.ToUpper(b.stack.settings.Architecture), "operatingSystemFamily": "LINUX"},
			Volumes:                 []any{map[string]any{"name": agentVolume}},
			ContainerDefinitions:    []any{b.fetcher(logs), b.container(image, logs)},
		})
	}
}

func (b *Sandboxes) family(image string) string {
	return fargate.Family(stackName(b.stack.settings.Stage), image)
}

// fetcher is the init container: it puts sandboxd into the volume, by a link that
// the driver has signed for this one task.
func (b *Sandboxes) fetcher(logs awslogs.LogGroup) map[string]any {
	file := agentFolder + "/sandboxd"
	return map[string]any{
		"name":      fargate.InitName,
		"image":     agentImage,
		"essential": false,
		"command": []string{"sh", "-c",
			`wget -q -T 20 -O ` + file + ` "$` + fargate.DownloadVariable + `" && chmod 755 ` + file},
		"readonlyRootFilesystem": true,
		"mountPoints":            []any{map[string]any{"sourceVolume": agentVolume, "containerPath": agentFolder, "readOnly": false}},
		"linuxParameters":        withoutCapabilities(),
		"logConfiguration":       b.logTo(logs, "sandboxd"),
	}
}

// container runs the image with sandboxd for its entry point.
func (b *Sandboxes) container(image string, logs awslogs.LogGroup) map[string]any {
	return map[string]any{
		"name":             fargate.ContainerName,
		"image":            image,
		"essential":        true,
		"entryPoint":       []string{agentFolder + "/sandboxd"},
		"command":          []string{},
		"dependsOn":        []any{map[string]any{"containerName": fargate.InitName, "condition": "SUCCESS"}},
		"mountPoints":      []any{map[string]any{"sourceVolume": agentVolume, "containerPath": agentFolder, "readOnly": true}},
		"linuxParameters":  withoutCapabilities(),
		"stopTimeout":      10, // seconds; sandboxd ends its commands at once
		"logConfiguration": b.logTo(logs, "sandbox"),
	}
}

// withoutCapabilities is what the docker driver does: commands may be root inside,
// but can do nothing with it that a user cannot. ECS must add no init process:
// commands could read its environment; sandboxd is one itself.
func withoutCapabilities() map[string]any {
	return map[string]any{"capabilities": map[string]any{"drop": []string{"ALL"}}, "initProcessEnabled": false}
}

// logTo sends what sandboxd itself says to the log group: not what commands print.
func (b *Sandboxes) logTo(logs awslogs.LogGroup, prefix string) map[string]any {
	return map[string]any{"logDriver": "awslogs", "options": map[string]any{
		"awslogs-group": logs.LogGroupName(), "awslogs-region": b.stack.cdk.Region(), "awslogs-stream-prefix": prefix,
	}}
}

// privateRepository matches an image in ECR: account, region, repository.
var privateRepository = regexp.MustCompile(`^(\d{12})\.dkr\.ecr\.([a-z0-9-]+)\.amazonaws\.com[a-z.]*/([^:@]+)`)

// allowPulls lets ECS pull the images that are in private repositories of ECR.
func (b *Sandboxes) allowPulls() {
	var repositories []*string
	for _, image := range b.stack.settings.SandboxImages {
		if r := privateRepository.FindStringSubmatch(image); r != nil {
			repositories = append(repositories, b.stack.arn("ecr", r[2], r[1], "repository/"+r[3]))
		}
	}
	if len(repositories) == 0 {
		return
	}
	allow(b.execution, nil, repositories, "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer")
	allow(b.execution, nil, []*string{str("*")}, "ecr:GetAuthorizationToken")
	accept(b.execution, "AwsSolutions-IAM5", "ecr:GetAuthorizationToken has no resources", `^Resource::\*$`)
}

// environment is what a function needs to reach sandboxes; nil without them.
func (b *Sandboxes) environment() map[string]*string {
	if b == nil {
		return nil
	}
	return map[string]*string{
		"BAE_SANDBOX_DRIVER":           str("fargate"),
		fargate.ClusterVariable:        b.cluster.Ref(),
		fargate.FamilyVariable:         str(stackName(b.stack.settings.Stage)),
		fargate.SubnetsVariable:        awscdk.Fn_Join(str(","), b.subnets),
		fargate.SecurityGroupsVariable: b.group.SecurityGroupId(),
		fargate.SpotVariable:           jsii.Sprintf("%t", b.stack.settings.SandboxSpot),
		fargate.AgentVariable:          b.agent.S3ObjectUrl(),
	}
}

// withDoorbell adds to an environment what the function needs that rings sandboxes.
func (b *Sandboxes) withDoorbell(socket *Socket, environment map[string]*string) map[string]*string {
	if b == nil {
		return environment
	}
	maps.Copy(environment, b.environment())
	environment["BAE_WEBSOCKET_ENDPOINT"] = socket.endpoint()
	environment["BAE_SANDBOX_DOORBELL"] = str(*socket.url() + "?sandbox={sandbox_id}")
	return environment
}

// rungBy lets a function ring sandboxes.
func (b *Sandboxes) rungBy(f *Function, socket *Socket) {
	if b != nil {
		socket.pushedBy(f)
	}
}

// startedBy lets a function start tasks of these definitions in this cluster.
func (b *Sandboxes) startedBy(f *Function) {
	if b == nil {
		return
	}
	var definitions []*string
	for _, image := range b.stack.settings.SandboxImages {
		definitions = append(definitions, b.arn("task-definition/"+b.family(image)+":*"))
	}
	b.allow(f, definitions, "ecs:RunTask")
	f.allowIf(b.when("StringEquals", "ecs:CreateAction", "RunTask"), []*string{b.tasks()}, "ecs:TagResource")
	f.allowIf(b.when("StringEquals", "iam:PassedToService", "ecs-tasks.amazonaws.com"), []*string{b.execution.RoleArn()}, "iam:PassRole")
	f.allow(awscdk.Fn_Join(str(""), &[]*string{b.agent.Bucket().BucketArn(), str("/"), b.agent.S3ObjectKey()}), "s3:GetObject")
	b.endedBy(f)
}

// endedBy lets a function look for tasks of the cluster and stop them.
func (b *Sandboxes) endedBy(f *Function) {
	if b == nil {
		return
	}
	b.allow(f, []*string{b.tasks()}, "ecs:DescribeTasks", "ecs:StopTask")
	b.allow(f, []*string{str("*")}, "ecs:ListTasks")
	f.allow(str("*"), "ecs:DescribeTaskDefinition")
	accept(f.role, "AwsSolutions-IAM5", "revisions and tasks come and go; all are of these families and this cluster", `:task-definition\/.*:\*$`, `:task\/.*\/\*$`)
	accept(f.role, "AwsSolutions-IAM5", "ListTasks is bound to the cluster by a condition, DescribeTaskDefinition has no resources", `^Resource::\*$`)
}

// allow lets a function do what is done in the cluster. Emulators take the cluster
// itself for the resource of that.
func (b *Sandboxes) allow(f *Function, resources []*string, actions ...string) {
	if b.stack.settings.Emulator != "" {
		resources = []*string{b.cluster.AttrArn()}
	}
	f.allowIf(b.when("ArnEquals", "ecs:cluster", b.cluster.AttrArn()), resources, actions...)
}

// when is a condition of a permission. Emulators do not know the keys of ECS, and
// would allow nothing.
func (b *Sandboxes) when(operator, key string, value any) map[string]any {
	if b.stack.settings.Emulator != "" {
		return nil
	}
	return map[string]any{operator: map[string]any{key: value}}
}

func (b *Sandboxes) tasks() *string {
	return awscdk.Fn_Join(str(""), &[]*string{b.arn("task/"), b.cluster.Ref(), str("/*")})
}

func (b *Sandboxes) arn(resource string) *string {
	return b.stack.arn("ecs", *b.stack.cdk.Region(), *b.stack.cdk.Account(), resource)
}
