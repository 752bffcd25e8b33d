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
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		next.ServeHTTP(w, r)
	})
}

// readBody reads the whole body. Its errors are problems. Handlers call it after
// they authenticated the caller: a stranger's body is not worth the memory.
func readBody(r *http.Request) ([]byte, error) {
	tooLarge := payloadTooLarge("the request body must be at most 6 MB")
	if r.ContentLength > MaxBody {
		return nil, tooLarge
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := io.Copy(&buf, r.Body)
	if limit := (*http.MaxBytesError)(nil); errors.As(err, &limit) {
		return nil, tooLarge
	}
	if err != nil {
		return nil, badRequest("the request body could not be read to its end")
	}
	return buf.Bytes(), nil
}
