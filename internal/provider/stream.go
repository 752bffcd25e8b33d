package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"

	"github.com/tidwall/gjson"
)

// assembly puts the events of a streamed answer together to the body that a call
// without streaming gives, and passes deltas on meanwhile.
type assembly interface {
	// event takes the data of one event. It returns errStop after the last one.
	event(data []byte) error
	// body returns the whole answer, or what is missing of it.
	body() ([]byte, error)
	// spoken reports whether a delta was passed on.
	spoken() bool
}

// errInStream is an error event: the API gave up after it had answered 200.
type errInStream struct {
	kind, message string
	raw           []byte
	temporary     bool
}

func (e *errInStream) Error() string { return fmt.Sprintf("%s: %s", e.kind, e.message) }

// finish is the outcome of a stream whose reading ended with err.
func finish(ctx context.Context, name string, status int, s assembly, answer answerFunc, err error) (*Response, error) {
	if errors.Is(err, errStop) {
		err = nil
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("call %s: %w", name, context.Cause(ctx))
	}
	var told *errInStream
	if errors.As(err, &told) {
		text := string(told.raw)
		return nil, &Error{
			Status: status, Body: &text, Temporary: told.temporary && !s.spoken(),
			Detail: fmt.Sprintf("error in the stream of %s: %s", name, firstRunes(told.Error(), maxDetailText)),
		}
	}
	var broke *readError
	if errors.As(err, &broke) {
		return nil, &Error{Status: status, Temporary: !s.spoken(), Detail: fmt.Sprintf("the stream of %s broke off: %v", name, err)}
	}
	var raw []byte
	if err == nil {
		raw, err = s.body()
	}
	var resp *Response
	if err == nil {
		resp, err = answer(status, raw)
	}
	if err != nil {
		return nil, &Error{Status: status, Detail: fmt.Sprintf("unusable stream from %s: %v", name, err)}
	}
	return resp, nil
}

// speaker passes deltas on, if anybody wants them.
type speaker struct {
	onDelta func(Delta)
	said    bool
}

func (s *speaker) spoken() bool { return s.said }

func (s *speaker) say(index int, kind, text string) {
	if text == "" || s.onDelta == nil {
		return
	}
	s.said = true
	s.onDelta(Delta{Index: index, Type: kind, Text: text})
}

// sayWhole passes on an answer that came whole although a stream was asked for,
// as some gateways do.
func (s *speaker) sayWhole(content json.RawMessage) {
	v := gjson.ParseBytes(content)
	if v.Type == gjson.String {
		s.say(0, DeltaText, v.Str)
	}
	if !v.IsArray() {
		return
	}
	for i, block := range v.Array() {
		switch block.Get("type").Str {
		case "text":
			s.say(i, DeltaText, block.Get("text").Str)
		case "thinking":
			s.say(i, DeltaThinking, block.Get("thinking").Str)
		case "tool_use":
			s.say(i, DeltaInputJSON, block.Get("input").Raw)
		}
	}
}

// drain reads what follows the last event, the end of the HTTP body, so that the
// connection can be used again; a server that keeps the stream open is cut off.
func drain(body io.ReadCloser) {
	cut := time.AfterFunc(250*time.Millisecond, func() { body.Close() })
	defer cut.Stop()
	io.Copy(io.Discard, body)
}

func isEventStream(resp *http.Response) bool {
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && kind == "text/event-stream"
}
