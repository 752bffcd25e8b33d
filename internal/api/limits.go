package api

import (
	"bytes"
	"errors"
	"io"
	"net/http"
)

// MaxBody is the largest request body, that of a Lambda function URL. It is the
// same everywhere, so that what works on a laptop works when deployed.
const MaxBody = 6 << 20

// limitBody bounds what a handler can read of a body, whatever Content-Length
// says of it.
func limitBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = &boundedBody{ReadCloser: http.MaxBytesReader(w, r.Body, MaxBody), whole: r.Body}
		next.ServeHTTP(w, r)
	})
}

// boundedBody reads as far as the limit; whole has no limit.
type boundedBody struct {
	io.ReadCloser
	whole io.Reader
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

// readBody reads the whole body. Its errors are problems. Handlers call it after
// they authenticated the caller: a stranger's body is not worth the memory.
func readBody(r *http.Request) ([]byte, error) {
	tooLarge := payloadTooLarge("the request body must be at most 6 MB")
	if r.ContentLength > MaxBody {
		discard(r)
		return nil, tooLarge
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
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
