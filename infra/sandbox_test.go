package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const repository = "123456789012.dkr.ecr.us-east-1.amazonaws.com/team/tools:3"

// Part of TestTheStack's jsii process: see there.
func TestTheStackWithSandboxes(t *testing.T) {
	document, findings := template(t, map[string]any{"lambae:sandbox-images": "python:3.12," + repository}, Registry{})

	t.Run("is the golden one", func(t *testing.T) { golden(t, "sandboxes.json", document) })
	t.Run("has nothing that cdk-nag finds", func(t *testing.T) { require.Empty(t, findings) })
	t.Run("names every resource it can", func(t *testing.T) { named(t, document) })

	t.Run("allows each function what it uses", func(t *testing.T) {
		ending := []string{"ecs:DescribeTaskDefinition", "ecs:DescribeTasks", "ecs:ListTasks", "ecs:StopTask"}
		actions := actionsOf(t, document)
		require.Equal(t, sorted(tableActions, logActions, append(ending, "ecs:RunTask", "ecs:TagResource", "iam:PassRole", "s3:GetObject", "execute-api:ManageConnections")...), actions["Client"])
		require.Equal(t, sorted(tableActions, logActions, ending...), actions["Admin"])
		require.Equal(t, sorted(tableActions, logActions, ending...), actions["Tasks"])
		require.NotContains(t, strings.Join(actions["WebSocket"], " "), "ecs:")
		require.NotContains(t, strings.Join(actions["Stream"], " "), "ecs:")
	})

	t.Run("gives a task no role and ECS only what starts it", func(t *testing.T) {
		for _, d := range resources(document, "AWS::ECS::TaskDefinition") {
			require.NotContains(t, d, "TaskRoleArn")
			require.Contains(t, d, "ExecutionRoleArn")
		}
		require.Equal(t, sorted(nil, logActions, "ecr:BatchGetImage", "ecr:GetAuthorizationToken", "ecr:GetDownloadUrlForLayer"), actionsOf(t, document)["Sandboxes"])
	})

	t.Run("writes nothing into a task that a command may not read", func(t *testing.T) {
		for _, d := range resources(document, "AWS::ECS::TaskDefinition") {
			for _, c := range d["ContainerDefinitions"].([]any) {
				container := c.(map[string]any)
				require.NotContains(t, container, "Environment")
				require.NotContains(t, container, "Secrets")
				require.NotContains(t, container, "PortMappings")
				require.Equal(t, false, container["LinuxParameters"].(map[string]any)["InitProcessEnabled"], "its environment could be read")
				require.Equal(t, []any{"ALL"}, container["LinuxParameters"].(map[string]any)["Capabilities"].(map[string]any)["Drop"])
			}
		}
	})

	t.Run("lets nobody in, and out to the web alone", func(t *testing.T) {
		groups := resources(document, "AWS::EC2::SecurityGroup")
		require.Len(t, groups, 1)
		require.NotContains(t, groups[0], "SecurityGroupIngress")
		require.Empty(t, resources(document, "AWS::EC2::SecurityGroupIngress"))
		ports := map[any]bool{}
		for _, rule := range groups[0]["SecurityGroupEgress"].([]any) {
			r := rule.(map[string]any)
			require.Equal(t, "tcp", r["IpProtocol"])
			require.Equal(t, r["FromPort"], r["ToPort"])
			ports[r["FromPort"]] = true
		}
		require.Equal(t, map[any]bool{float64(80): true, float64(443): true}, ports)
		private := 0
		for _, s := range resources(document, "AWS::EC2::Subnet") {
			if s["MapPublicIpOnLaunch"] == false {
				private++
			}
		}
		require.Equal(t, 2, private)
	})

	t.Run("takes a network that is there", func(t *testing.T) {
		given, findings := template(t, map[string]any{
			"lambae:sandbox-images": "python:3.12", "lambae:sandbox-vpc": "vpc-0123456789abcdef0", "lambae:sandbox-subnets": "subnet-0123456789abcdef0,subnet-0123456789abcdef1",
		}, Registry{})
		require.Empty(t, findings)
		require.Empty(t, resources(given, "AWS::EC2::VPC"))
		require.Empty(t, resources(given, "AWS::EC2::NatGateway"))
		require.Equal(t, "vpc-0123456789abcdef0", resources(given, "AWS::EC2::SecurityGroup")[0]["VpcId"])
		require.Contains(t, toJSON(t, given), `"subnet-0123456789abcdef0,subnet-0123456789abcdef1"`)
		require.NotContains(t, actionsOf(t, given)["Sandboxes"], "ecr:GetAuthorizationToken")
	})
}
