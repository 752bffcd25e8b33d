package lambae

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxLine is the longest line of a stream that is read, in bytes.
const MaxLine = 64 << 20

// errMalformed is a complete line that is not what the protocol sends.
var errMalformed = errors.New("malformed line in the stream")

// envelope is one line of a stream: a notification, a result or an error.
type envelope struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *RPCError       `json:"error"`
}

// terminal reports whether the line answers the call.
func (e *envelope) terminal() bool {
	return len(e.ID) > 0 && !bytes.Equal(e.ID, []byte("null"))
}

// lines reads a stream line by line. Only the byte \n ends a line: JSON may
// hold characters that Unicode counts as line ends too.
type lines struct {
	reader *bufio.Reader
	onRead func() // told of every line, blank ones too
	max    int    // bytes of a line
}

func newLines(r io.Reader, onRead func()) *lines {
	return &lines{bufio.NewReaderSize(r, 64<<10), onRead, MaxLine}
}

// next is the next line that is not blank. At the end of the stream it is
// io.EOF, and io.ErrUnexpectedEOF when the stream ends within a line.
func (l *lines) next() (*envelope, error) {
	for {
		raw, err := l.read()
		if err != nil {
			return nil, err
		}
		l.onRead()
		if raw = bytes.TrimSpace(raw); len(raw) == 0 {
			continue // keep-alive
		}
		line := new(envelope)
		if err := json.Unmarshal(raw, line); err != nil {
			return nil, fmt.Errorf("%w: %w: %.80q", errMalformed, err, raw)
		}
		if line.Method == "" && line.Error == nil && !line.terminal() {
			return nil, fmt.Errorf("%w: neither a notification nor an answer: %.80q", errMalformed, raw)
		}
		return line, nil
	}
}

func (l *lines) read() ([]byte, error) {
	var long []byte // collects a line that does not fit the buffer
	for {
		part, err := l.reader.ReadSlice('\n')
		if len(long)+len(part) > l.max {
			return nil, fmt.Errorf("%w: longer than %d MB", errMalformed, l.max>>20)
		}
		switch {
		case err == nil && long == nil:
			return part, nil
		case err == nil:
			return append(long, part...), nil
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
		case errors.Is(err, io.EOF):
			return lastLine(append(long, part...))
		default:
			return nil, err
		}
	}
}

// lastLine tells a stream that ended without its last \n from one that was cut:
// no part of a JSON object is JSON.
func lastLine(rest []byte) ([]byte, error) {
	switch {
	case len(bytes.TrimSpace(rest)) == 0:
		return nil, io.EOF
	case json.Valid(rest):
		return rest, nil
	}
	return nil, io.ErrUnexpectedEOF
}
