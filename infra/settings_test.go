package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/config"
)

func TestSettingsHaveDefaults(t *testing.T) {
	t.Parallel()
	s, err := ParseSettings(map[string]any{"@aws-cdk/core:something": true, "lambae:memory": ""})
	require.NoError(t, err)
	require.Equal(t, Settings{
		Stage: "dev", Architecture: ARM64, Memory: 1024, LogRetention: 30, LogLevel: "info",
		Retain: true, DeletionProtection: true, Config: "bae-config.toml", SandboxCPU: 1024, SandboxMemory: 2048,
	}, s)
}

func TestEverySettingIsRead(t *testing.T) {
	t.Parallel()
	s, err := ParseSettings(map[string]any{
		"lambae:stage": "prod-2", "lambae:architecture": "x86_64", "lambae:memory": 2048, "lambae:log-retention": "7",
		"lambae:log-level": "debug", "lambae:removal": "destroy", "lambae:config": "x.toml", "lambae:emulator": "http://127.0.0.1:4566",
		"lambae:alarm-topic":    "arn:aws:sns:eu-west-1:123456789012:ops",
		"lambae:secret-keys":    "arn:aws:kms:eu-west-1:123456789012:key/a-1, arn:aws:kms:eu-west-1:123456789012:key/b-2",
		"lambae:sandbox-images": "python:3.12,debian:12 python:3.12", "lambae:sandbox-cpu": "512", "lambae:sandbox-memory": 4096,
		"lambae:sandbox-spot": "true", "lambae:sandbox-vpc": "vpc-0a", "lambae:sandbox-subnets": "subnet-0a,subnet-0b",
	})
	require.NoError(t, err)
	require.Equal(t, Settings{
		Stage: "prod-2", Architecture: X86_64, Memory: 2048, LogRetention: 7, LogLevel: "debug", Config: "x.toml",
		Emulator: "http://127.0.0.1:4566", AlarmTopic: "arn:aws:sns:eu-west-1:123456789012:ops",
		SecretKeys:    []string{"arn:aws:kms:eu-west-1:123456789012:key/a-1", "arn:aws:kms:eu-west-1:123456789012:key/b-2"},
		SandboxImages: []string{"debian:12", "python:3.12"}, SandboxCPU: 512, SandboxMemory: 4096,
		SandboxSpot: true, SandboxVPC: "vpc-0a", SandboxSubnets: []string{"subnet-0a", "subnet-0b"},
	}, s)
}

func TestABadSettingIsNamedWithWhatItTakes(t *testing.T) {
	t.Parallel()
	for claim, tc := range map[string]struct {
		key   string
		value any
		says  string
	}{
		"a stage with capitals":         {"stage", "Prod", "lower-case"},
		"a stage too long":              {"stage", "a123456789012345678901234567890", "up to 30"},
		"another architecture":          {"architecture", "riscv", "arm64 or x86_64"},
		"little memory":                 {"memory", 64, "128 to 10240"},
		"memory in words":               {"memory", "much", "128 to 10240"},
		"days that CloudWatch has not":  {"log-retention", 8, "7 14 30"},
		"a level that is none":          {"log-level", "trace", "debug"},
		"a removal that is none":        {"removal", "keep", "retain or destroy"},
		"a protection that is none":     {"deletion-protection", "maybe", "true or false"},
		"a topic that is none":          {"alarm-topic", "ops@example.com", "SNS topic"},
		"a key by its alias":            {"secret-keys", "alias/x", "KMS keys"},
		"an emulator without a scheme":  {"emulator", "localhost:4566", "http://127.0.0.1:4566"},
		"an image with a blank":         {"sandbox-images", "python:3.12,-rm", "names of images"},
		"CPU that Fargate has not":      {"sandbox-cpu", 1000, "256, 512, 1024"},
		"memory that CPU has not":       {"sandbox-memory", 1024, "2048 to 8192 MB"},
		"memory between two sizes":      {"sandbox-memory", 2500, "in steps of 1024"},
		"a network by its name":         {"sandbox-vpc", "main", "vpc-0123abcd"},
		"a network without subnets":     {"sandbox-vpc", "vpc-0a", "lambae:sandbox-subnets go together"},
		"subnets without a network":     {"sandbox-subnets", "subnet-0a", "go together"},
		"spot in words":                 {"sandbox-spot", "cheap", "true"},
		"a setting that does not exist": {"memroy", 1024, "there is no such setting"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			_, err := ParseSettings(map[string]any{"lambae:" + tc.key: tc.value})
			require.ErrorContains(t, err, "lambae:"+tc.key)
			require.ErrorContains(t, err, tc.says)
		})
	}
	_, err := ParseSettings(map[string]any{"lambae:removal": "destroy", "lambae:deletion-protection": "true"})
	require.ErrorContains(t, err, "refuse")
	_, err = ParseSettings(map[string]any{"lambae:sandbox-vpc": "vpc-0a", "lambae:sandbox-subnets": "subnet-0a"})
	require.ErrorContains(t, err, "without lambae:sandbox-images")
}

func registryOf(t *testing.T, text string) (Registry, error) {
	t.Helper()
	file, err := config.Parse([]byte(text))
	require.NoError(t, err)
	return NewRegistry(file)
}

func TestARegistrySaysWhatItNeeds(t *testing.T) {
	t.Parallel()
	r, err := registryOf(t, `
[[providers.entries]]
name = "a"
provider = "anthropic"
model = "m"
auth_token = "${secretsmanager:lambae/keys#anthropic}"
[[providers.entries]]
name = "b"
provider = "openai"
model = "m"
auth_token = "${secretsmanager:lambae/keys#openai}"
[[providers.entries]]
name = "c"
provider = "bedrock"
model = "anthropic.claude-haiku"
[[mcp.servers]]
name = "remote"
transport = "http"
url = "https://example.com/mcp"
headers = { Authorization = "Bearer ${ssm:/lambae/mcp}", X-Region = "${AWS_REGION}", X-Team = "blue" }
[[mcp.servers]]
name = "files"
transport = "stdio"
command = "npx"
[telemetry]
enabled = true
otlp_endpoint = "https://collector.example.com:4317"
`)
	require.NoError(t, err)
	require.Equal(t, []string{"anthropic.claude-haiku"}, r.Models)
	require.Equal(t, []string{"lambae/keys"}, r.Secrets)
	require.Equal(t, []string{"/lambae/mcp"}, r.Params)
	require.Len(t, r.Warnings, 2)
	require.Contains(t, r.Warnings[0], `"files"`)
	require.Contains(t, r.Warnings[1], "4318")
}

func TestARegistryThatCannotWorkOnAWSIsRefused(t *testing.T) {
	t.Parallel()
	entry := func(token string) string {
		return "[[providers.entries]]\nname = \"a\"\nprovider = \"anthropic\"\nmodel = \"m\"\nauth_token = \"" + token + "\"\n"
	}
	server := "[[mcp.servers]]\nname = \"s\"\ntransport = \"http\"\nurl = \"https://example.com\"\n"
	for claim, tc := range map[string]struct{ text, says string }{
		"a variable":              {entry("${ANTHROPIC_API_KEY}"), "${secretsmanager:NAME}"},
		"a written out token":     {entry("sk-123"), "written out"},
		"an unknown store":        {entry("${vault:x}"), "unknown reference"},
		"a written out header":    {server + "headers = { authorization = \"Bearer x\" }\n", "written out"},
		"a variable in a header":  {server + "headers = { X-Key = \"${MY_KEY}\" }\n", "MY_KEY"},
		"a variable in telemetry": {"[telemetry]\notlp_headers = { x = \"${MY_KEY}\" }\n", "MY_KEY"},
	} {
		t.Run(claim, func(t *testing.T) {
			t.Parallel()
			_, err := registryOf(t, tc.text)
			require.ErrorContains(t, err, tc.says)
			require.NotContains(t, err.Error(), "sk-123")
		})
	}
}

func TestAMissingConfigurationIsSaid(t *testing.T) {
	t.Parallel()
	_, err := ReadRegistry("nowhere.toml")
	require.ErrorContains(t, err, "lambae:config")
}
