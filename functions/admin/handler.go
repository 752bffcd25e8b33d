package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/aws/aws-lambda-go/events"
	"github.com/awslabs/aws-lambda-go-api-proxy/httpadapter"
)

// event is what invokes the function: a request of the Function URL (payload
// format 2.0), or EventBridge's scheduled one.
type event json.RawMessage

// UnmarshalJSON keeps the bytes until it is known what they are.
func (e *event) UnmarshalJSON(b []byte) error { return (*json.RawMessage)(e).UnmarshalJSON(b) }

// scheduled is the detail-type of EventBridge's schedules.
const scheduled = "Scheduled Event"

// kind tells the two apart.
type kind struct {
	DetailType     string `json:"detail-type"`
	RequestContext struct {
		HTTP struct {
			Method string `json:"method"`
		} `json:"http"`
	} `json:"requestContext"`
}

var errUnknownEvent = errors.New("this event is neither a request of a Function URL nor EventBridge's schedule; call the admin API over HTTP")

type handler struct {
	http  *httpadapter.HandlerAdapterV2
	sweep func(context.Context)
}

func newHandler(h http.Handler, sweep func(context.Context)) *handler {
	return &handler{httpadapter.NewV2(h), sweep}
}

// handle answers a request, or nothing after a sweep.
func (h *handler) handle(ctx context.Context, e event) (any, error) {
	var k kind
	if err := json.Unmarshal(e, &k); err != nil {
		return nil, errUnknownEvent
	}
	switch {
	case k.DetailType == scheduled:
		h.sweep(ctx)
		return nil, nil
	case k.RequestContext.HTTP.Method == "":
		return nil, errUnknownEvent
	}
	// A Function URL's format is that of an HTTP API's version 2.0.
	var request events.APIGatewayV2HTTPRequest
	if err := json.Unmarshal(e, &request); err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	return h.http.ProxyWithContext(ctx, request)
}
