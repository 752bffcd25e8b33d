// Package awsstack finds a deployment on AWS by its stage, and signs requests to
// its admin API. It is for programs of people, with people's credentials; no
// function links it.
package awsstack

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/smithy-go"
)

// Stack is a deployment.
type Stack struct {
	Stage        string
	ClientURL    string // of the client API
	AdminURL     string // of the admin API; requests must be signed, see [NewSigner]
	WebSocketURL string // of subscriptions
	Table        string // name of the DynamoDB table
}

// ErrNotDeployed says that there is no such stage in the account and region.
var ErrNotDeployed = errors.New("not deployed")

var stageName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,29}$`)

// Find reads the outputs of a stage's stack. It needs the permission
// cloudformation:DescribeStacks. cfg comes from config.LoadDefaultConfig.
func Find(ctx context.Context, cfg aws.Config, stage string) (*Stack, error) {
	if !stageName.MatchString(stage) {
		return nil, fmt.Errorf("%q is not the name of a stage; it is what `make deploy STAGE=…` was given, dev for instance", stage)
	}
	if cfg.Region == "" {
		return nil, errors.New("no AWS region: set AWS_REGION, or a region in the AWS profile")
	}
	if _, err := identify(ctx, cfg); err != nil {
		return nil, fmt.Errorf("find stage %s in %s: %w", stage, cfg.Region, err)
	}
	name := "lambae-" + stage
	client := cloudformation.NewFromConfig(cfg)
	out, err := client.DescribeStacks(ctx, &cloudformation.DescribeStacksInput{StackName: &name})
	if err != nil {
		return nil, explain(err, stage, cfg.Region)
	}
	for _, stack := range out.Stacks {
		if stack.StackStatus != types.StackStatusDeleteComplete {
			return read(stack, stage, emulator(client.Options()))
		}
	}
	return nil, missing(stage, cfg.Region)
}

func missing(stage, region string) error {
	return fmt.Errorf("stage %s in %s: %w; deploy it with `make deploy STAGE=%s`, or set AWS_REGION and AWS_PROFILE to where it is", stage, region, ErrNotDeployed, stage)
}

func explain(err error, stage, region string) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("find stage %s in %s: %w", stage, region, err)
	}
	switch code := api.ErrorCode(); {
	case code == "ValidationError" && strings.Contains(api.ErrorMessage(), "does not exist"):
		return missing(stage, region)
	case code == "AccessDenied", code == "AccessDeniedException":
		return fmt.Errorf("find stage %s in %s: these credentials lack the permission cloudformation:DescribeStacks: %w", stage, region, err)
	}
	return fmt.Errorf("find stage %s in %s: %w", stage, region, err)
}

func read(stack types.Stack, stage, emulator string) (*Stack, error) {
	outputs := map[string]string{}
	for _, o := range stack.Outputs {
		outputs[aws.ToString(o.OutputKey)] = aws.ToString(o.OutputValue)
	}
	s := &Stack{Stage: stage}
	for key, field := range map[string]*string{
		"ClientUrl": &s.ClientURL, "AdminUrl": &s.AdminURL, "WebSocketUrl": &s.WebSocketURL, "TableName": &s.Table,
	} {
		if *field = outputs[key]; *field == "" {
			return nil, fmt.Errorf("stage %s is %s and has no output %s; deploy it again with `make deploy STAGE=%s`", stage, stack.StackStatus, key, stage)
		}
	}
	s.ClientURL, s.AdminURL = reachable(s.ClientURL, emulator), reachable(s.AdminURL, emulator)
	return s, nil
}

// emulator is the address of an AWS emulator that the caller was sent to; ""
// for AWS itself.
func emulator(o cloudformation.Options) string { return aws.ToString(o.BaseEndpoint) }

// reachable turns a Function URL of AWS, which an emulator gives out as well,
// into where the emulator serves it.
func reachable(functionURL, emulator string) string {
	u, err := url.Parse(functionURL)
	if emulator == "" || err != nil || !strings.HasSuffix(u.Host, ".on.aws") {
		return strings.TrimSuffix(functionURL, "/")
	}
	id, _, _ := strings.Cut(u.Host, ".")
	return strings.TrimSuffix(emulator, "/") + "/_aws/lambda-url/" + id
}
