// Package push is the protocol of WebSocket subscriptions (protocol,
// "Subscriptions"): what clients may ask in a frame, and the messages they get.
// Every frame is one JSON-RPC message, the same as a line of NDJSON.
//
// It is the same whether a connection ends in this process (package api) or at a
// gateway (package apigateway below), so it knows neither: a [Peer] does what
// differs. It stands on package session and imports nothing of HTTP's handlers.
//
// # What a client sends
//
//	session.subscribe {since_event_id?}   {"subscribed":true}, then events
//	session.unsubscribe                   {"unsubscribed":true}; ends all subscriptions of the session
//	session.ping                          {"pong":true}; what is due is sent again at a gateway
//
// Without since_event_id, or with null, only what happens from then on comes. With
// an id that no event has, "" for one, everything comes from the start.
//
// A connection has one subscription: another session.subscribe takes its place.
// Requests without an id are notifications, done and not answered.
//
// # What a client gets
//
// session.event notifications as on an NDJSON stream, but that a message over
// [MaxMessage] comes without its payload. An event may come twice after a
// failure, in an order that leaves the first of each in the log's: who drops ids
// that it knows sees every event once. The last message is a session.ended
// notification with a [session.End] as reason, or the lagged error, which asks to
// come back with since_event_id; then the connection is closed. A connection that
// closes without either was lost.
package push
