package turn

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/lambae/lambae/internal/mcp"
	"github.com/lambae/lambae/internal/provider"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/telemetry"
)

// MaxRoundTrips is how many provider answers one call may take.
const MaxRoundTrips = 8

// unavailable is the text of the terminal result when no provider answers.
const unavailable = "The provider is currently unavailable."

// Engine runs turns. Its fields are set once, before the first call.
type Engine struct {
	Providers *provider.Registry
	MCP       *mcp.Pool
	Sandboxes *Sandboxes
	Telemetry *telemetry.Telemetry // nil when it is off
	Logger    *slog.Logger
	Now       func() time.Time // time.Now when nil

	// Ending is called before a chunk that may end the session, and what it
	// returns after it. It may be nil.
	Ending func(ctx context.Context, log *session.Log) (ended func())
	// Halted ends every turn that still runs, as broken. It may be nil.
	Halted context.Context
}

func (e *Engine) now() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}

// Call is one session.sendMessage.
type Call struct {
	Log     *session.Log
	Key     string          // client key id of the driver
	Profile session.Profile // of the session
	Role    string          // user or assistant
	Content json.RawMessage // string or array of blocks, compact
	Idem    *session.Idem   // nil without an Idempotency-Key
	Stream  bool            // session.delta notifications are wanted
	Sink    Sink
}

// Sink takes a call's output as it happens. Its methods are called in order and
// must not block for long: the gate is held meanwhile.
type Sink interface {
	// Event gets every event of the call that the client did not make itself.
	Event(r *session.Rendered)
	// Delta gets what the model says as it says it.
	Delta(d provider.Delta)
}

// Result is the terminal result of a call.
type Result struct {
	Message json.RawMessage    // {"role":"assistant","content":…}
	Events  []session.Rendered // every event of the call, in order
}

// Refusals of messages whose parameters do not fit what the session is at.
var (
	// ErrNoPausedTurn refuses tool results that no paused turn of the caller awaits.
	ErrNoPausedTurn = errors.New("no paused turn awaits a tool_result")
	// ErrNoContent refuses a message that says nothing, as model APIs do. To a
	// paused turn of the caller it is an answer, see [merge].
	ErrNoContent = errors.New(`"message.content" must not be empty`)
)

// Interrupted is returned when a call ended without a result for a reason that
// is not the session's: its process was stopped, or ran into its time limit.
type Interrupted struct{ Text string }

func (e *Interrupted) Error() string { return e.Text }

// Send runs one call to its end: a final answer, a pause for client tools, or a
// provider failure, all three results; or an error that says why there is none.
//
// ctx bounds only the wait for the gate: a client that goes away gives up its
// place in the queue, a turn that has begun runs to its end. A deadline of ctx
// is the platform's time limit and does end the turn, as broken.
func (e *Engine) Send(ctx context.Context, c Call) (*Result, error) {
	r := &run{engine: e, call: c}
	if r.mergeFails() {
		defer e.ending(ctx, c.Log)()
	}
	ctx, span := e.Telemetry.Turn(ctx, c.Log.ID)
	res, err := r.send(ctx)
	span.End(ctx, r.reason(err))
	return res, err
}

func (r *run) send(ctx context.Context) (*Result, error) {
	c := r.call
	entered, err := c.Log.Enter(ctx, session.Arrival{Key: c.Key, Idem: c.Idem, Check: r.check, Compose: r.compose})
	if err != nil {
		return nil, err
	}
	if entered.Turn == nil {
		return r.replay(ctx, entered.Spent)
	}
	res, err := r.run(ctx, entered)
	c.Log.Snapshot(ctx)
	return res, err
}

func (e *Engine) ending(ctx context.Context, log *session.Log) (ended func()) {
	if e.Ending == nil {
		return func() {}
	}
	return e.Ending(context.WithoutCancel(ctx), log)
}

// mergeFails reports whether the call, as things stand, answers a paused turn in
// a way that ends the session.
func (r *run) mergeFails() (fails bool) {
	r.call.Log.View(func(s *session.State) {
		if t := s.Turn; t != nil && t.Paused && t.Key == r.call.Key && s.Thread.Open != nil {
			_, _, detail := merge(s.Thread.Open, r.call.Role, r.call.Content)
			fails = detail != ""
		}
	})
	return fails
}

// check refuses a message on arrival, and again when its turn would start.
func (r *run) check(s *session.State) error {
	if !s.Open() {
		return session.NotOpen(s.Status)
	}
	if c := s.Clients[r.call.Key]; c == nil || c.Revoked {
		return &session.Refusal{Text: "the client key was revoked"}
	}
	paused := s.Turn != nil && s.Turn.Paused && s.Turn.Key == r.call.Key
	switch content := string(r.call.Content); {
	case !paused && hasResults(r.call.Content):
		return ErrNoPausedTurn
	case !paused && content == `[]`, content == `""` && !(paused && r.call.Role == "user"):
		return ErrNoContent
	}
	return nil
}

// bounded returns the context of a turn's effects: it ends when the turn is
// lost, and at the platform's time limit, but not with the client's connection.
func (e *Engine) bounded(ctx context.Context, t *session.Turn) (context.Context, context.CancelFunc) {
	out, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(t.Context(), func() { cancel(context.Cause(t.Context())) })
	unhalt := func() bool { return true }
	if e.Halted != nil {
		unhalt = context.AfterFunc(e.Halted, func() { cancel(context.Cause(e.Halted)) })
	}
	var limit *time.Timer
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.AfterFunc(time.Until(deadline), func() { cancel(errLimit) })
	}
	return out, func() {
		stop()
		unhalt()
		if limit != nil {
			limit.Stop()
		}
		cancel(nil)
	}
}

var errLimit = &Interrupted{Text: "the turn ran into the server's time limit and was closed; send a message to go on"}
