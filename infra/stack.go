package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Stack is everything lambae has on AWS, for one stage.
type Stack struct {
	cdk awscdk.Stack // not embedded: the CDK knows its own objects only

	settings Settings
	registry Registry
	bundles  Bundles
}

// Bundles are what the Go tool builds for a deployment.
type Bundles interface {
	// Code is a function's.
	Code(function string) awslambda.Code
	// Agent is the path of sandboxd.
	Agent() string
}

// NewStack puts the parts together. What a part is allowed is in its own file.
func NewStack(scope constructs.Construct, settings Settings, registry Registry, bundles Bundles) *Stack {
	s := &Stack{
		cdk: awscdk.NewStack(scope, str(stackName(settings.Stage)), &awscdk.StackProps{
			Description: str("lambae: sessions for AI agents (" + settings.Stage + ")"),
			Synthesizer: synthesizer(settings),
		}),
		settings: settings, registry: registry, bundles: bundles,
	}
	for _, warning := range registry.Warnings {
		awscdk.Annotations_Of(s.cdk).AddWarningV2(str("lambae:registry"), str(warning), nil)
	}
	awscdk.Tags_Of(s.cdk).Add(str("lambae:stage"), str(settings.Stage), nil)

	table := newTable(s)                             // table.go: sessions, keys, profiles
	socket := newSocket(s)                           // socket.go: the WebSocket API
	sandboxes := newSandboxes(s)                     // sandbox.go: cluster, network and task definitions, where there are images
	client := newClient(s, table, socket, sandboxes) // client.go: the client API
	admin := newAdmin(s, table, sandboxes)           // admin.go: the admin API and the sweep
	stream := newStream(s, table, socket)            // stream.go: the table's stream, pushed to subscribers
	websocket := newWebSocket(s, table, socket)      // websocket.go: subscribers' connections
	tasks := newTasks(s, table, sandboxes)           // tasks.go: what becomes of sandboxes' tasks
	// monitoring.go: alarms and the dashboard
	newMonitoring(s, table, stream, tasks, client, admin, stream.Function, websocket)

	s.output("ClientUrl", "the client API", client.url)
	s.output("AdminUrl", "the admin API, for signed requests", admin.url)
	s.output("WebSocketUrl", "subscriptions over WebSockets", socket.url())
	s.output("TableName", "the DynamoDB table", table.TableName())
	return s
}

func synthesizer(settings Settings) awscdk.IStackSynthesizer {
	if settings.Emulator != "" {
		return awscdk.NewCliCredentialsStackSynthesizer(nil)
	}
	return awscdk.NewDefaultStackSynthesizer(nil)
}

// output is what `make outputs` and `lambae --aws` read.
func (s *Stack) output(name, description string, value *string) {
	awscdk.NewCfnOutput(s.cdk, str(name), &awscdk.CfnOutputProps{Description: str(description), Value: value})
}

// The CDK takes pointers for all that may be absent.
func str(s string) *string      { return jsii.String(s) }
func number(n float64) *float64 { return jsii.Number(n) }
