package lambdahttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambda/messages"
	"github.com/aws/aws-lambda-go/lambdaurl"
)

// Options of [Start].
type Options struct {
	// Logger gets panics. Nil is slog's default.
	Logger *slog.Logger
	// After runs when the handler is done, before the invocation ends and the
	// instance may be frozen. The client has all of the answer but its end.
	After func(ctx context.Context)
	// Shutdown runs when Lambda ends the instance, which then has half a second.
	Shutdown func()
}

// Start serves h and does not return. opts may be nil.
func Start(h http.Handler, opts *Options) {
	if opts == nil {
		opts = &Options{}
	}
	var options []lambda.Option
	if opts.Shutdown != nil {
		options = append(options, lambda.WithEnableSIGTERM(opts.Shutdown))
	}
	lambda.StartWithOptions(newFunction(h, opts), options...)
}

type (
	request  = events.LambdaFunctionURLRequest
	response = events.LambdaFunctionURLStreamingResponse
	function = func(context.Context, *request) (*response, error)
)

// newFunction is what runs for each event.
func newFunction(h http.Handler, opts *Options) function {
	log := opts.Logger
	if log == nil {
		log = slog.Default()
	}
	return func(ctx context.Context, event *request) (*response, error) {
		if event.RequestContext.HTTP.Method == "" {
			return nil, errors.New("this is no request of a Function URL (payload format 2.0); invoke the function over HTTP")
		}
		var served http.Handler = http.HandlerFunc(badRequest)
		if _, err := url.ParseRequestURI(event.RawPath); err == nil {
			served = h
		} else {
			event.RawPath = "/"
		}

		var failure error // set before the body ends
		run := func(w http.ResponseWriter, r *http.Request) {
			adapt(r, event)
			out := newWriter(w, r.Method)
			failure = serve(served, out, r, log)
			out.WriteHeader(http.StatusOK) // unless there was one
			if opts.After != nil {
				opts.After(ctx)
			}
		}
		resp, err := lambdaurl.Wrap(http.HandlerFunc(run))(ctx, event)
		if err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
		resp.Body = &body{resp.Body.(io.ReadCloser), &failure}
		return resp, nil
	}
}

// adapt completes the request lambdaurl made of an event.
func adapt(r *http.Request, event *request) {
	r.RemoteAddr = net.JoinHostPort(event.RequestContext.HTTP.SourceIP, "0")
	r.RequestURI = r.URL.RequestURI()
	if len(event.Cookies) > 0 && r.Header.Get("Cookie") == "" {
		r.Header.Set("Cookie", strings.Join(event.Cookies, "; "))
	}
	if event.IsBase64Encoded {
		r.ContentLength = int64(decodedLen(event.Body))
	}
}

// decodedLen is the exact length of what base64 text decodes to.
func decodedLen(text string) int {
	return len(strings.TrimRight(text, "=")) * 3 / 4
}

// serve runs the handler. A panic is logged and answered with a problem document
// while nothing is sent yet; later the stream ends with the error returned, which
// tells the client that the answer is not complete.
func serve(h http.Handler, w *writer, r *http.Request, log *slog.Logger) (err error) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if p != http.ErrAbortHandler {
			log.ErrorContext(r.Context(), "panic in a handler", "method", r.Method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		}
		if w.sent {
			err = messages.InvokeResponse_Error{Type: "Handler.Panic", Message: "the answer was cut short by an internal error"}
			return
		}
		clear(w.Header())
		problem(w, "internal", http.StatusInternalServerError, "unexpected server error")
	}()
	h.ServeHTTP(w, r)
	return nil
}

func badRequest(w http.ResponseWriter, _ *http.Request) {
	problem(w, "bad_request", http.StatusBadRequest, "the path is not a valid URL path")
}

// problem writes a problem document (RFC 7807).
func problem(w http.ResponseWriter, slug string, status int, detail string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{slug, http.StatusText(status), status, detail})
}

// body ends with the failure of the handler, if it has one.
type body struct {
	io.ReadCloser
	failure *error
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && *b.failure != nil {
		return n, *b.failure
	}
	return n, err
}
