// The function the tests of lambdahttp build and invoke.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/lambae/lambae/internal/lambdahttp"
)

func main() {
	mux := http.NewServeMux()
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		for i := range 3 {
			fmt.Fprintf(w, "{\"line\":%d}\n", i)
			gate(fmt.Sprint(i))
		}
	})
	mux.HandleFunc("/flush", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Early", "yes")
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
		gate("flushed")
	})
	mux.HandleFunc("/panic", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Half", "done")
		panic("boom")
	})
	mux.HandleFunc("/panic-late", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half\n")
		panic("boom")
	})
	mux.HandleFunc("/abort", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "half\n")
		panic(http.ErrAbortHandler)
	})
	mux.HandleFunc("/headers", func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Add("X-Two", "a")
		h.Add("X-Two", "b")
		h.Add("Set-Cookie", "a=1; Path=/")
		h.Add("Set-Cookie", "b=2")
		h.Set("Transfer-Encoding", "chunked")
		h.Set("Content-Length", "999")
		h.Set("Connection", "close")
		h.Set(http.TrailerPrefix+"X-Late", "1")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusTeapot)
		h.Set("X-Too-Late", "1")
		w.WriteHeader(http.StatusOK)
		io.WriteString(w, "tea")
	})
	mux.HandleFunc("/no-content", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
		if _, err := io.WriteString(w, "x"); err != http.ErrBodyNotAllowed {
			panic(fmt.Sprint("a body was allowed: ", err))
		}
	})
	mux.HandleFunc("/silent", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Length", fmt.Sprint(r.ContentLength))
		if _, err := io.Copy(w, r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	mux.HandleFunc("/exit", func(http.ResponseWriter, *http.Request) { os.Exit(7) })
	mux.HandleFunc("/hang", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "waiting\n")
		select {}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		deadline, _ := r.Context().Deadline()
		cookies := []string{}
		for _, c := range r.Cookies() {
			cookies = append(cookies, c.String())
		}
		json.NewEncoder(w).Encode(map[string]any{
			"method": r.Method, "host": r.Host, "path": r.URL.Path, "query": r.URL.RawQuery, "uri": r.RequestURI,
			"remote": r.RemoteAddr, "header": r.Header, "cookies": cookies, "seconds": int(time.Until(deadline).Round(time.Second).Seconds()),
		})
	})
	opts := &lambdahttp.Options{}
	if os.Getenv("AFTER") != "" {
		opts.After = func(context.Context) { gate("after") }
	}
	if file := os.Getenv("SHUTDOWN"); file != "" {
		opts.Shutdown = func() { os.WriteFile(file, []byte("bye"), 0o600) }
	}
	lambdahttp.Start(mux, opts)
}

// gate waits until the test lets it go on.
func gate(name string) {
	resp, err := http.Post(os.Getenv("GATE")+"/"+name, "text/plain", strings.NewReader(""))
	if err != nil {
		panic(err)
	}
	resp.Body.Close()
}
