package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
)

// newWebSocket is the function behind the WebSocket API. Keys of ours say who
// connects; it answers with what a subscriber has missed.
func newWebSocket(s *Stack, table awsdynamodb.Table, socket *Socket) *Function {
	f := newFunction(s, constructs.NewConstruct(s.cdk, str("WebSocket")), functionProps{
		name:        "websocket",
		description: "lambae WebSocket API: subscribers connect, subscribe, catch up",
		memory:      otherMemory,
		timeout:     awscdk.Duration_Seconds(number(29)), // API Gateway waits no longer
		table:       table,
		environment: map[string]*string{"BAE_WEBSOCKET_ENDPOINT": socket.endpoint()},
	})
	socket.handledBy(f)
	socket.pushedBy(f)
	return f
}
