package main

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden file anew")

// template synthesizes a stack with a stand-in for what is compiled, and returns
// it as the CloudFormation it becomes, with what cdk-nag found.
func template(t *testing.T, context map[string]any, registry Registry) (document map[string]any, findings []string) {
	t.Helper()
	settings, err := ParseSettings(context)
	require.NoError(t, err)
	bundle := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bundle, "bootstrap"), []byte("stand-in"), 0o755))

	app := awscdk.NewApp(&awscdk.AppProps{Outdir: str(t.TempDir())})
	stack := NewStack(app, settings, registry, standIn(bundle))
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(nil), nil)
	document = *assertions.Template_FromStack(stack.cdk, nil).ToJSON()
	nag := assertions.Match_StringLikeRegexp(str("AwsSolutions-.*"))
	annotations := assertions.Annotations_FromStack(stack.cdk)
	for _, message := range slices.Concat(*annotations.FindError(str("*"), nag), *annotations.FindWarning(str("*"), nag)) {
		findings = append(findings, toJSON(t, message))
	}
	return document, findings
}

// standIn is a folder that takes the place of all that is compiled.
type standIn string

func (s standIn) Code(string) awslambda.Code { return awslambda.Code_FromAsset(str(string(s)), nil) }
func (s standIn) Agent() string              { return filepath.Join(string(s), "bootstrap") }

func toJSON(t *testing.T, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	require.NoError(t, e.Encode(v))
	return b.String()
}

// full asks for everything that a configuration can ask for.
var full = Registry{
	Models:  []string{"anthropic.claude-haiku-v1:0", "us.anthropic.claude-sonnet-v1:0", "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"},
	Secrets: []string{"lambae/keys", "arn:aws:secretsmanager:us-east-1:123456789012:secret:mine-AbCdEf"},
	Params:  []string{"/lambae/mcp"},
}

// One test makes all stacks: a jsii process starts slowly.
func TestTheStack(t *testing.T) {
	document, findings := template(t, map[string]any{
		"lambae:alarm-topic": "arn:aws:sns:us-east-1:123456789012:ops",
		"lambae:secret-keys": "arn:aws:kms:us-east-1:123456789012:key/k-1",
	}, full)

	t.Run("is the golden one", func(t *testing.T) { golden(t, "template.json", document) })

	t.Run("has nothing that cdk-nag finds", func(t *testing.T) {
		require.Empty(t, findings)
	})

	t.Run("allows each function what it uses", func(t *testing.T) {
		require.Equal(t, map[string][]string{
			"Client": sorted(tableActions, logActions,
				"bedrock:InvokeModel", "bedrock:InvokeModelWithResponseStream",
				"secretsmanager:GetSecretValue", "ssm:GetParameter", "kms:Decrypt"),
			"Admin": sorted(tableActions, logActions),
			"Stream": sorted(tableActions, logActions, "execute-api:ManageConnections", "sqs:SendMessage",
				"dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator", "dynamodb:ListStreams"),
			"WebSocket": sorted(tableActions, logActions, "execute-api:ManageConnections"),
		}, actionsOf(t, document))
	})

	t.Run("names every resource but two kinds", func(t *testing.T) { named(t, document) })

	t.Run("gives functions no secret", func(t *testing.T) {
		for _, f := range resources(document, "AWS::Lambda::Function") {
			for name := range f["Environment"].(map[string]any)["Variables"].(map[string]any) {
				require.Contains(t, []string{"BAE_STORE", "BAE_CONFIG", "BAE_LOG", "BAE_WEBSOCKET_URL", "BAE_WEBSOCKET_ENDPOINT"}, name)
			}
		}
	})

	t.Run("keeps the table", func(t *testing.T) {
		require.Contains(t, toJSON(t, document), `"DeletionPolicy": "Retain"`)
		require.Equal(t, true, resources(document, "AWS::DynamoDB::Table")[0]["DeletionProtectionEnabled"])
	})

	t.Run("differs in an emulator by addresses and architecture alone", func(t *testing.T) {
		local, findings := template(t, map[string]any{
			"lambae:stage": "local", "lambae:architecture": X86_64, "lambae:removal": "destroy", "lambae:emulator": "http://127.0.0.1:4566",
		}, Registry{})
		require.Empty(t, findings)
		require.Equal(t, types(document), types(local), "no second template")
		require.Equal(t, false, resources(local, "AWS::DynamoDB::Table")[0]["DeletionProtectionEnabled"])
		for _, f := range resources(local, "AWS::Lambda::Function") {
			require.Equal(t, []any{"x86_64"}, f["Architectures"])
		}
		require.Contains(t, toJSON(t, local), "http://127.0.0.1:4566/_aws/execute-api/")
		require.NotContains(t, toJSON(t, actionsOf(t, local)["Client"]), "bedrock", "no model, no permission")
	})
}

// golden compares a template with a file, which -update writes anew.
func golden(t *testing.T, name string, document map[string]any) {
	t.Helper()
	file := filepath.Join("testdata", name)
	got := regexp.MustCompile(`[0-9a-f]{64}`).ReplaceAllString(toJSON(t, document), "HASH")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	// Not Equal, which would print thousands of lines twice.
	require.True(t, string(want) == got, "the template differs from %s: run `go test . -update` and read `git diff`", file)
}

// named fails for a permission on more than it must be on.
func named(t *testing.T, document map[string]any) {
	t.Helper()
	for _, s := range statements(t, document) {
		require.NotContains(t, strings.Join(s.actions, " "), "*")
		for _, resource := range s.resources {
			text, conditions := toJSON(t, resource), toJSON(t, s.conditions)
			switch {
			case !strings.Contains(text, "*"):
			case strings.Contains(text, "/@connections/*"): // connections come and go
			case strings.Contains(text, ":bedrock:*::foundation-model/"): // a profile chooses the region
				require.Contains(t, conditions, "bedrock:InferenceProfileArn")
			case slices.Equal(s.actions, []string{"ecs:TagResource"}):
				require.Contains(t, conditions, `"ecs:CreateAction": "RunTask"`)
			case slices.Equal(s.actions, []string{"ecs:DescribeTaskDefinition"}), slices.Equal(s.actions, []string{"ecr:GetAuthorizationToken"}):
				require.Equal(t, "*", resource, "these have no resources")
			case strings.HasPrefix(s.actions[0], "ecs:"):
				require.Contains(t, conditions, "ecs:cluster")
			default:
				t.Errorf("%s is allowed %v on %s", s.function, s.actions, text)
			}
		}
	}
}

var logActions = []string{"logs:CreateLogStream", "logs:PutLogEvents"}

func sorted(table, logs []string, more ...string) []string {
	all := slices.Concat(table, logs, more)
	slices.Sort(all)
	return all
}

// statement is one of a function's policy.
type statement struct {
	function   string
	actions    []string
	resources  []any
	conditions any
}

// statements reads the policies of roles: the function is the first part of a
// logical id.
func statements(t *testing.T, document map[string]any) (all []statement) {
	t.Helper()
	for id, r := range document["Resources"].(map[string]any) {
		resource := r.(map[string]any)
		if resource["Type"] != "AWS::IAM::Policy" {
			require.NotContains(t, toJSON(t, resource), "ManagedPolicyArns", "%s", id)
			continue
		}
		function, _, _ := strings.Cut(id, "Role")
		policy := resource["Properties"].(map[string]any)["PolicyDocument"].(map[string]any)
		for _, raw := range policy["Statement"].([]any) {
			s := raw.(map[string]any)
			require.Equal(t, "Allow", s["Effect"])
			one := statement{function: function, conditions: s["Condition"], resources: list(s["Resource"])}
			for _, action := range list(s["Action"]) {
				one.actions = append(one.actions, action.(string))
			}
			all = append(all, one)
		}
	}
	return all
}

func list(v any) []any {
	if many, ok := v.([]any); ok {
		return many
	}
	return []any{v}
}

func actionsOf(t *testing.T, document map[string]any) map[string][]string {
	t.Helper()
	actions := map[string][]string{}
	for _, s := range statements(t, document) {
		actions[s.function] = append(actions[s.function], s.actions...)
	}
	for function := range actions {
		slices.Sort(actions[function])
		actions[function] = slices.Compact(actions[function])
	}
	return actions
}

// resources are the properties of all resources of a type.
func resources(document map[string]any, kind string) (all []map[string]any) {
	for _, r := range document["Resources"].(map[string]any) {
		if resource := r.(map[string]any); resource["Type"] == kind {
			all = append(all, resource["Properties"].(map[string]any))
		}
	}
	return all
}

// types counts resources by type.
func types(document map[string]any) map[string]int {
	counts := map[string]int{}
	for _, r := range document["Resources"].(map[string]any) {
		counts[r.(map[string]any)["Type"].(string)]++
	}
	return counts
}
