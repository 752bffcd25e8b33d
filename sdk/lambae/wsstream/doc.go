// Package wsstream follows a session over a WebSocket, for servers that offer one
// (websocket_url of GET /api/v1/meta). Events and their order are those of
// [lambae.Session.Subscribe]; what differs is the way: one connection that can
// stay open for hours and costs a serverless server nothing while it is silent.
//
// It is a package of its own because package lambae needs nothing but the
// standard library.
package wsstream
