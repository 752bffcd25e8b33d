package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"
)

// MaxBody is the largest request body, that of a Lambda function URL. It is the
// same everywhere, so that what works on a laptop works when deployed.
const MaxBody = 6 << 20

// bodyTimeout is how long the whole of a body may take to arrive.
const bodyTimeout = 2 * time.Minute

// limitBody bounds what a handler can read of a body, whatever Content-Length
// says of it, and how long that may take: net/http reads what a handler left of a
// body before it answers, so that even a stranger's would hold a connection for ever.
func limitBody(timeout time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body := &boundedBody{ReadCloser: http.MaxBytesReader(w, r.Body, MaxBody), whole: r.Body}
			if r.ContentLength != 0 {
				body.conn = http.NewResponseController(w)
				_ = body.conn.SetReadDeadline(time.Now().Add(timeout)) // not every server has it
			}
			r.Body = body
			next.ServeHTTP(w, r)
		})
	}
}

// boundedBody reads as far as the limit; whole has no limit.
type boundedBody struct {
	io.ReadCloser
	whole io.Reader
	conn  *http.ResponseController // nil for a request without a body
}

// Read implements [io.Reader]. At the end of the body the deadline goes: the
// server keeps reading to learn that the client is gone, and would take a
// deadline for that.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == io.EOF && b.conn != nil {
		_ = b.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}

// maxDiscard is how much of a refused body is still read.
const maxDiscard = 64 << 20

// discard reads the rest of a body that was refused. Many clients look at the
// answer only once they have sent everything, and would see a broken connection
// instead. One that asks first is told without sending.
func discard(r *http.Request) {
	if b, ok := r.Body.(*boundedBody); ok && r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, b.whole, maxDiscard)
	}
}

// maxTrusted is how much memory a Content-Length gets before its bytes are there.
const maxTrusted = 64 << 10

// readBody reads the whole body. Its errors are problems. Handlers call it after
// they authenticated the caller: a stranger's body is not worth the memory.
func readBody(r *http.Request) ([]byte, error) {
	tooLarge := payloadTooLarge("the request body must be at most 6 MB")
	if r.ContentLength > MaxBody {
		discard(r)
		return nil, tooLarge
	}
	var buf bytes.Buffer
	if n := min(r.ContentLength, maxTrusted); n > 0 {
		buf.Grow(int(n) + bytes.MinRead)
	}
	_, err := io.Copy(&buf, r.Body)
	if limit := (*http.MaxBytesError)(nil); errors.As(err, &limit) {
		discard(r)
		return nil, tooLarge
	}
	if err != nil {
		return nil, badRequest("the request body could not be read to its end")
	}
	return buf.Bytes(), nil
}
