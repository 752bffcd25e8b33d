package main

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Socket is the WebSocket API: API Gateway holds the connections, so that a
// subscriber that waits needs no running function.
type Socket struct {
	stack *Stack
	api   awsapigatewayv2.WebSocketApi
	stage awsapigatewayv2.WebSocketStage
}

// socketStage is the last part of the API's address.
const socketStage = "v1"

func newSocket(s *Stack) *Socket {
	scope := constructs.NewConstruct(s.cdk, str("Socket"))
	api := awsapigatewayv2.NewWebSocketApi(scope, str("Api"), &awsapigatewayv2.WebSocketApiProps{
		ApiName:     s.cdk.StackName(),
		Description: str("lambae: subscriptions to sessions"),
	})
	stage := awsapigatewayv2.NewWebSocketStage(scope, str("Stage"), &awsapigatewayv2.WebSocketStageProps{
		WebSocketApi: api,
		StageName:    str(socketStage),
		AutoDeploy:   jsii.Bool(true),
	})
	accept(stage, "AwsSolutions-APIG1", "access logs of a WebSocket API need a role set for the whole account; the functions log each event")
	return &Socket{stack: s, api: api, stage: stage}
}

// handledBy makes one function answer whatever comes: connects, disconnects and
// messages of any kind.
func (s *Socket) handledBy(f *Function) {
	for _, key := range []string{"$connect", "$disconnect", "$default"} {
		s.api.AddRoute(str(key), &awsapigatewayv2.WebSocketRouteOptions{
			Integration: awsapigatewayv2integrations.NewWebSocketLambdaIntegration(str(key[1:]), f.Function, nil),
		})
	}
	accept(s.api, "AwsSolutions-APIG4", "the function authenticates at $connect with a session key, which an authorizer would read from the same table")
}

// pushedBy lets a function write to connections and close them. Their ids come
// and go: the last part of the resource cannot be named.
func (s *Socket) pushedBy(f *Function) {
	f.allow(s.stack.arn("execute-api", *s.stack.cdk.Region(), *s.stack.cdk.Account(),
		*s.api.ApiId()+"/"+socketStage+"/POST/@connections/*"), "execute-api:ManageConnections")
	f.allow(s.stack.arn("execute-api", *s.stack.cdk.Region(), *s.stack.cdk.Account(),
		*s.api.ApiId()+"/"+socketStage+"/DELETE/@connections/*"), "execute-api:ManageConnections")
	accept(f.role, "AwsSolutions-IAM5", "connections come and go; all of them are of this API", `@connections\/\*$`)
}

// url is where subscribers connect, wss://….
func (s *Socket) url() *string {
	if emulated := s.emulated(); emulated != "" {
		return str("ws" + strings.TrimPrefix(emulated, "http"))
	}
	return s.stage.Url()
}

// endpoint is where functions write to connections, https://….
func (s *Socket) endpoint() *string {
	if emulated := s.emulated(); emulated != "" {
		return &emulated
	}
	return s.stage.CallbackUrl()
}

// emulated is where an emulator serves the stage: under a path, since it has no
// domain.
func (s *Socket) emulated() string {
	if s.stack.settings.Emulator == "" {
		return ""
	}
	return s.stack.settings.Emulator + "/_aws/execute-api/" + *s.api.ApiId() + "/" + socketStage
}
