package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// explain makes the error of a call: what was tried with which server, and why
// it failed. What the server itself says of a call stands alone.
func (p *Pool) explain(ctx context.Context, server, what string, err error) error {
	why := reason(err)
	switch {
	case ctx.Err() == nil:
		if refusal(err) != nil {
			return errors.New(why)
		}
	case errors.Is(context.Cause(ctx), errCallTimeout):
		why = fmt.Sprintf("no answer within %s", p.opts.CallTimeout)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		why = "no answer in the time left"
	default:
		why = "the call was cancelled"
	}
	return fmt.Errorf("%s MCP server %q: %s", what, server, why)
}

// reason is an error of the SDK in few words. It leaves out addresses, which may
// hold keys.
func reason(err error) string {
	request := new(url.Error)
	if r := refusal(err); r != nil {
		if r.Message == "" {
			return fmt.Sprintf("the server refused with code %d", r.Code)
		}
		return cut(r.Message)
	}
	switch {
	case errors.Is(err, sdk.ErrSessionMissing):
		return errUnknownSession.Error()
	case errors.Is(err, sdk.ErrConnectionClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errGone.Error()
	case errors.As(err, &request):
		return cut(request.Err.Error())
	}
	text := err.Error()
	for _, prefix := range []string{"calling ", "rejected by transport", "sending "} { // `calling "tools/call": `
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			if _, after, ok := strings.Cut(rest, ": "); ok {
				text = after
			}
		}
	}
	return cut(text)
}

// refusal is the JSON-RPC error in err that the server sent, or nil.
func refusal(err error) *jsonrpc.Error {
	switch e := err.(type) {
	case *jsonrpc.Error:
		switch e.Message { // marks of the SDK's own, of the same type
		case "rejected by transport", "client is closing", "server is closing":
			return nil
		}
		return e
	case interface{ Unwrap() error }:
		return refusal(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, err := range e.Unwrap() {
			if r := refusal(err); r != nil {
				return r
			}
		}
	}
	return nil
}

// cut bounds text that a server wrote.
func cut(s string) string {
	const limit = 2000
	if len(s) <= limit {
		return s
	}
	for s = s[:limit]; !utf8.ValidString(s[len(s)-utf8.UTFMax:]); {
		s = s[:len(s)-1]
	}
	return s + "…"
}
