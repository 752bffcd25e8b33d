package api

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func testNow() time.Time { return time.Date(2026, 7, 6, 18, 26, 1, 0, time.UTC) }

// bodyServer answers with the length of the body, as far as it may be read.
func bodyServer(t *testing.T) *httptest.Server {
	t.Helper()
	r := newRouter(slog.New(slog.DiscardHandler), testNow)
	r.Post("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := readBody(r)
		if err != nil {
			fail(w, r, slog.New(slog.DiscardHandler), err)
			return
		}
		fmt.Fprint(w, len(body))
	})
	s := httptest.NewServer(r)
	t.Cleanup(s.Close)
	return s
}

func TestBodiesAreTakenUpToTheLimit(t *testing.T) {
	t.Parallel()
	s := bodyServer(t)
	for name, c := range map[string]struct {
		size    int
		chunked bool
		status  int
	}{
		"at the limit":            {MaxBody, false, http.StatusOK},
		"over the limit":          {MaxBody + 1, false, http.StatusRequestEntityTooLarge},
		"at the limit, chunked":   {MaxBody, true, http.StatusOK},
		"over the limit, chunked": {MaxBody + 1, true, http.StatusRequestEntityTooLarge},
		"empty":                   {0, false, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var body io.Reader = bytes.NewReader(make([]byte, c.size))
			if c.chunked {
				body = struct{ io.Reader }{body} // hides the length
			}
			resp, err := http.Post(s.URL, "application/json", body)
			require.NoError(t, err)
			defer resp.Body.Close()
			answer, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Equal(t, c.status, resp.StatusCode)
			if c.status == http.StatusOK {
				require.Equal(t, fmt.Sprint(c.size), string(answer))
			} else {
				require.JSONEq(t, `{"type":"payload_too_large","title":"Payload Too Large","status":413,
					"detail":"the request body must be at most 6 MB"}`, string(answer))
			}
		})
	}
}

func TestContentLengthThatLies(t *testing.T) {
	t.Parallel()
	s := bodyServer(t)
	for name, c := range map[string]struct {
		length int
		want   string
	}{
		"more than is sent": {100, `"bad_request"`},
		"far too much":      {MaxBody + 1, `"payload_too_large"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n{}", c.length)
			require.NoError(t, err)
			require.NoError(t, conn.(*net.TCPConn).CloseWrite())
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Contains(t, string(body), c.want)
		})
	}
}

func TestClientThatSendsEverythingFirstLearnsThatItIsTooMuch(t *testing.T) {
	t.Parallel()
	s := bodyServer(t)
	const size = 24 << 20 // more than sockets buffer
	for name, c := range map[string]struct{ head, tail string }{
		"with a length": {fmt.Sprintf("Content-Length: %d\r\n\r\n", size), ""},
		"chunked":       {fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n", size), "\r\n0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
			require.NoError(t, err)
			defer conn.Close()
			_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\n"+c.head)
			require.NoError(t, err)
			_, err = conn.Write(make([]byte, size))
			require.NoError(t, err)
			_, err = io.WriteString(conn, c.tail)
			require.NoError(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
		})
	}
}

func TestClientThatAsksFirstSendsNothingInVain(t *testing.T) {
	t.Parallel()
	conn, err := net.Dial("tcp", strings.TrimPrefix(bodyServer(t).URL, "http://"))
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", MaxBody+1)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	defer resp.Body.Close()
	require.Equal(t, http.StatusRequestEntityTooLarge, resp.StatusCode)
}
