package claude

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// MaxLineBytes bounds one message on the wire. Tool results carry whole files
// and images, so it is generous; it exists so that a child that never writes a
// newline cannot take all memory.
const MaxLineBytes = 64 << 20

// lineReader splits a stream into lines. Every line it returns is a fresh
// slice of exactly the line's length: messages keep it as their raw form.
type lineReader struct {
	r     *bufio.Reader
	limit int
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10), limit: MaxLineBytes}
}

// next returns the next line without its newline. An unterminated last line is
// returned as well, before io.EOF.
func (l *lineReader) next() ([]byte, error) {
	var long []byte
	for {
		part, err := l.r.ReadSlice('\n')
		if len(long)+len(part) > l.limit {
			return nil, fmt.Errorf("%w: more than %d bytes without a newline", ErrLineTooLong, l.limit)
		}
		switch {
		case err == nil || (errors.Is(err, io.EOF) && len(long)+len(part) > 0):
			if long == nil {
				return bytes.Clone(trimNewline(part)), nil
			}
			return trimNewline(append(long, part...)), nil
		case errors.Is(err, bufio.ErrBufferFull):
			if long == nil {
				long = make([]byte, 0, 4*len(part))
			}
			long = append(long, part...)
		default:
			return nil, err
		}
	}
}

func trimNewline(b []byte) []byte {
	b = bytes.TrimSuffix(b, []byte{'\n'})
	return bytes.TrimSuffix(b, []byte{'\r'})
}
