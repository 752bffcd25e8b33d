// Package mcp reaches the MCP servers of the configuration: it lists their
// tools when a session opens and calls them during its turns, over stdio,
// streamable HTTP and SSE, through the official Go SDK.
//
// A [Pool] keeps one connection per session and server, so that a server's
// state is never shared by two sessions. Connections open on first use, are
// re-opened when they died, and end with the session or after a time without
// use. What a server answers passes through as bytes: the pool reads messages
// off the transport (see tap) rather than from the SDK's decoded types, which
// know neither new block types nor numbers beyond a float64.
//
// A call is at most once. It is sent again over a new connection only when the
// first one provably did not reach the server.
//
// The package knows nothing of sessions but their ids, nor of events and turns.
package mcp
