package turn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/lambae/lambae/internal/provider"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/telemetry"
)

// run is one call on its way: what the next chunk needs to know of the last.
type run struct {
	engine *Engine
	call   Call
	turn   *session.Turn
	ctx    context.Context // of effects, see [bounded]

	events  []session.Rendered
	message json.RawMessage // of the terminal result
	trips   int             // provider round trips begun
	gaveUp  string          // why the session ended with the call

	// Set by the request entry that was composed last.
	asked request
	// failed is the answer of a call that ended with its first chunk.
	failed error
}

// request is one provider attempt as recorded.
type request struct {
	attempt  int
	provider provider.Provider // nil when every provider of the profile is out
	tools    json.RawMessage
	routes   map[string]route
	failures int  // attempts that came to nothing in this round trip
	failed   bool // the attempt was made and failed
	answered bool // the attempt was answered with tool calls
}

// route says who runs a tool.
type route struct {
	dispatch string
	server   string // of an MCP tool
}

// compose makes the first chunk of the turn: the message and the first request.
func (r *run) compose(s *session.State, paused *session.Exchange) (session.Draft, error) {
	r.failed, r.message, r.trips = nil, nil, 0
	key := r.call.Key
	var d session.Draft
	if paused == nil {
		d.Entries = append(d.Entries, session.Entry{Type: session.ClientMessageSend, Key: key, Payload: session.NewMessage(r.call.Role, r.call.Content)})
		r.ask(s, &d)
		return d, nil
	}
	merged, results, detail := merge(paused, r.call.Role, r.call.Content)
	if detail != "" {
		text := "tool result merge invalid: " + detail
		r.failed = &session.Refusal{Text: text}
		d.Entries = []session.Entry{r.errorEvent(session.ReasonMergeInvalid, struct {
			Detail string `json:"detail"`
		}{detail}), {Type: session.MarkErrState}, {Type: session.MarkEnd, Key: key, Outcome: "error: " + text}}
		return d, nil
	}
	d.Entries = append(d.Entries, session.Entry{Type: session.ClientMessageSend, Key: key, Payload: session.NewMessage("user", merged)})
	if r.call.Role != "user" {
		d.Entries = append(d.Entries, session.Entry{Type: session.ClientMessageSend, Key: key, Payload: session.NewMessage(r.call.Role, r.call.Content)})
	}
	for _, b := range results {
		d.Entries = append(d.Entries, session.Entry{Type: session.ToolResult, Key: key, Payload: clientResult(b)})
	}
	r.ask(s, &d)
	return d, nil
}

func clientResult(b block) json.RawMessage {
	content := b.Content
	if len(content) == 0 {
		content = json.RawMessage("null")
	}
	out := fmt.Appendf(nil, `{"tool_use_id":%s,"dispatch":"client"`, session.Quote(b.ToolUseID))
	if len(b.IsError) > 0 {
		out = fmt.Appendf(out, `,"is_error":%s`, b.IsError)
	}
	return fmt.Appendf(out, `,"content":%s}`, content)
}

// errorEvent is a session.error with its reason first and the members of more after it.
func (r *run) errorEvent(reason string, more any) session.Entry {
	payload := fmt.Appendf(nil, `{"reason":"%s"`, reason)
	if rest := session.MarshalJSON(more); len(rest) > 2 {
		payload = append(append(payload, ','), rest[1:]...)
	} else {
		payload = append(payload, '}')
	}
	return session.Entry{Type: session.SessionError, Key: r.call.Key, Payload: payload}
}

// ask begins a round trip: attempt 0 with the primary provider. The ninth ends
// the session.
func (r *run) ask(s *session.State, d *session.Draft) {
	if r.trips == MaxRoundTrips {
		d.Entries = append(d.Entries, r.errorEvent(session.ReasonLoopLimit, struct {
			Max int `json:"max_iterations"`
		}{MaxRoundTrips}))
		r.giveUp(d, session.ReasonLoopLimit)
		return
	}
	r.trips++
	r.asked = request{attempt: -1}
	r.asked.tools, r.asked.routes = advertise(s, r.call.Key)
	r.next(d)
}

// next adds the next attempt of the round trip, passing providers that are not
// configured, or gives up when there is none left.
func (r *run) next(d *session.Draft) {
	p := r.call.Profile
	names := append([]string{p.PrimaryProvider}, p.FallbackProviders...)
	for r.asked.attempt++; r.asked.attempt < len(names); r.asked.attempt++ {
		name := names[r.asked.attempt]
		prov, ok := r.engine.Providers.Lookup(name)
		if !ok {
			r.asked.failures++
			d.Entries = append(d.Entries, r.errorEvent(session.ReasonProviderConfig, struct {
				Provider string `json:"provider"`
				Detail   string `json:"detail"`
			}{name, fmt.Sprintf("provider %q is not configured in bae-config.toml", name)}))
			continue
		}
		r.asked.provider = prov
		r.request(d)
		return
	}
	r.asked.provider = nil
	d.Entries = append(d.Entries, r.errorEvent(session.ReasonAllProvidersFailed, struct {
		Attempts int `json:"attempts"`
	}{r.asked.failures}))
	r.giveUp(d, session.ReasonAllProvidersFailed)
}

// giveUp ends the session in state error, with a result that says so.
func (r *run) giveUp(d *session.Draft, reason string) {
	r.gaveUp = reason
	r.message = session.NewMessage("assistant", text(unavailable))
	d.Entries = append(d.Entries, session.Entry{Type: session.MarkErrState},
		session.Entry{Type: session.MarkEnd, Key: r.call.Key, Outcome: "failed"})
}

func (r *run) kind() string {
	if r.asked.attempt == 0 {
		return "primary"
	}
	return "fallback"
}

// request adds the provider.request event. Its messages and tools are not
// stored with it: the log has them, see [session.Entry].
func (r *run) request(d *session.Draft) {
	info := r.asked.provider.Info()
	payload := session.MarshalJSON(struct {
		Attempt   int     `json:"attempt"`
		Kind      string  `json:"kind"`
		Provider  string  `json:"provider"`
		BaseURL   string  `json:"base_url"`
		Model     string  `json:"model"`
		MaxTokens int     `json:"max_tokens"`
		System    *string `json:"system,omitempty"`
	}{r.asked.attempt, r.kind(), info.Kind, info.BaseURL, info.Model, info.MaxTokens, r.call.Profile.SystemPrompt})
	e := session.Entry{Type: session.ProviderRequest, Key: r.call.Key, Payload: payload}
	if len(r.asked.tools) > 2 {
		sum := sha256.Sum256(r.asked.tools)
		e.Hash = hex.EncodeToString(sum[:])
		if d.Lists == nil {
			d.Lists = map[string][]byte{}
		}
		d.Lists[e.Hash] = r.asked.tools
	}
	d.Entries = append(d.Entries, e)
}

// run takes the turn from its first chunk to its end or pause.
func (r *run) run(ctx context.Context, entered *session.Entered) (*Result, error) {
	r.turn = entered.Turn
	defer r.turn.Release()
	var stop context.CancelFunc
	r.ctx, stop = r.engine.bounded(ctx, r.turn)
	defer stop()
	c := entered.First
	for {
		if err := r.emit(c); err != nil {
			return nil, r.abort(err)
		}
		if r.failed != nil {
			return nil, r.failed
		}
		if r.message != nil {
			return &Result{Message: session.EscapeLines(r.message), Events: r.events}, nil
		}
		next, err := r.step(c)
		if err != nil {
			return nil, r.abort(err)
		}
		c = next
	}
}

// abort gives the reason a turn ended early. When the turn is still ours, it is
// closed as broken, so that nobody has to wait for its lease.
func (r *run) abort(err error) error {
	if cause := context.Cause(r.ctx); cause != nil && !errors.Is(err, session.ErrTurnLost) {
		err = cause
	}
	var closed *session.Refusal
	if errors.Is(err, session.ErrTurnLost) {
		return r.lost()
	}
	if errors.As(err, &closed) {
		return err
	}
	if breakErr := r.turn.Break("interrupted"); breakErr != nil {
		r.engine.Logger.Warn("turn not closed", "session", r.call.Log.ID, "error", breakErr)
	}
	return err
}

// lost says why the turn is not the caller's any more: what would refuse the call
// now, such as a revoked key, or else another driver.
func (r *run) lost() (why error) {
	why = session.ErrTurnLost
	r.call.Log.View(func(s *session.State) {
		var refused *session.Refusal
		if errors.As(r.check(s), &refused) {
			why = refused
		}
	})
	return why
}

// emit notes the events of a committed chunk and shows them to the caller.
func (r *run) emit(c *session.Chunk) error {
	events, err := r.call.Log.Render(context.WithoutCancel(r.ctx), c, c.CallEvents())
	if err != nil {
		return err
	}
	first := c.N == r.turn.ID
	for i := range events {
		ev := &events[i]
		// What the client sent is not echoed to it: its message and, in the first
		// chunk, its tool results.
		if ev.Type == session.ClientMessageSend || first && ev.Type == session.ToolResult {
			continue
		}
		r.call.Sink.Event(ev)
	}
	r.events = append(r.events, events...)
	return nil
}

// step does what the last chunk announced, a provider attempt, and appends what
// came of it.
func (r *run) step(c *session.Chunk) (*session.Chunk, error) {
	reach := int64(0)
	for i := range c.Entries {
		if c.Entries[i].Type == session.ProviderRequest {
			reach = c.Entries[i].Reach
		}
	}
	res, err := r.attempt(reach)
	if cause := context.Cause(r.ctx); cause != nil {
		return nil, cause
	}
	var calls []toolCall
	if err == nil {
		calls, err = readAnswer(res)
	}
	if err != nil {
		r.asked.failed = true
		return r.append(func(*session.State) (session.Draft, error) { return r.failure(err), nil })
	}
	if len(calls) == 0 {
		return r.final(res)
	}
	r.asked.answered = true
	return r.dispatch(r.success(res), res.Content, calls)
}

// attempt calls the provider with the messages of the recorded request.
func (r *run) attempt(reach int64) (*provider.Response, error) {
	p := r.asked.provider
	messages, err := r.call.Log.Encoded(r.ctx, reach, p.Info().Kind, p.Format().AppendMessage)
	if err != nil {
		return nil, &provider.Error{Detail: err.Error()}
	}
	req := provider.Request{Messages: messages, Tools: r.asked.tools}
	if s := r.call.Profile.SystemPrompt; s != nil {
		req.System = *s
	}
	if r.call.Stream {
		req.OnDelta = r.call.Sink.Delta
	}
	ctx, span := r.engine.Telemetry.Attempt(r.ctx, p.Info().Kind, p.Info().Model, r.asked.attempt)
	res, err := p.Call(ctx, req)
	if err != nil {
		var failed *provider.Error
		if errors.As(err, &failed) && failed.Status != 0 {
			span.Status(failed.Status)
		}
		span.End(ctx, "attempt_failed")
		return nil, err
	}
	span.Status(res.Status)
	span.Tokens(ctx, telemetry.Usage{Input: res.InputTokens, Output: res.OutputTokens})
	span.End(ctx, "")
	return res, nil
}

// reason is the outcome of the call in one word, "" for a success.
func (r *run) reason(err error) string {
	var refused *session.Refusal
	switch {
	case err == nil:
		return r.gaveUp
	case errors.As(err, &refused):
		return "refused"
	case errors.Is(err, session.ErrTurnLost):
		return "lost"
	}
	return "interrupted"
}

type responseHead struct {
	Attempt  int    `json:"attempt"`
	Kind     string `json:"kind"`
	Provider string `json:"provider"`
	OK       bool   `json:"ok"`
}

func (r *run) head(ok bool) responseHead {
	return responseHead{r.asked.attempt, r.kind(), r.asked.provider.Info().Kind, ok}
}

// failure records a failed attempt and what follows it: the next one, or the end.
func (r *run) failure(err error) session.Draft {
	var d session.Draft
	pe := &provider.Error{}
	if !errors.As(err, &pe) {
		pe = &provider.Error{Detail: err.Error()}
	}
	payload := struct {
		responseHead
		Status *int    `json:"status"`
		Error  string  `json:"error"`
		Body   *string `json:"body"`
	}{responseHead: r.head(false), Error: pe.Detail, Body: pe.Body}
	if pe.Status != 0 {
		payload.Status = &pe.Status
	}
	d.Entries = append(d.Entries, session.Entry{Type: session.ProviderResponse, Key: r.call.Key, Payload: session.EscapeLines(session.MarshalJSON(payload))})
	if r.asked.attempt == 0 {
		d.Entries = append(d.Entries, r.errorEvent(session.ReasonProviderCallFailed, struct {
			Provider string `json:"provider"`
			Detail   string `json:"detail"`
		}{r.head(false).Provider, pe.Detail}))
	}
	r.asked.failures++
	r.asked.failed = false
	r.next(&d)
	return d
}

// success is the provider.response event of an answer, raw and untranslated.
func (r *run) success(res *provider.Response) session.Entry {
	head := session.MarshalJSON(r.head(true))
	payload := make([]byte, 0, len(head)+len(res.Body)+32)
	payload = append(payload, head[:len(head)-1]...)
	payload = fmt.Appendf(payload, `,"status":%d,"body":`, res.Status)
	payload = append(payload, session.CompactJSON(res.Body)...)
	payload = append(payload, '}')
	return session.Entry{Type: session.ProviderResponse, Key: r.call.Key, Payload: payload}
}

// final ends the turn with an answer that calls no tool.
func (r *run) final(res *provider.Response) (*session.Chunk, error) {
	message := session.NewMessage("assistant", session.CompactJSON(res.Content))
	entries := []session.Entry{
		r.success(res),
		{Type: session.ServerMessageSend, Key: r.call.Key, Payload: message},
		{Type: session.MarkEnd, Key: r.call.Key, Outcome: "done"},
	}
	return r.append(func(*session.State) (session.Draft, error) {
		r.message = message
		return session.Draft{Entries: entries}, nil
	})
}

// append appends to the turn. A decision that runs again after a lost race
// starts from what the run knew before it.
func (r *run) append(decide func(*session.State) (session.Draft, error)) (*session.Chunk, error) {
	if r.lastChance() {
		defer r.engine.ending(r.ctx, r.call.Log)()
	}
	asked, trips, message := r.asked, r.trips, r.message
	return r.turn.Append(func(s *session.State) (session.Draft, error) {
		r.asked, r.trips, r.message = asked, trips, message
		return decide(s)
	})
}

// lastChance reports whether the next append may end the session: no provider
// is left after this one, or no round trip.
func (r *run) lastChance() bool {
	return r.asked.failed && r.asked.attempt >= len(r.call.Profile.FallbackProviders) || r.asked.answered && r.trips == MaxRoundTrips
}
