package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/turn"
)

// sendMessage serves session.sendMessage: the events of the turn as they come,
// then the result. While the call waits for the gate its answer is open and
// empty.
func (c *Client) sendMessage(w http.ResponseWriter, r *http.Request, who *caller, req rpcRequest) {
	name, ok := idempotencyKey(w, r)
	if !ok {
		return
	}
	var idem *session.Idem
	if name != "" {
		secret, _ := bearer(r)
		// What is sent makes a message the same one, not the id its answer goes by:
		// clients count that up.
		idem = idemFor(secret, r, name, session.MarshalJSON(req.Params))
	}
	spent, mismatch := who.spent(idem)
	if mismatch {
		writeProblem(w, idempotencyMismatch(session.ErrIdemMismatch.Error()))
		return
	}
	call, err := c.message(who, req.Params)
	if over := (*session.Refusal)(nil); spent && errors.As(err, &over) {
		err = nil // the session has ended since; the first outcome stands
	}
	if err != nil {
		c.reply(w, req.ID, nil, c.toRPC(r, err))
		return
	}
	call.Idem = idem
	ctx, cancel := c.limited(r.Context())
	defer cancel()
	out := newLines(w, r, who.log.ID, c.source(who.log.ID))
	defer out.close()
	call.Sink = out
	if req.ID == nil {
		call.Sink = muted{}
	}
	res, err := c.Engine.Send(ctx, call)
	if err != nil {
		out.answer(req.ID, nil, c.toRPC(r, err))
		return
	}
	out.turnResult(req.ID, res)
	// A client may be slow to read: what it has not got yet comes from the log when
	// it does, and the log may leave the memory meanwhile.
	call, who.log = turn.Call{}, nil
	who.release()
}

// spent reports whether the idempotency key was used for this body before, or
// for another one. It is asked before the answer opens, while a mismatch can
// still be a 409.
func (w *caller) spent(idem *session.Idem) (spent, mismatch bool) {
	if idem == nil {
		return false, false
	}
	w.log.View(func(s *session.State) {
		if sp := s.Idem[idem.Key]; sp != nil {
			spent, mismatch = sp.Body == idem.Body, sp.Body != idem.Body
		}
	})
	return spent, mismatch
}

// message reads and checks the parameters, in the protocol's order.
func (c *Client) message(who *caller, p params) (turn.Call, error) {
	call := turn.Call{Log: who.log, Key: who.key, Profile: who.profile, Role: "user"}
	if err := who.openDriver("session.sendMessage"); err != nil {
		return call, err
	}
	raw, given := p["message"]
	if !given {
		return call, badParams(`missing "message"`)
	}
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil || m == nil {
		return call, badParams(`"message" must be an object`)
	}
	if v, given := m["role"]; given {
		role, ok := str(v)
		if !ok || role != "user" && role != "assistant" {
			return call, badParams(`"message.role" must be "user" or "assistant"`)
		}
		call.Role = role
	}
	content, given := m["content"]
	if !given {
		return call, badParams(`missing "message.content"`)
	}
	if err := checkContent(content); err != nil {
		return call, err
	}
	call.Content = session.CompactJSON(content)
	if v := p["stream"]; !isNull(v) && json.Unmarshal(v, &call.Stream) != nil {
		return call, badParams(`"stream" must be a boolean`)
	}
	if who.gone {
		return call, refuse(codeRefused, "profile_unavailable: the session's profile was deleted")
	}
	return call, nil
}

func checkContent(content json.RawMessage) error {
	if content[0] == '"' {
		return nil
	}
	var blocks []json.RawMessage
	if content[0] != '[' || json.Unmarshal(content, &blocks) != nil {
		return badParams(`"message.content" must be a string or an array of content blocks`)
	}
	for i, b := range blocks {
		var m map[string]json.RawMessage
		if json.Unmarshal(b, &m) != nil || m == nil {
			return badParams(`"message.content[%d]" must be an object`, i)
		}
		if kind, ok := str(m["type"]); !ok || kind == "" {
			return badParams(`"message.content[%d].type" must be a non-empty string`, i)
		}
	}
	return nil
}
