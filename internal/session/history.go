package session

import (
	"encoding/json"
	"slices"
)

// History is the message list of a session as `provider.request` shows it,
// encoded once and kept as it grows: messages separated by commas, without the
// brackets. It is built by operations, one per message said; an operation whose
// role is that of the last message merges into it, so that roles alternate.
//
// The rebuild is part of the log's format: any prefix of operations gives the
// same bytes for ever, see [History.View].
type History struct {
	buf      []byte
	ends     []int // end of each message in buf
	roles    []byte
	ops      int64
	replaced []replacement

	encodings map[string]*encoding // by wire format
}

// replacement remembers the form a message had before operation Op merged into it.
type replacement struct {
	Op    int64  `json:"op"`
	Index int    `json:"i"`
	Old   []byte `json:"old"`
}

// said is one operation: a message {"role","content"}.
type said struct {
	role    string
	message json.RawMessage
}

// Ops is the number of operations so far; a valid argument of [History.View].
func (h *History) Ops() int64 { return h.ops }

// Len is the number of messages.
func (h *History) Len() int { return len(h.ends) }

// Size is the number of bytes held.
func (h *History) Size() int {
	n := cap(h.buf) + 9*len(h.ends)
	for _, e := range h.encodings {
		n += cap(e.buf) + 8*len(e.ends)
	}
	return n
}

func (h *History) add(s said) {
	h.ops++
	msg := EscapeLines(s.message)
	if n := len(h.ends); n > 0 && h.roles[n-1] == s.role[0] {
		old := slices.Clone(h.message(n - 1))
		h.replaced = append(h.replaced, replacement{Op: h.ops, Index: n - 1, Old: old})
		msg = mergeMessages(s.role, old, msg)
		// Views of the old form may still be on their way to a client: leave
		// their bytes alone and go on in a new buffer.
		h.ends, h.roles = h.ends[:n-1:n-1], h.roles[:n-1:n-1]
		kept := 0
		if n > 1 {
			kept = h.ends[n-2]
		}
		h.buf = append(make([]byte, 0, cap(h.buf)+len(msg)), h.buf[:kept]...)
	}
	if len(h.ends) > 0 {
		h.buf = append(h.buf, ',')
	}
	h.buf = append(h.buf, msg...)
	h.ends = append(h.ends, len(h.buf))
	h.roles = append(h.roles, s.role[0])
}

// start is where message i begins in buf, its comma not included.
func (h *History) start(i int) int {
	if i == 0 {
		return 0
	}
	return h.ends[i-1] + 1
}

func (h *History) message(i int) []byte { return h.buf[h.start(i):h.ends[i]:h.ends[i]] }

// count is the number of messages after the first reach operations.
func (h *History) count(reach int64) int {
	n := int(reach)
	for _, r := range h.replaced {
		if r.Op <= reach {
			n--
		}
	}
	return n
}

// View returns the messages after the first reach operations, encoded, in two
// segments that follow each other. They must not be changed and stay valid.
func (h *History) View(reach int64) [2][]byte {
	n := h.count(min(reach, h.ops))
	if n <= 0 {
		return [2][]byte{}
	}
	end := h.ends[n-1]
	if r := h.laterForm(n-1, reach); r != nil {
		start := h.start(n - 1)
		return [2][]byte{h.buf[:start:start], r.Old}
	}
	return [2][]byte{h.buf[:end:end], nil}
}

// laterForm finds the replacement that changed message i first after reach.
func (h *History) laterForm(i int, reach int64) *replacement {
	for k := range h.replaced {
		if r := &h.replaced[k]; r.Op > reach && r.Index == i {
			return r
		}
	}
	return nil
}

// Message returns the message that operation op said or merged into, as it
// stood then.
func (h *History) Message(op int64) json.RawMessage {
	n := h.count(min(op, h.ops))
	if n <= 0 {
		return nil
	}
	if r := h.laterForm(n-1, op); r != nil {
		return r.Old
	}
	return h.message(n - 1)
}

// Messages returns the messages after the first reach operations, from index
// first on.
func (h *History) Messages(first int, reach int64) [][]byte {
	n := h.count(min(reach, h.ops))
	var out [][]byte
	for i := first; i < n; i++ {
		m := h.message(i)
		if i == n-1 {
			if r := h.laterForm(i, reach); r != nil {
				m = r.Old
			}
		}
		out = append(out, m)
	}
	return out
}

// Stable is how many messages no later operation can change: all but the last.
func (h *History) Stable() int { return max(0, len(h.ends)-1) }

func mergeMessages(role string, a, b json.RawMessage) json.RawMessage {
	blocks := append(Blocks(messageContent(a)), Blocks(messageContent(b))...)
	return message(role, joinBlocks(blocks))
}

// NewMessage returns {"role":role,"content":content}, in this order.
func NewMessage(role string, content json.RawMessage) json.RawMessage { return message(role, content) }

func message(role string, content json.RawMessage) json.RawMessage {
	out := make([]byte, 0, len(content)+32)
	out = append(out, `{"role":"`...)
	out = append(out, role...)
	out = append(out, `","content":`...)
	out = append(out, content...)
	return append(out, '}')
}

func messageContent(m json.RawMessage) json.RawMessage {
	var v struct {
		Content json.RawMessage `json:"content"`
	}
	_ = json.Unmarshal(m, &v)
	return v.Content
}

// Blocks returns content as blocks: an array's elements, or a string as one
// text block (none when it is empty, which model APIs refuse).
func Blocks(content json.RawMessage) []json.RawMessage {
	if len(content) > 0 && content[0] == '[' {
		var blocks []json.RawMessage
		_ = json.Unmarshal(content, &blocks)
		return blocks
	}
	var s string
	if json.Unmarshal(content, &s) != nil || s == "" {
		return nil
	}
	return []json.RawMessage{TextBlock(s)}
}

// TextBlock returns {"type":"text","text":s}.
func TextBlock(s string) json.RawMessage {
	return append(append([]byte(`{"type":"text","text":`), Quote(s)...), '}')
}

func joinBlocks(blocks []json.RawMessage) json.RawMessage {
	n := 2
	for _, b := range blocks {
		n += len(b) + 1
	}
	out := append(make([]byte, 0, n), '[')
	for i, b := range blocks {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, b...)
	}
	return append(out, ']')
}
