// Package apigateway serves the WebSocket connections that Amazon API Gateway
// holds: subscriptions that need no running process.
//
// Three things happen to a connection, each in an invocation of its own. A
// [Handler] takes what its client does: connect, ask, leave. A [Consumer] takes
// the table's change stream, which says that a session's log has grown. Both use
// a [Pusher], which reads the log from where the connection has got to, posts the
// events, and moves the position under a condition.
//
// Stream records and pings are hints: they say that there may be something to
// push, never what. So lost, repeated, late and concurrent ones do no harm: an
// event may come twice after a failure, but none is left out, and a connection is
// never ahead of the log.
package apigateway
