package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
)

// newAdmin is the function of the admin API. Who may call it is a matter of IAM:
// lambda:InvokeFunctionUrl on this function. A schedule has it finish what
// crashed functions left.
func newAdmin(s *Stack, table awsdynamodb.Table, sandboxes *Sandboxes) *Function {
	scope := constructs.NewConstruct(s.cdk, str("Admin"))
	f := newFunction(s, scope, functionProps{
		name:        "admin",
		description: "lambae admin API: profiles, keys, sessions; and the sweep",
		memory:      otherMemory,
		timeout:     awscdk.Duration_Minutes(number(5)),
		table:       table,
		environment: sandboxes.environment(),
	})
	sandboxes.endedBy(f) // a revoked key's
	f.url = f.AddFunctionUrl(&awslambda.FunctionUrlOptions{
		AuthType:   awslambda.FunctionUrlAuthType_AWS_IAM,
		InvokeMode: awslambda.InvokeMode_BUFFERED,
	}).Url()
	awsevents.NewRule(scope, str("Sweep"), &awsevents.RuleProps{
		Description: str("lambae: finishes what crashed functions left, and deletes events that are past their time"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Hours(number(1))),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(f.Function, &awseventstargets.LambdaFunctionProps{
			RetryAttempts: number(0), // the next hour does the same
		})},
	})
	return f
}
