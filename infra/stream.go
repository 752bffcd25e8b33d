package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Stream is the function that consumes the table's stream, and the queue of what
// it could not.
type Stream struct {
	*Function
	failures awssqs.Queue
}

// newStream pushes new events to subscribers. Records of one session come in
// order, those of several at once. A record that fails again and again ends in
// the failure queue, and the rest goes on.
func newStream(s *Stack, table awsdynamodb.Table, socket *Socket) *Stream {
	scope := constructs.NewConstruct(s.cdk, str("Stream"))
	f := newFunction(s, scope, functionProps{
		name:        "stream",
		description: "lambae: pushes new events to subscribers",
		memory:      otherMemory,
		timeout:     awscdk.Duration_Minutes(number(1)),
		table:       table,
		environment: map[string]*string{"BAE_WEBSOCKET_ENDPOINT": socket.endpoint()},
	})
	socket.pushedBy(f)
	failures := awssqs.NewQueue(scope, str("Failures"), &awssqs.QueueProps{
		EnforceSSL:      jsii.Bool(true),
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		RetentionPeriod: awscdk.Duration_Days(number(14)),
	})
	accept(failures, "AwsSolutions-SQS3", "it is the failure queue itself")
	f.allow(failures.QueueArn(), "sqs:SendMessage")
	f.allow(table.TableStreamArn(), "dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams")

	mapping := awslambda.NewEventSourceMapping(scope, str("Records"), &awslambda.EventSourceMappingProps{
		Target:           f.Function,
		EventSourceArn:   table.TableStreamArn(),
		StartingPosition: awslambda.StartingPosition_LATEST,
		// New chunks of logs, and nothing else that is written: "L#" is what
		// their sort key begins with.
		Filters: &[]*map[string]any{awslambda.FilterCriteria_Filter(&map[string]any{
			"eventName": []string{"INSERT"},
			"dynamodb":  map[string]any{"Keys": map[string]any{"sk": map[string]any{"S": []any{map[string]any{"prefix": "L#"}}}}},
		})},
		BatchSize:               number(100),
		ParallelizationFactor:   number(4),
		ReportBatchItemFailures: jsii.Bool(true),
		BisectBatchOnError:      jsii.Bool(true),
		RetryAttempts:           number(5),
		MaxRecordAge:            awscdk.Duration_Hours(number(1)),
	})
	// Set here, since the construct's way would allow more than sending.
	mapping.Node().DefaultChild().(awslambda.CfnEventSourceMapping).SetDestinationConfig(&awslambda.CfnEventSourceMapping_DestinationConfigProperty{
		OnFailure: &awslambda.CfnEventSourceMapping_OnFailureProperty{Destination: failures.QueueArn()},
	})
	mapping.Node().AddDependency(f.role.Node().FindChild(str("DefaultPolicy")))
	return &Stream{f, failures}
}
