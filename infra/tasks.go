package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Tasks is the function that hears of sandboxes' tasks, and the queue of news
// that it could not take.
type Tasks struct {
	*Function
	failures awssqs.Queue
}

// newTasks notes the end of each sandbox's task, and every five minutes looks for
// what no news told of: idle sandboxes, tasks without a session, sessions without
// their task. It is nil without sandboxes.
func newTasks(s *Stack, table awsdynamodb.Table, b *Sandboxes) *Tasks {
	if b == nil {
		return nil
	}
	scope := constructs.NewConstruct(s.cdk, str("Tasks"))
	f := newFunction(s, scope, functionProps{
		name:        "tasks",
		description: "lambae: hears of sandboxes' tasks, and sweeps",
		memory:      otherMemory,
		timeout:     awscdk.Duration_Minutes(number(5)),
		table:       table,
		environment: b.environment(),
	})
	b.endedBy(f)
	failures := awssqs.NewQueue(scope, str("Failures"), &awssqs.QueueProps{
		EnforceSSL:      jsii.Bool(true),
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		RetentionPeriod: awscdk.Duration_Days(number(14)),
	})
	accept(failures, "AwsSolutions-SQS3", "it is the failure queue itself")
	awsevents.NewRule(scope, str("Ends"), &awsevents.RuleProps{
		Description: str("lambae: tasks of sandboxes that have ended"),
		EventPattern: &awsevents.EventPattern{
			Source:     &[]*string{str("aws.ecs")},
			DetailType: &[]*string{str("ECS Task State Change")},
			Detail:     &map[string]any{"clusterArn": []*string{b.cluster.AttrArn()}, "lastStatus": []string{"STOPPED"}},
		},
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(f.Function, &awseventstargets.LambdaFunctionProps{
			DeadLetterQueue: failures, RetryAttempts: number(10), MaxEventAge: awscdk.Duration_Hours(number(1)),
		})},
	})
	awsevents.NewRule(scope, str("Sweep"), &awsevents.RuleProps{
		Description: str("lambae: stops idle sandboxes, and finds tasks and sandboxes that have lost each other"),
		Schedule:    awsevents.Schedule_Rate(minutes(5)),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(f.Function, &awseventstargets.LambdaFunctionProps{
			RetryAttempts: number(0), // the next one does the same
		})},
	})
	return &Tasks{f, failures}
}
