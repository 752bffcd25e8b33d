package provider

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lambae/lambae/internal/config"
	"github.com/lambae/lambae/internal/provider/echo"
)

// echoModel plays the answers of package echo in the Anthropic format.
type echoModel struct {
	info  Info
	sleep func(context.Context, time.Duration) error
}

func newEcho(_ config.Provider, info Info, o Options) Provider {
	return &echoModel{info, o.Sleep}
}

func (e *echoModel) Info() Info     { return e.info }
func (e *echoModel) Format() Format { return Messages{} }

func (e *echoModel) Call(ctx context.Context, r Request) (*Response, error) {
	tools, err := distinctTools(r.Tools)
	if err != nil {
		return nil, &Error{Detail: err.Error()}
	}
	messages := newBody([]byte("["), r.Messages, []byte("]")).bytes()
	if !json.Valid(messages) {
		return nil, &Error{Detail: "messages are not a JSON array"}
	}
	a := echo.Play(echo.Prompt{Entry: e.info.Name, System: r.System, Messages: messages, Tools: tools})
	if err := e.wait(ctx, a.Sleep); err != nil {
		return nil, err
	}
	if a.Failed {
		return nil, e.failure(a.Status)
	}
	if err := e.speak(ctx, a, r.OnDelta); err != nil {
		return nil, err
	}
	said := 0
	for _, b := range a.Blocks {
		said += len(b.Text) + len(b.Input)
	}
	return messagesAnswer(http.StatusOK, e.message(a, tokens(len(r.System)+len(messages)+len(tools)), tokens(said)))
}

func (e *echoModel) failure(status int) error {
	if status == 0 {
		return &Error{Detail: fmt.Sprintf("connect to %s: no answer, as asked", e.info.Name)}
	}
	text := fmt.Sprintf(`{"type":"error","error":{"type":"api_error","message":"asked to fail with %d"}}`, status)
	return &Error{Status: status, Body: &text, Detail: httpDetail(e.info.Name, status, text)}
}

// speak passes the answer on word by word. The pauses are the same for a caller
// that waits for the whole.
func (e *echoModel) speak(ctx context.Context, a echo.Answer, onDelta func(Delta)) error {
	for i, b := range a.Blocks {
		kind, pieces := DeltaText, strings.SplitAfter(b.Text, " ")
		switch b.Type {
		case echo.Thinking:
			kind = DeltaThinking
		case echo.ToolUse:
			kind, pieces = DeltaInputJSON, halves(string(b.Input))
		}
		for _, piece := range pieces {
			if piece == "" {
				continue
			}
			if onDelta != nil {
				onDelta(Delta{Index: i, Type: kind, Text: piece})
			}
			if err := e.wait(ctx, a.Pause); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *echoModel) wait(ctx context.Context, d time.Duration) error {
	if d > 0 {
		e.sleep(ctx, d)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("call %s: %w", e.info.Name, context.Cause(ctx))
	}
	return nil
}

// message is the answer's body in the Anthropic format.
func (e *echoModel) message(a echo.Answer, in, out int) []byte {
	m := []byte(`{"id":"msg_echo_` + fmt.Sprint(in) + `","type":"message","role":"assistant","model":`)
	m = append(appendQuoted(m, e.info.Model), `,"content":[`...)
	for i, b := range a.Blocks {
		if i > 0 {
			m = append(m, ',')
		}
		switch b.Type {
		case echo.Thinking:
			m = append(appendQuoted(append(m, `{"type":"thinking","thinking":`...), b.Text), `,"signature":"echo"}`...)
		case echo.ToolUse:
			m = appendQuoted(append(m, `{"type":"tool_use","id":`...), b.ID)
			m = appendQuoted(append(m, `,"name":`...), b.Name)
			m = append(append(append(m, `,"input":`...), b.Input...), '}')
		default:
			m = append(appendQuoted(append(m, `{"type":"text","text":`...), b.Text), '}')
		}
	}
	reason := "end_turn"
	if a.Calls() {
		reason = "tool_use"
	}
	return fmt.Appendf(m, `],"stop_reason":"%s","stop_sequence":null,"usage":{"input_tokens":%d,"output_tokens":%d}}`, reason, in, out)
}

// tokens counts four bytes a token, which is about right for English.
func tokens(bytes int) int { return (bytes + 3) / 4 }

// halves cuts s in two between runes.
func halves(s string) []string {
	cut := len(s) / 2
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return []string{s[:cut], s[cut:]}
}
