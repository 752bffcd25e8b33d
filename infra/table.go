package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/jsii-runtime-go"
)

// newTable is the one table: paid by request, so that it costs nothing but
// storage while nobody uses it.
func newTable(s *Stack) awsdynamodb.Table {
	removal := awscdk.RemovalPolicy_DESTROY
	if s.settings.Retain {
		removal = awscdk.RemovalPolicy_RETAIN
	}
	return awsdynamodb.NewTable(s.cdk, str("Table"), &awsdynamodb.TableProps{
		PartitionKey:        &awsdynamodb.Attribute{Name: str("pk"), Type: awsdynamodb.AttributeType_STRING},
		SortKey:             &awsdynamodb.Attribute{Name: str("sk"), Type: awsdynamodb.AttributeType_STRING},
		BillingMode:         awsdynamodb.BillingMode_PAY_PER_REQUEST,
		Stream:              awsdynamodb.StreamViewType_NEW_IMAGE,
		TimeToLiveAttribute: str("x"),
		DeletionProtection:  jsii.Bool(s.settings.DeletionProtection),
		RemovalPolicy:       removal,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
		},
	})
}

// tableActions are what package dynamo calls: a transaction needs the actions of
// its parts.
var tableActions = []string{
	"dynamodb:BatchGetItem", "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem",
	"dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query",
}
