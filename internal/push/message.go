package push

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/lambae/lambae/internal/session"
)

// MaxMessage is the longest message in bytes: API Gateway's limit, kept
// everywhere so that clients see one behaviour.
const MaxMessage = 128 << 10

const (
	eventHead = `{"jsonrpc":"2.0","method":"session.event","params":`
	eventTail = `}`
)

// Event is the message of an event. One that is too long for [MaxMessage] has
// its payload omitted; REST has it.
func Event(r *session.Rendered) []byte {
	size := len(eventHead) + r.Size() + len(eventTail)
	if size > MaxMessage {
		return append(append([]byte(eventHead), r.WithoutPayload()...), eventTail...)
	}
	b := append(make([]byte, 0, size), eventHead...)
	for _, s := range r.Segments {
		b = append(b, s...)
	}
	return append(b, eventTail...)
}

// Ended is the last message of a subscription that is over. A gateway's close
// frame cannot carry a reason.
func Ended(sessionID string, why session.End) []byte {
	type params struct {
		SessionID string      `json:"session_id"`
		Reason    session.End `json:"reason"`
	}
	return append(append([]byte(`{"jsonrpc":"2.0","method":"session.ended","params":`), session.MarshalJSON(params{sessionID, why})...), '}')
}

// Lagged is the last message of a subscription that the client is to take up
// again (protocol, "Subscriptions").
const Lagged = `{"jsonrpc":"2.0","error":{"code":-32000,"message":"lagged; reconnect with since_event_id"}}`

// Subprotocol is what the server answers to a client that offers it, as browsers
// do, which cannot send an Authorization header.
const Subprotocol = "bae"

const bearerPrefix = "bearer."

// ProtocolKey returns the session key that a browser offers as the subprotocol
// bearer.<key>, and whether it offers [Subprotocol] as well. The answer must name
// that one only: the other is a secret.
func ProtocolKey(h http.Header) (key string, offered bool) {
	for _, line := range h.Values("Sec-WebSocket-Protocol") {
		for _, p := range strings.Split(line, ",") {
			p = strings.TrimSpace(p)
			if strings.EqualFold(p, Subprotocol) {
				offered = true
			}
			if rest, ok := cutPrefixFold(p, bearerPrefix); ok && key == "" {
				key = rest
			}
		}
	}
	return key, offered
}

func cutPrefixFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || !strings.EqualFold(s[:len(prefix)], prefix) {
		return "", false
	}
	return s[len(prefix):], true
}

// rpcError is the error member of an answer.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Codes of JSON-RPC errors, as on the rpc endpoint.
const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethodNotFound = -32601
	codeInvalidParams  = -32602
	codeInternal       = -32603
	codeRefused        = -32000
)

// answer is the answer to the request with an id.
func answer(id json.RawMessage, result any, fault *rpcError) []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), session.CompactJSON(id)...)
	if fault != nil {
		b = append(append(b, `,"error":`...), session.MarshalJSON(fault)...)
	} else {
		b = append(append(b, `,"result":`...), session.MarshalJSON(result)...)
	}
	return session.EscapeLines(append(b, '}'))
}
