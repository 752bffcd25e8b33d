package main

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/lambae/lambae/sdk/lambae"
)

// view writes a chat: answers to one stream, all else to another, which on a
// terminal are the same. It is safe for concurrent use: others speak while the
// user waits.
type view struct {
	style style
	out   io.Writer // answers
	rest  io.Writer // all else

	mu       sync.Mutex
	streamed strings.Builder // of the answer since its beginning
	partial  bool            // the line at the end of out is not finished
}

// delta writes on at the answer.
func (v *view) delta(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.streamed.WriteString(text)
	v.answer(text)
}

// endAnswer ends the answer that is being written, if any; what comes is another.
func (v *view) endAnswer() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.finish()
	v.streamed.Reset()
}

// own shows an event of the user's own turn.
func (v *view) own(event lambae.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if event.Type == lambae.EventProviderRequest {
		v.streamed.Reset() // another answer begins
		return
	}
	payload, err := event.Decode()
	if err != nil {
		return
	}
	switch payload := payload.(type) {
	case *lambae.Message:
		v.complete(payload.Content.Text())
	case *lambae.ToolCallPayload:
		v.toolCall(payload, true)
	case *lambae.ToolResultPayload:
		v.result(payload.ToolResult)
	default:
		v.happening(event, "")
	}
}

// others shows an event that is not part of the user's own turn. Own says that
// the same client key did it, elsewhere.
func (v *view) others(event lambae.Event, own bool) {
	if event.Type == lambae.EventProviderRequest || event.Type == lambae.EventProviderResponse {
		return // long, and nothing to see for people
	}
	payload, err := event.Decode()
	if err != nil {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	who := short(event.ClientKeyID)
	if own {
		who = "you elsewhere"
	}
	switch payload := payload.(type) {
	case *lambae.Message:
		if text := payload.Content.Text(); text != "" { // tools have events of their own
			v.line(v.style.cyan(speaker(event, who)+" › ") + safe(text))
		}
	case *lambae.ToolCallPayload:
		v.toolCall(payload, false)
	case *lambae.ToolResultPayload:
		v.result(payload.ToolResult)
	default:
		v.happening(event, who)
	}
}

// past shows a message of before.
func (v *view) past(event lambae.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line(v.style.cyan(speaker(event, short(event.ClientKeyID))+" › ") + safe(describe(event)))
}

func speaker(message lambae.Event, who string) string {
	if message.Type == lambae.EventServerMessage {
		return "agent"
	}
	return who
}

// toolResult shows what a tool of this program answered.
func (v *view) toolResult(result lambae.ToolResult) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.result(result)
}

// question shows what the model asks the user.
func (v *view) question(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line("  " + v.style.bold(safe(text)))
}

// note says something of the program's own.
func (v *view) note(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line(v.style.dim(safe(text)))
}

// failure says what went wrong.
func (v *view) failure(text string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.line(v.style.red(safe(text)))
}

// toolCall shows who runs what. A client's tool runs in the client of whose
// turn it is.
func (v *view) toolCall(call *lambae.ToolCallPayload, own bool) {
	where := runBy(call)
	if where == lambae.DispatchClient && own {
		where = "runs here"
	}
	v.line("  ⚙ " + oneLine(fmt.Sprintf("%s %s", call.Name, call.Input), maxLine) + v.style.dim(" ("+safe(where)+")"))
}

func (v *view) result(result lambae.ToolResult) {
	v.line("  ↳ " + v.style.dim(oneLine(failed(result.IsError)+result.Content.Text(), maxLine)))
}

// happening shows the rest of what is of interest to people.
func (v *view) happening(event lambae.Event, who string) {
	said := oneLine(describe(event), maxLine)
	switch event.Type {
	case lambae.EventSessionJoin:
		v.line(v.style.dim(parts(who+" joined", said)))
	case lambae.EventSessionClose:
		v.line(v.style.dim(parts("the session was closed", said)))
	case lambae.EventSessionError:
		v.line(v.style.red(said))
	default:
		name, isSession := strings.CutPrefix(string(event.Type), "session.")
		if kind, state, _ := strings.Cut(name, "."); isSession && (kind == "sandbox" || kind == "subagent") {
			v.line(v.style.dim(fmt.Sprintf("%s %s: %s", kind, state, said)))
		}
	}
}

// complete shows what was not yet streamed of a whole message.
func (v *view) complete(text string) {
	rest, ok := strings.CutPrefix(text, v.streamed.String())
	if !ok { // what was streamed is not the message: a lost connection can do that
		v.finish()
		rest = text
	}
	v.answer(rest)
	v.finish()
}

// answer writes to the answers. Only a terminal needs protection from them.
func (v *view) answer(text string) {
	if text == "" {
		return
	}
	if v.style.terminal {
		text = safe(text)
	}
	_, _ = io.WriteString(v.out, text)
	v.partial = !strings.HasSuffix(text, "\n")
}

// finish ends the line of an answer.
func (v *view) finish() {
	if v.partial {
		_, _ = io.WriteString(v.out, "\n")
		v.partial = false
	}
}

// line writes one of all else, between two lines of an answer if need be.
func (v *view) line(text string) {
	if v.partial && v.style.terminal {
		v.finish()
	}
	_, _ = fmt.Fprintln(v.rest, text)
}
