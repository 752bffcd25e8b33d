package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Codes of JSON-RPC errors (protocol, "JSON-RPC envelope" and "Gates and
// messages"; the seed's error lists).
const (
	codeParse            = -32700
	codeInvalidRequest   = -32600
	codeMethodNotFound   = -32601
	codeInvalidParams    = -32602
	codeInternal         = -32603
	codeRefused          = -32000
	codeNotDriver        = -32001
	codeImageNotAllowed  = -32011
	codeSandboxStart     = -32012
	codeSandboxStopped   = -32013
	codeSubagentNotFound = -32014
	codeToolNotAllowed   = -32015
)

// rpcError is the error member of a JSON-RPC response.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return e.Message }

func refuse(code int, format string, args ...any) *rpcError {
	return &rpcError{Code: code, Message: fmt.Sprintf(format, args...)}
}

// rpcRequest is a JSON-RPC request. ID is nil for a notification, which is
// never answered, not even with an error.
type rpcRequest struct {
	ID     json.RawMessage
	Method string
	Params map[string]json.RawMessage
}

// parseRequest reads the envelope. The request is returned even with an error,
// so that the answer can name its id.
func parseRequest(body []byte) (rpcRequest, *rpcError) {
	null := rpcRequest{ID: json.RawMessage("null")}
	if !utf8.Valid(body) || !json.Valid(body) || nesting(body) > maxNesting {
		return null, refuse(codeParse, "Parse error")
	}
	switch bytes.TrimLeft(body, " \t\r\n")[0] {
	case '[':
		return null, refuse(codeInvalidRequest, "Invalid Request: batch requests are not supported")
	case '{':
	default:
		return null, refuse(codeInvalidRequest, "Invalid Request")
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return null, refuse(codeParse, "Parse error")
	}
	req := rpcRequest{ID: members["id"], Params: map[string]json.RawMessage{}}
	if v, ok := str(members["jsonrpc"]); !ok || v != "2.0" {
		return req, refuse(codeInvalidRequest, `Invalid Request: missing or wrong "jsonrpc" version`)
	}
	method, ok := str(members["method"])
	if !ok {
		return req, refuse(codeInvalidRequest, `Invalid Request: missing "method"`)
	}
	req.Method = method
	// Anything but an object counts as {}: then the members are missing, which
	// the method says better than we could here.
	_ = json.Unmarshal(members["params"], &req.Params)
	return req, nil
}

// maxNesting is the depth of JSON beyond which a request is not looked at.
const maxNesting = 128

// nesting is the depth of valid JSON.
func nesting(body []byte) (deepest int) {
	depth, in := 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case in && c == '\\':
			i++
		case c == '"':
			in = !in
		case in:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

func str(raw json.RawMessage) (string, bool) {
	if len(raw) == 0 || raw[0] != '"' {
		return "", false
	}
	var s string
	err := json.Unmarshal(raw, &s)
	return s, err == nil
}

func isNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }
