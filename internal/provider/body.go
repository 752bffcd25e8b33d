package provider

import (
	"bytes"
	"io"
)

// body is a request body in segments, sent as they lie: the history is not
// copied to make one.
type body struct {
	segments [][]byte
	size     int64
}

func newBody(first []byte, middle [][]byte, last []byte) body {
	b := body{segments: make([][]byte, 0, len(middle)+2)}
	b.segments = append(append(append(b.segments, first), middle...), last)
	for _, s := range b.segments {
		b.size += int64(len(s))
	}
	return b
}

// reader starts at the first byte. Readers of one body are independent.
func (b body) reader() io.ReadCloser { return &segmentReader{rest: b.segments} }

// bytes joins the segments, for a client that takes nothing else.
func (b body) bytes() []byte { return bytes.Join(b.segments, nil) }

type segmentReader struct {
	rest [][]byte
	at   int // in rest[0]
}

// Read fills p over as many segments as it takes, so that a history of many
// small ones goes out in large writes.
func (r *segmentReader) Read(p []byte) (n int, err error) {
	for n < len(p) && len(r.rest) > 0 {
		c := copy(p[n:], r.rest[0][r.at:])
		n, r.at = n+c, r.at+c
		if r.at == len(r.rest[0]) {
			r.rest, r.at = r.rest[1:], 0
		}
	}
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *segmentReader) Close() error { return nil }
