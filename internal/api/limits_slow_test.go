package api

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A client that announces a body and sends only a bit of it must not hold its
// connection for ever, whether the handler wants the body or refuses before it.
func TestABodyThatDoesNotArriveIsGivenUp(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	mux := http.NewServeMux()
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		if _, err := readBody(r); err != nil {
			fail(w, r, log, err)
		}
	})
	mux.HandleFunc("/refuse", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, unauthorized("missing Authorization header"))
	})
	s := httptest.NewServer(limitBody(50 * time.Millisecond)(mux))
	t.Cleanup(s.Close)
	for path, status := range map[string]int{"/read": http.StatusBadRequest, "/refuse": http.StatusUnauthorized} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
			_, err = fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", path)
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, status, resp.StatusCode)
		})
	}
}

func TestTheLimitOfABodyDoesNotEndTheCall(t *testing.T) {
	t.Parallel()
	const timeout = 50 * time.Millisecond
	s := httptest.NewServer(limitBody(timeout)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := readBody(r); err != nil {
			fail(w, r, slog.New(slog.DiscardHandler), err)
			return
		}
		select {
		case <-r.Context().Done():
		case <-time.After(4 * timeout):
			_, _ = io.WriteString(w, "ran on")
		}
	})))
	t.Cleanup(s.Close)
	resp, err := http.Post(s.URL, "application/json", strings.NewReader("{}"))
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Equal(t, "ran on", string(body))
}

// Not parallel: it counts what is allocated.
func TestAContentLengthIsNotTakenForMemory(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 20 {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{"))
		r.ContentLength = MaxBody
		body, err := readBody(r)
		require.NoError(t, err)
		require.Equal(t, "{", string(body))
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(MaxBody))
}
