package lambdahttp

import (
	"net/http"
	"strings"
)

// notForwarded are headers of a connection, which here are Lambda's.
var notForwarded = []string{
	"Connection", "Content-Length", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// writer is a [http.ResponseWriter] with the manners of net/http's over the bare
// one of lambdaurl.
type writer struct {
	out    http.ResponseWriter
	header http.Header // the handler's; out's is read by another goroutine once sent
	sent   bool
	noBody bool // HEAD
	status int
}

func newWriter(out http.ResponseWriter, method string) *writer {
	return &writer{out: out, header: http.Header{}, noBody: method == http.MethodHead}
}

// Header implements [http.ResponseWriter].
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. Informational statuses have no
// way to the client.
func (w *writer) WriteHeader(status int) {
	if w.sent || status >= 100 && status < 200 {
		return
	}
	w.sent, w.status = true, status
	out := w.out.Header()
	for name, values := range w.header {
		if !strings.HasPrefix(name, http.TrailerPrefix) {
			out[name] = values
		}
	}
	for _, name := range notForwarded {
		out.Del(name)
	}
	w.out.WriteHeader(status)
}

// Write implements [http.ResponseWriter]; the bytes leave at once.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.status == http.StatusNoContent || w.status == http.StatusNotModified {
		return 0, http.ErrBodyNotAllowed
	}
	if w.noBody || len(p) == 0 {
		return len(p), nil
	}
	return w.out.Write(p)
}

// FlushError sends the headers, if they are not yet, for [http.ResponseController].
func (w *writer) FlushError() error {
	w.WriteHeader(http.StatusOK)
	return nil
}

// Flush implements [http.Flusher].
func (w *writer) Flush() { w.WriteHeader(http.StatusOK) }
