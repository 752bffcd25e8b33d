package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Result is the outcome of a tool that ran.
type Result struct {
	// Raw is the result of tools/call as the server gave it: content, isError,
	// and where it has them structuredContent and _meta. isError is always there;
	// servers may leave it out when it is false.
	Raw json.RawMessage
	// Content is the array of content blocks alone, blocks as the server wrote
	// them. A result with structuredContent only has it as one text block.
	Content json.RawMessage
	IsError bool
}

// newResult reads a raw result. It fails when that is no object or its content
// no array.
func newResult(raw json.RawMessage) (Result, error) {
	if bytes.ContainsAny(raw, "\r\n") { // over HTTP a message may be indented
		var compact bytes.Buffer
		if err := json.Compact(&compact, raw); err != nil {
			return Result{}, fmt.Errorf("the server's result is not JSON: %w", err)
		}
		raw = compact.Bytes()
	}
	var r struct {
		Content           json.RawMessage `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           *bool           `json:"isError"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return Result{}, errors.New("the server's result has not the form of a tools/call result")
	}
	if r.IsError == nil {
		raw = withMember(raw, `"isError":false`)
		r.IsError = new(bool)
	}
	switch {
	case len(r.Content) > 0 && r.Content[0] != '[' && !isNull(r.Content):
		return Result{}, errors.New("the server's result has a content that is not an array")
	case len(r.Content) == 0 || isNull(r.Content) || isEmptyArray(r.Content):
		r.Content = json.RawMessage("[]")
		if len(r.StructuredContent) > 0 && !isNull(r.StructuredContent) {
			r.Content = append(append(json.RawMessage("["), textBlock(string(r.StructuredContent))...), ']')
		}
	}
	return Result{Raw: raw, Content: r.Content, IsError: *r.IsError}, nil
}

// withMember appends a member to a JSON object, leaving its bytes alone.
func withMember(object json.RawMessage, member string) json.RawMessage {
	body := bytes.TrimRight(object, " \t")
	body = bytes.TrimRight(body[:len(body)-1], " \t") // without its brace
	out := make(json.RawMessage, 0, len(body)+len(member)+2)
	out = append(out, body...)
	if body[len(body)-1] != '{' {
		out = append(out, ',')
	}
	out = append(out, member...)
	return append(out, '}')
}

// reduceCall leaves the SDK of a result only what it acts upon: a request for
// input stays whole, a result to be passed on is nothing to it.
func reduceCall(raw json.RawMessage) json.RawMessage {
	var r struct {
		ResultType    string          `json:"resultType"`
		InputRequests json.RawMessage `json:"inputRequests"`
	}
	if err := json.Unmarshal(raw, &r); err != nil || r.ResultType == "input_required" || len(r.InputRequests) > 0 {
		return raw
	}
	return json.RawMessage(`{"content":[]}`)
}

func isNull(raw json.RawMessage) bool { return string(raw) == "null" }

func isEmptyArray(raw json.RawMessage) bool {
	return len(bytes.TrimSpace(bytes.Trim(raw, "[]"))) == 0
}
