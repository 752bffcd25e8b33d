package api

import (
	"net/http"
	"time"
)

const (
	// writeTimeout is how long a client may leave its connection full.
	writeTimeout = 60 * time.Second
	// writePiece is the most that one timeout is for, so that a slow client that
	// does read gets an answer of any size.
	writePiece = 256 << 10
)

// paceWrites ends the answer to a client that does not read it: without a limit
// the handler, and what it holds, would wait for as long as the client likes.
func paceWrites(timeout time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			next.ServeHTTP(&pacedWriter{ResponseWriter: w, ctrl: http.NewResponseController(w), timeout: timeout}, r)
		})
	}
}

type pacedWriter struct {
	http.ResponseWriter
	ctrl    *http.ResponseController
	timeout time.Duration
}

// Write implements [http.ResponseWriter].
func (p *pacedWriter) Write(b []byte) (written int, err error) {
	for {
		piece := b[written:min(len(b), written+writePiece)]
		_ = p.ctrl.SetWriteDeadline(time.Now().Add(p.timeout)) // not every server has it
		n, err := p.ResponseWriter.Write(piece)
		if written += n; err != nil || written == len(b) {
			return written, err
		}
	}
}

// Unwrap lets [http.ResponseController] reach the connection.
func (p *pacedWriter) Unwrap() http.ResponseWriter { return p.ResponseWriter }
