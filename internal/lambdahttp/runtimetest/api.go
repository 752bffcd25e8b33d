package runtimetest

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// routes are the Runtime API (2018-06-01) and what aws-lambda-go uses of the
// Extensions API (2020-01-01).
func (r *Runtime) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /2018-06-01/runtime/invocation/next", r.serveNext)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/response", r.serveResponse)
	mux.HandleFunc("POST /2018-06-01/runtime/invocation/{id}/error", r.serveError)
	mux.HandleFunc("POST /2018-06-01/runtime/init/error", r.serveInitError)
	mux.HandleFunc("POST /2020-01-01/extension/register", r.serveRegister)
	mux.HandleFunc("GET /2020-01-01/extension/event/next", func(_ http.ResponseWriter, req *http.Request) {
		<-req.Context().Done() // no events were registered for
	})
	return mux
}

func (r *Runtime) serveNext(w http.ResponseWriter, req *http.Request) {
	inv := r.next(req.Context())
	if inv == nil {
		return
	}
	h := w.Header()
	h.Set("Lambda-Runtime-Aws-Request-Id", inv.ID)
	h.Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(inv.deadline.UnixMilli(), 10))
	h.Set("Lambda-Runtime-Invoked-Function-Arn", "arn:aws:lambda:eu-central-1:123456789012:function:test")
	h.Set("Lambda-Runtime-Trace-Id", "Root=1-5bef4de7-ad49b0e87f6ef6c87fc2e700;Parent=9a9197af755a6419;Sampled=0")
	h.Set("Content-Type", "application/json")
	w.Write(inv.event)
}

func (r *Runtime) serveResponse(w http.ResponseWriter, req *http.Request) {
	inv := r.running(req.PathValue("id"))
	if inv == nil {
		http.Error(w, `{"errorType":"InvalidRequestID"}`, http.StatusBadRequest)
		return
	}
	var err error
	if req.Header.Get("Content-Type") == "application/vnd.awslambda.http-integration-response" {
		err = inv.stream(req.Body)
	} else {
		var payload []byte
		if payload, err = io.ReadAll(req.Body); err == nil {
			err = inv.buffered(payload)
		}
	}
	if kind := req.Trailer.Get("Lambda-Runtime-Function-Error-Type"); err == nil && kind != "" {
		failure := &FunctionError{Type: kind}
		detail, _ := base64.StdEncoding.DecodeString(req.Trailer.Get("Lambda-Runtime-Function-Error-Body"))
		json.Unmarshal(detail, failure)
		err = failure
	}
	inv.finish(err)
	w.WriteHeader(http.StatusAccepted)
}

func (r *Runtime) serveError(w http.ResponseWriter, req *http.Request) {
	inv := r.running(req.PathValue("id"))
	if inv == nil {
		http.Error(w, `{"errorType":"InvalidRequestID"}`, http.StatusBadRequest)
		return
	}
	inv.finish(reported(req))
	w.WriteHeader(http.StatusAccepted)
}

func (r *Runtime) serveInitError(w http.ResponseWriter, req *http.Request) {
	err := reported(req)
	r.mu.Lock()
	r.initFail = err
	r.mu.Unlock()
	w.WriteHeader(http.StatusAccepted)
}

func (r *Runtime) serveRegister(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	r.signals = true
	r.mu.Unlock()
	w.Header().Set("Lambda-Extension-Identifier", "extension-1")
	w.WriteHeader(http.StatusOK)
}

// reported reads an error that a function reports.
func reported(req *http.Request) error {
	failure := &FunctionError{Type: "Unhandled"}
	body, err := io.ReadAll(req.Body)
	if err != nil || json.Unmarshal(body, failure) != nil {
		failure.Message = strings.TrimSpace(string(body))
	}
	return failure
}
