package turn

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/lambae/lambae/internal/session"
)

// replay answers a repeated call with what the first one got: its events, and
// its result or its error (protocol, "Additions of this project").
func (r *run) replay(ctx context.Context, sp *session.Spent) (*Result, error) {
	for at := sp.Turn; at <= sp.End; {
		chunks, err := r.call.Log.Chunks(ctx, at)
		if err != nil {
			return nil, err
		}
		if len(chunks) == 0 {
			break
		}
		for _, c := range chunks {
			if c.N > sp.End {
				break
			}
			if c.Turn != sp.Turn {
				continue
			}
			if err := r.replayChunk(ctx, sp, c); err != nil {
				return nil, err
			}
		}
		at += int64(len(chunks))
	}
	kind, detail, _ := strings.Cut(sp.Outcome, ": ")
	switch kind {
	case "done", "paused":
		return &Result{Message: r.message, Events: r.events}, nil
	case "failed":
		return &Result{Message: session.NewMessage("assistant", text(unavailable)), Events: r.events}, nil
	case "error":
		return nil, &session.Refusal{Text: detail}
	case "closed":
		return nil, session.NotOpen(session.StateClosed)
	}
	return nil, &Interrupted{Text: "the turn was interrupted and is not repeated; send the message again with a new Idempotency-Key"}
}

func (r *run) replayChunk(ctx context.Context, sp *session.Spent, c *session.Chunk) error {
	events, err := r.call.Log.Render(ctx, c, c.CallEvents())
	if err != nil {
		return err
	}
	for i := range events {
		ev := &events[i]
		if ev.Type == session.ServerMessageSend {
			var v struct {
				Payload json.RawMessage `json:"payload"`
			}
			if err := json.Unmarshal(ev.JSON(), &v); err != nil {
				return err
			}
			r.message = v.Payload
		}
		if ev.Type != session.ClientMessageSend && (c.N != sp.Turn || ev.Type != session.ToolResult) {
			r.call.Sink.Event(ev)
		}
	}
	r.events = append(r.events, events...)
	return nil
}
