package lambaetest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/lambae/lambae/sdk/lambae"
)

// Fault is something that goes wrong with one answer, after its request took
// effect.
type Fault struct {
	// CutAfter lets so many bytes of the body through and then cuts the
	// connection; 0 is before the first.
	CutAfter int
	// LaggedAfter, when not 0, ends a stream after so many lines with the line
	// of a server whose reader is too slow. CutAfter is then ignored.
	LaggedAfter int
	// Status, when not 0, replaces the answer by one of this status with an HTML
	// body, as a proxy would.
	Status int
}

// laggedLine is what a server sends when it must end a stream.
const laggedLine = `{"jsonrpc":"2.0","error":{"code":-32000,"message":"lagged; reconnect with since_event_id"}}` + "\n"

// answer writes one answer, with the fault it is to have.
type answer struct {
	http.ResponseWriter
	fault *Fault
	sent  int // bytes
	lines int
}

func (s *Server) answer(w http.ResponseWriter, call string) *answer {
	if s.options.Fault == nil {
		return &answer{ResponseWriter: w}
	}
	return &answer{ResponseWriter: w, fault: s.options.Fault(call)}
}

// header reports whether the body is still wanted.
func (a *answer) header(status int, contentType string) bool {
	if a.fault != nil && a.fault.Status != 0 {
		a.Header().Set("Content-Type", "text/html")
		a.WriteHeader(a.fault.Status)
		_, _ = a.ResponseWriter.Write([]byte("<html><body><h1>Bad gateway</h1></body></html>"))
		return false
	}
	a.Header().Set("Content-Type", contentType)
	a.WriteHeader(status)
	a.cut()
	a.flush()
	return true
}

// line writes one line of a stream; false ends the stream.
func (a *answer) line(line []byte) bool {
	a.write(append(line, '\n'))
	a.lines++
	if a.fault != nil && a.fault.LaggedAfter > 0 && a.lines >= a.fault.LaggedAfter {
		_, _ = a.ResponseWriter.Write([]byte(laggedLine))
		return false
	}
	a.flush()
	return true
}

func (a *answer) write(body []byte) {
	if a.cuts() {
		body = body[:min(len(body), a.fault.CutAfter-a.sent)]
	}
	_, _ = a.ResponseWriter.Write(body)
	a.sent += len(body)
	a.cut()
}

func (a *answer) cuts() bool {
	return a.fault != nil && a.fault.LaggedAfter == 0 && a.fault.Status == 0
}

// cut ends the connection when its bytes are used up.
func (a *answer) cut() {
	if a.cuts() && a.sent >= a.fault.CutAfter {
		a.flush()
		panic(http.ErrAbortHandler)
	}
}

func (a *answer) flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// respond writes an answer that is not a stream.
func (s *Server) respond(w http.ResponseWriter, call string, status int, body any) {
	a := s.answer(w, call)
	if body == nil {
		a.header(status, "application/json")
		return
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		panic(err) // a bug in this package
	}
	contentType := "application/json"
	if _, ok := body.(*lambae.APIError); ok {
		contentType = "application/problem+json"
	}
	if a.header(status, contentType) {
		a.write(encoded)
	}
}

func problem(status int, kind, detail string) (int, any) {
	return status, &lambae.APIError{Type: kind, Title: http.StatusText(status), Status: status, Detail: detail}
}

// bearer is the key of a request, or the detail of a 401.
func bearer(r *http.Request, wanted string) (key, refusal string) {
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case scheme == "":
		return "", "missing Authorization header"
	case !strings.EqualFold(scheme, "bearer"):
		return "", "invalid " + wanted + " key"
	}
	return key, ""
}

// pageOf cuts a page out of all items. A cursor is a position.
func pageOf[T any](r *http.Request, all []T) (int, any) {
	query := r.URL.Query()
	start, limit := 0, 50
	var err error
	if cursor := query.Get("cursor"); cursor != "" {
		if start, err = strconv.Atoi(cursor); err != nil || start < 0 || start > len(all) {
			return problem(http.StatusBadRequest, lambae.TypeBadRequest, "invalid cursor: "+strconv.Quote(cursor))
		}
	}
	if asked := query.Get("limit"); asked != "" {
		if limit, err = strconv.Atoi(asked); err != nil || limit <= 0 {
			return problem(http.StatusBadRequest, lambae.TypeBadRequest, "limit must be a positive integer")
		}
	}
	end := min(start+min(limit, 200), len(all))
	var next any
	if end < len(all) {
		next = strconv.Itoa(end)
	}
	return http.StatusOK, map[string]any{"items": append([]T{}, all[start:end]...), "next_cursor": next}
}
