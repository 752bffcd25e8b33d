package api

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// pacedServer answers with 64 MB, more than sockets buffer, in one write.
func pacedServer(t *testing.T, timeout time.Duration) (addr string, ended <-chan error) {
	t.Helper()
	done := make(chan error, 1)
	s := httptest.NewServer(paceWrites(timeout)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write(make([]byte, 64<<20))
		done <- err
	})))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), done
}

func TestAnAnswerThatIsNotReadIsGivenUp(t *testing.T) {
	t.Parallel()
	addr, ended := pacedServer(t, 50*time.Millisecond)
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	require.NoError(t, err)
	select {
	case err := <-ended:
		require.Error(t, err)
	case <-time.After(20 * time.Second):
		require.Fail(t, "the handler waits for the client")
	}
}

func TestAnAnswerThatIsReadIsWholeHoweverLarge(t *testing.T) {
	t.Parallel()
	addr, ended := pacedServer(t, 20*time.Second)
	resp, err := http.Get("http://" + addr)
	require.NoError(t, err)
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	require.NoError(t, err)
	require.EqualValues(t, 64<<20, n)
	require.NoError(t, <-ended)
}
