package main

import (
	"regexp"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
)

// newClient is the function of the client API. Anybody may call its URL: keys of
// ours say who it is. It runs the turns, so it is the one that may call models
// and read secrets.
func newClient(s *Stack, table awsdynamodb.Table, socket *Socket, sandboxes *Sandboxes) *Function {
	scope := constructs.NewConstruct(s.cdk, str("Client"))
	f := newFunction(s, scope, functionProps{
		name:        "client",
		description: "lambae client API: sessions, turns, subscriptions",
		memory:      s.settings.Memory,
		timeout:     awscdk.Duration_Minutes(number(15)), // the most there is; a turn may take long
		table:       table,
		environment: sandboxes.withDoorbell(socket, map[string]*string{"BAE_WEBSOCKET_URL": str(*socket.url() + "?session={session_id}")}),
	})
	sandboxes.startedBy(f)
	sandboxes.rungBy(f, socket)
	allowModels(s, f)
	allowSecrets(s, f)
	f.url = f.AddFunctionUrl(&awslambda.FunctionUrlOptions{
		AuthType:   awslambda.FunctionUrlAuthType_NONE,
		InvokeMode: awslambda.InvokeMode_RESPONSE_STREAM,
	}).Url()
	return f
}

// inferenceProfile matches the id of a model that Bedrock serves from several
// regions: a geography before the model's own id.
var inferenceProfile = regexp.MustCompile(`^(us|us-gov|eu|apac|jp|au|ca|global)\.(.+)$`)

// allowModels allows the models of the configuration and no others. A profile
// that serves from several regions needs the model in all of these, and is then
// the only way to it.
func allowModels(s *Stack, f *Function) {
	actions := []string{"bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream"}
	for _, model := range s.registry.Models {
		var profile, behind string
		switch {
		case strings.HasPrefix(model, "arn:") && strings.Contains(model, "inference-profile/"):
			profile, behind = model, "*"
		case strings.HasPrefix(model, "arn:"):
			f.allow(str(model), actions...)
			continue
		case inferenceProfile.MatchString(model):
			profile = *s.arn("bedrock", *s.cdk.Region(), *s.cdk.Account(), "inference-profile/"+model)
			behind = inferenceProfile.FindStringSubmatch(model)[2]
		default:
			f.allow(s.arn("bedrock", *s.cdk.Region(), "", "foundation-model/"+model), actions...)
			continue
		}
		f.allow(&profile, actions...)
		accept(f.role, "AwsSolutions-IAM5", "the profile chooses the region; the model can be reached through the profile only", `^Resource::arn:.*:bedrock:\*::foundation-model\/`)
		f.allowIf(map[string]any{"ArnEquals": map[string]any{"bedrock:InferenceProfileArn": profile}},
			[]*string{s.arn("bedrock", "*", "", "foundation-model/"+behind)}, actions...)
	}
}

// allowSecrets allows reading what the configuration refers to.
func allowSecrets(s *Stack, f *Function) {
	for _, secret := range s.registry.Secrets {
		arn := str(secret)
		if !strings.HasPrefix(secret, "arn:") {
			// Secrets Manager adds a hyphen and six characters to a secret's name.
			arn = s.arn("secretsmanager", *s.cdk.Region(), *s.cdk.Account(), "secret:"+secret+"-??????")
		}
		f.allow(arn, "secretsmanager:GetSecretValue")
	}
	for _, param := range s.registry.Params {
		arn := str(param)
		if !strings.HasPrefix(param, "arn:") {
			arn = s.arn("ssm", *s.cdk.Region(), *s.cdk.Account(), "parameter/"+strings.TrimPrefix(param, "/"))
		}
		f.allow(arn, "ssm:GetParameter")
	}
	for _, key := range s.settings.SecretKeys {
		f.allow(str(key), "kms:Decrypt")
	}
}

// arn is the name of a resource in this partition.
func (s *Stack) arn(service, region, account, resource string) *string {
	return str("arn:" + *s.cdk.Partition() + ":" + service + ":" + region + ":" + account + ":" + resource)
}
