package runtimetest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// FunctionError is an invocation that failed: the function reported it, in place
// of an answer or in the midst of one, or its process ended.
type FunctionError struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

func (e *FunctionError) Error() string { return e.Type + ": " + e.Message }

// Invocation is one event on its way through a function.
type Invocation struct {
	ID    string
	event []byte

	mu       sync.Mutex
	changed  *sync.Cond
	timer    *time.Timer
	deadline time.Time
	status   int // 0 until the answer begins
	header   http.Header
	data     bytes.Buffer // received and not read yet
	ended    bool
	err      error
}

func newInvocation(id string, event []byte) *Invocation {
	inv := &Invocation{ID: id, event: event}
	inv.changed = sync.NewCond(&inv.mu)
	return inv
}

// Response waits for the beginning of the answer. Its body can be read while the
// function still writes it; it ends with io.EOF when the invocation succeeded and
// else with a [*FunctionError]. An answer that was not streamed must be the JSON
// of a buffered one (statusCode, headers, body).
func (inv *Invocation) Response() (*http.Response, error) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for inv.status == 0 && !inv.ended {
		inv.changed.Wait()
	}
	if inv.status == 0 {
		if inv.err == nil {
			return nil, errors.New("the function's answer is not that of an HTTP request")
		}
		return nil, inv.err
	}
	return &http.Response{
		Status:     fmt.Sprintf("%d %s", inv.status, http.StatusText(inv.status)),
		StatusCode: inv.status,
		Proto:      "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header:        inv.header,
		Body:          io.NopCloser((*bodyReader)(inv)),
		ContentLength: -1,
	}, nil
}

// Wait waits for the end of the invocation. The error is nil or a [*FunctionError].
func (inv *Invocation) Wait() error {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for !inv.ended {
		inv.changed.Wait()
	}
	return inv.err
}

// Ended reports whether the invocation is over.
func (inv *Invocation) Ended() bool {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return inv.ended
}

// Payload waits for the end and returns what of the answer was not read through
// the body of [Invocation.Response]: all of a function's that answers no HTTP.
func (inv *Invocation) Payload() ([]byte, error) {
	err := inv.Wait()
	inv.mu.Lock()
	defer inv.mu.Unlock()
	return bytes.Clone(inv.data.Bytes()), err
}

// bodyReader reads the body of an answer.
type bodyReader Invocation

func (b *bodyReader) Read(p []byte) (int, error) {
	inv := (*Invocation)(b)
	inv.mu.Lock()
	defer inv.mu.Unlock()
	for inv.data.Len() == 0 && !inv.ended {
		inv.changed.Wait()
	}
	switch {
	case inv.data.Len() > 0:
		return inv.data.Read(p)
	case inv.err != nil:
		return 0, inv.err
	default:
		return 0, io.EOF
	}
}

// start is when the function gets the event.
func (inv *Invocation) start(timeout time.Duration, expire func()) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.deadline = time.Now().Add(timeout)
	inv.timer = time.AfterFunc(timeout, expire)
}

// finish ends the invocation; only the first end counts.
func (inv *Invocation) finish(err error) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	if inv.ended {
		return
	}
	if inv.timer != nil {
		inv.timer.Stop()
	}
	inv.ended, inv.err = true, err
	inv.changed.Broadcast()
}

// begin sets the status and headers of the answer.
func (inv *Invocation) begin(status int, header http.Header) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.status, inv.header = status, header
	inv.changed.Broadcast()
}

// receive adds to the body.
func (inv *Invocation) receive(p []byte) {
	inv.mu.Lock()
	defer inv.mu.Unlock()
	inv.data.Write(p)
	inv.changed.Broadcast()
}

// prelude is what precedes a streamed body, or is a buffered answer.
type prelude struct {
	StatusCode      int               `json:"statusCode"`
	Headers         map[string]string `json:"headers"`
	Cookies         []string          `json:"cookies"`
	Body            string            `json:"body"`
	IsBase64Encoded bool              `json:"isBase64Encoded"`
}

func (p prelude) header() http.Header {
	h := http.Header{}
	for name, value := range p.Headers {
		h.Set(name, value)
	}
	for _, c := range p.Cookies {
		h.Add("Set-Cookie", c)
	}
	return h
}

// buffered takes a whole answer. One that is no HTTP answer is kept as payload.
func (inv *Invocation) buffered(payload []byte) error {
	var p prelude
	if json.Unmarshal(payload, &p) != nil || p.StatusCode == 0 {
		inv.receive(payload)
		return nil
	}
	body := []byte(p.Body)
	if p.IsBase64Encoded {
		var err error
		if body, err = base64.StdEncoding.DecodeString(p.Body); err != nil {
			return &FunctionError{"Runtime.InvalidResponse", "the body is not base64"}
		}
	}
	inv.receive(body)
	inv.begin(p.StatusCode, p.header())
	return nil
}

// stream takes an answer as it comes: JSON, eight zero bytes, the body.
func (inv *Invocation) stream(r io.Reader) error {
	separator := strings.Repeat("\x00", 8)
	var head []byte
	chunk := make([]byte, 32<<10)
	begun := false
	for {
		n, err := r.Read(chunk)
		switch {
		case begun:
			inv.receive(chunk[:n])
		default:
			head = append(head, chunk[:n]...)
			before, after, found := strings.Cut(string(head), separator)
			if !found {
				break
			}
			var p prelude
			if json.Unmarshal([]byte(before), &p) != nil || p.StatusCode == 0 {
				return &FunctionError{"Runtime.InvalidResponse", "the streamed answer does not begin with its status and headers"}
			}
			begun = true
			inv.begin(p.StatusCode, p.header())
			inv.receive([]byte(after))
		}
		if err == io.EOF {
			if !begun {
				return &FunctionError{"Runtime.InvalidResponse", "the streamed answer ended before its body"}
			}
			return nil
		}
		if err != nil {
			return &FunctionError{"Runtime.TruncatedResponse", err.Error()}
		}
	}
}
