package lambae

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// Result is how a send ended: the assistant's message and every event of the
// call, in order.
type Result struct {
	Message Message `json:"message"`
	Events  []Event `json:"events"`
}

// Text is the text of the answer.
func (r *Result) Text() string { return r.Message.Content.Text() }

// ToolUses lists the tool calls in the answer, whoever runs them.
func (r *Result) ToolUses() []ToolUse {
	var calls []ToolUse
	for _, block := range r.Message.Content.Blocks() {
		if call, ok := block.ToolUse(); ok {
			calls = append(calls, call)
		}
	}
	return calls
}

// failure is the error of a turn that failed but has a result all the same.
func (r *Result) failure() error {
	for _, event := range r.Events {
		if event.Type != EventSessionError {
			continue
		}
		var body ErrorPayload
		if json.Unmarshal(event.Payload, &body) != nil {
			continue
		}
		if body.Reason == ReasonAllProvidersFailed || body.Reason == ReasonLoopLimit {
			return &TurnError{body.Reason, r}
		}
	}
	return nil
}

// Types of a [Delta].
const (
	DeltaText      = "text"
	DeltaThinking  = "thinking"
	DeltaInputJSON = "input_json"
)

// Delta is a piece of the answer while the model writes it. Deltas are not
// stored; the event of the whole message follows.
type Delta struct {
	SessionID string `json:"session_id"`
	Index     int    `json:"index"` // of the content block
	Type      string `json:"type"`  // [DeltaText], [DeltaThinking] or [DeltaInputJSON]
	Text      string `json:"text"`
}

// Update is one thing that happens during a send. One of its members is set.
type Update struct {
	Event  *Event  // something was recorded
	Delta  *Delta  // the model wrote on; only with [SendOptions.Stream]
	Lost   error   // the connection was lost and is being taken up again; deltas may repeat
	Result *Result // the end
}

// SendOptions tune a send.
type SendOptions struct {
	// Stream asks for deltas.
	Stream bool
	// IdempotencyKey makes a repeated send give the first one's outcome. It is
	// made anew when empty.
	IdempotencyKey string
}

// Send sends one message and yields what happens: events and deltas as they
// come, the Result last. It waits without limit while other drivers' turns are
// ahead of it, silently; end ctx to give up waiting. A turn that has begun runs
// on in the server even so.
//
// An error is yielded last. A turn that failed in the server yields its Result
// together with a [*TurnError]. An answer that is a pause for the client's
// tools is a Result like any other: see [Session.Run].
//
// Every range over the iterator sends the message anew. The client must be a
// driver: see [Session.RegisterDriver].
func (s *Session) Send(ctx context.Context, message Message, opts *SendOptions) iter.Seq2[Update, error] {
	if opts == nil {
		opts = &SendOptions{}
	}
	return func(yield func(Update, error) bool) {
		key := s.client.idempotencyKey(opts.IdempotencyKey)
		sending := &sending{
			session: s, yield: yield, seen: map[string]bool{},
			request: rest.Request{Body: sendBody(message, opts.Stream), IdempotencyKey: key, Repeatable: key != ""},
		}
		if err := sending.run(ctx); err != nil && !sending.stopped {
			yield(Update{Result: sending.result}, fmt.Errorf("send message to %s: %w", s.ID, err))
		}
	}
}

// sendBody puts the request together by hand: blocks arrive byte for byte.
func sendBody(message Message, stream bool) []byte {
	role := quote(message.Role)
	if message.Role == "" {
		role = quote(RoleUser)
	}
	params := fmt.Appendf(nil, `{"message":{"role":%s,"content":%s}`, role, message.Content.Raw())
	if stream {
		params = append(params, `,"stream":true`...)
	}
	return requestBody("session.sendMessage", append(params, '}'))
}

// sending is one send across the connections it takes.
type sending struct {
	session *Session
	request rest.Request
	yield   func(Update, error) bool
	seen    map[string]bool // ids of events yielded: a connection taken up again repeats them
	result  *Result
	stopped bool // the consumer wants no more
}

func (s *sending) run(ctx context.Context) error {
	for losses := 0; ; losses++ {
		known := len(s.seen)
		err := s.follow(ctx)
		if !errors.Is(err, errLost) && !errors.Is(err, ErrLagged) {
			return err
		}
		if len(s.seen) > known {
			losses = 0 // it got on
		}
		if !s.request.Repeatable || losses >= s.session.client.rest.Retries() {
			return err
		}
		if !s.tell(Update{Lost: err}) {
			return nil
		}
		if err := rest.Sleep(ctx, s.session.client.rest.Backoff(losses)); err != nil {
			return err
		}
	}
}

// follow reads one connection to its end.
func (s *sending) follow(ctx context.Context) error {
	stream, err := s.session.stream(ctx, s.request, func() {})
	if err != nil {
		return err
	}
	defer stream.Close()
	for {
		line, err := stream.next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("%w: no result came", errLost)
		case err != nil:
			return err
		case line.Error != nil:
			return line.Error
		case line.terminal():
			return s.finish(line.Result)
		}
		update, err := s.notification(line)
		if err != nil {
			return err
		}
		if update != (Update{}) && !s.tell(update) {
			return nil
		}
	}
}

// notification reads what a line tells; a zero Update is nothing new.
func (s *sending) notification(line *envelope) (update Update, err error) {
	switch line.Method {
	case "session.event":
		if update.Event, err = decodeEvent(line.Params); err != nil {
			return Update{}, err
		}
		if s.seen[update.Event.ID] {
			return Update{}, nil
		}
		s.seen[update.Event.ID] = true
	case "session.delta":
		update.Delta = new(Delta)
		if err := json.Unmarshal(line.Params, update.Delta); err != nil {
			return Update{}, fmt.Errorf("%w: %w: %w", errLost, errMalformed, err)
		}
	}
	return update, nil
}

func (s *sending) finish(raw json.RawMessage) error {
	result := new(Result)
	if err := json.Unmarshal(raw, result); err != nil {
		return fmt.Errorf("read the result: %w", err)
	}
	s.result = result
	if err := result.failure(); err != nil {
		return err
	}
	s.tell(Update{Result: result})
	return nil
}

func (s *sending) tell(update Update) bool {
	s.stopped = s.stopped || !s.yield(update, nil)
	return !s.stopped
}

func decodeEvent(params json.RawMessage) (*Event, error) {
	event := new(Event)
	if err := json.Unmarshal(params, event); err != nil {
		return nil, fmt.Errorf("%w: %w: %w", errLost, errMalformed, err)
	}
	if event.ID == "" {
		return nil, fmt.Errorf("%w: %w: an event without an id", errLost, errMalformed)
	}
	return event, nil
}
