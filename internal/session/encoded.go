package session

import (
	"bytes"
	"context"
)

// encoding is the history in one provider's wire format, kept beside the shown
// form and grown with it. While both are the same bytes, as they are until a
// client tool is called, none of it is stored twice.
type encoding struct {
	same bool
	n    int    // messages encoded
	buf  []byte // only when !same
	ends []int
}

// Encoded returns the messages after the first reach operations in the wire
// format named format, in segments: what appendMessage makes of each message,
// separated by commas. Messages that no operation can change any more are
// encoded once.
func (l *Log) Encoded(ctx context.Context, reach int64, format string, appendMessage func(dst, message []byte) ([]byte, error)) ([][]byte, error) {
	h, err := l.History(ctx)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return h.encoded(reach, format, appendMessage)
}

func (h *History) encoded(reach int64, format string, appendMessage func(dst, message []byte) ([]byte, error)) ([][]byte, error) {
	if h.encodings == nil {
		h.encodings = map[string]*encoding{}
	}
	e := h.encodings[format]
	if e == nil {
		e = &encoding{same: true}
		h.encodings[format] = e
	}
	count := h.count(min(reach, h.ops))
	stable := min(h.Stable(), count)
	if count > 0 && h.laterForm(count-1, reach) != nil {
		stable = min(stable, count-1) // the view wants the last message as it was
	}
	for e.n < stable {
		if err := e.grow(h, appendMessage); err != nil {
			return nil, err
		}
	}
	n := min(e.n, stable)
	var out [][]byte
	if n > 0 {
		if e.same {
			end := h.ends[n-1]
			out = append(out, h.buf[:end:end])
		} else if end := e.ends[n-1]; end > 0 { // else the format left all of them out
			out = append(out, e.buf[:end:end])
		}
	}
	for _, m := range h.Messages(n, reach) {
		b := make([]byte, 0, len(m)+1)
		if len(out) > 0 {
			b = append(b, ',')
		}
		b, err := appendMessage(b, m)
		if err != nil {
			return nil, err
		}
		if len(b) > 0 && !bytes.Equal(b, []byte{','}) {
			out = append(out, b)
		}
	}
	return out, nil
}

// grow encodes the next stable message.
func (e *encoding) grow(h *History, appendMessage func(dst, message []byte) ([]byte, error)) error {
	m := h.message(e.n)
	b, err := appendMessage(make([]byte, 0, len(m)), m)
	if err != nil {
		return err
	}
	if e.same {
		if bytes.Equal(b, m) {
			e.n++
			return nil
		}
		if e.n > 0 {
			e.buf = append(e.buf, h.buf[:h.ends[e.n-1]]...)
		}
		e.ends = append(e.ends, h.ends[:e.n]...)
		e.same = false
	}
	if len(b) > 0 {
		if len(e.buf) > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(e.buf, b...)
	}
	e.ends = append(e.ends, len(e.buf))
	e.n++
	return nil
}
