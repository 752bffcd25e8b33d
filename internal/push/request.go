package push

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// MaxRequest is the longest frame a client may send in bytes, API Gateway's
// limit again.
const MaxRequest = 32 << 10

// request is what a client asks. ID is nil for a notification.
type request struct {
	id     json.RawMessage
	method string
	params map[string]json.RawMessage
}

// parse reads the envelope (protocol, "JSON-RPC envelope"). The request is
// returned even with an error, so that the answer can name its id.
func parse(frame []byte) (request, *rpcError) {
	unknown := request{id: json.RawMessage("null")}
	if !utf8.Valid(frame) || !json.Valid(frame) {
		return unknown, &rpcError{codeParse, "Parse error"}
	}
	var members map[string]json.RawMessage
	switch bytes.TrimLeft(frame, " \t\r\n")[0] {
	case '[':
		return unknown, &rpcError{codeInvalidRequest, "Invalid Request: batch requests are not supported"}
	case '{':
	default:
		return unknown, &rpcError{codeInvalidRequest, "Invalid Request"}
	}
	if err := json.Unmarshal(frame, &members); err != nil {
		return unknown, &rpcError{codeParse, "Parse error"}
	}
	r := request{id: members["id"]}
	if v, ok := text(members["jsonrpc"]); !ok || v != "2.0" {
		return r, &rpcError{codeInvalidRequest, `Invalid Request: missing or wrong "jsonrpc" version`}
	}
	method, ok := text(members["method"])
	if !ok {
		return r, &rpcError{codeInvalidRequest, `Invalid Request: missing "method"`}
	}
	r.method = method
	_ = json.Unmarshal(members["params"], &r.params) // anything but an object counts as {}
	return r, nil
}

// since returns the since_event_id of session.subscribe, nil when there is none.
func (r *request) since() (*string, *rpcError) {
	raw := r.params["since_event_id"]
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	id, ok := text(raw)
	if !ok {
		return nil, &rpcError{codeInvalidParams, `Invalid params: "since_event_id" must be a string or null`}
	}
	return &id, nil
}

func text(raw json.RawMessage) (s string, ok bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}
