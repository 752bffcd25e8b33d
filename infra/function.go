package main

import (
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Function is a Lambda function with its log group and its role, which may do
// nothing but what [Function.allow] adds.
type Function struct {
	awslambda.Function

	name string
	role awsiam.Role
	url  *string // of its Function URL, if it has one
}

// functionProps are what functions differ in.
type functionProps struct {
	name        string // the folder under functions/
	description string
	memory      int // MB
	timeout     awscdk.Duration
	table       awsdynamodb.Table
	environment map[string]*string // beside what all have
}

// otherMemory is the memory of functions that wait for nobody's model.
const otherMemory = 512

func newFunction(s *Stack, scope constructs.Construct, p functionProps) *Function {
	logs := awslogs.NewLogGroup(scope, str("Logs"), &awslogs.LogGroupProps{RemovalPolicy: awscdk.RemovalPolicy_DESTROY})
	// The construct takes names of numbers only.
	logs.Node().DefaultChild().(awslogs.CfnLogGroup).SetRetentionInDays(jsii.Number(s.settings.LogRetention))
	f := &Function{name: p.name, role: awsiam.NewRole(scope, str("Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(str("lambda.amazonaws.com"), nil),
		Description: str("lambae " + s.settings.Stage + ": " + p.name),
	})}
	f.allow(logs.LogGroupArn(), "logs:CreateLogStream", "logs:PutLogEvents")
	f.allow(p.table.TableArn(), tableActions...)

	environment := map[string]*string{
		"BAE_STORE":  awscdk.Fn_Join(str(":"), &[]*string{str("dynamodb"), p.table.TableName()}),
		"BAE_CONFIG": str("bae-config.toml"), // beside the binary
		"BAE_LOG":    str(s.settings.LogLevel),
	}
	maps.Copy(environment, p.environment)
	architecture := awslambda.Architecture_ARM_64()
	if s.settings.Architecture == X86_64 {
		architecture = awslambda.Architecture_X86_64()
	}
	f.Function = awslambda.NewFunction(scope, str("Function"), &awslambda.FunctionProps{
		Description:  str(p.description),
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture: architecture,
		Handler:      str("bootstrap"),
		Code:         s.bundles.Code(p.name),
		MemorySize:   jsii.Number(p.memory),
		Timeout:      p.timeout,
		Environment:  &environment,
		LogGroup:     logs,
		Role:         f.role,
	})
	return f
}

// allow lets the function do actions on one resource.
func (f *Function) allow(resource *string, actions ...string) {
	f.allowIf(nil, []*string{resource}, actions...)
}

// allowIf lets it do them on several, under conditions.
func (f *Function) allowIf(conditions map[string]any, resources []*string, actions ...string) {
	allow(f.role, conditions, resources, actions...)
}

// allow adds to what a role may do. Conditions may be nil.
func allow(role awsiam.Role, conditions map[string]any, resources []*string, actions ...string) {
	names := make([]*string, len(actions))
	for i := range actions {
		names[i] = &actions[i]
	}
	props := &awsiam.PolicyStatementProps{Actions: &names, Resources: &resources}
	if conditions != nil {
		props.Conditions = &conditions
	}
	role.AddToPolicy(awsiam.NewPolicyStatement(props))
}
