package provider

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lambae/lambae/internal/config"
)

const fine = `{"role":"assistant","content":"fine"}`

func TestAFailedAttemptTellsStatusBodyAndDetail(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 400)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		status int
		body   string
		detail string
	}{
		"a refusal":               {answer(400, `{"error":"no"}`), 400, `{"error":"no"}`, `HTTP 400 from main: {"error":"no"}`},
		"no text":                 {answer(404, ""), 404, "", "HTTP 404 from main"},
		"a long text":             {answer(418, long), 418, long, "HTTP 418 from main: " + strings.Repeat("é", 300) + "…"},
		"text that is not UTF-8":  {answer(400, "a\xffb"), 400, "a\uFFFDb", "HTTP 400 from main: a\uFFFDb"},
		"a token in the text":     {answer(401, "bad key: sk-hush!"), 401, "bad key: ••••••••!", "HTTP 401 from main: bad key: ••••••••!"},
		"success without content": {answer(204, ""), 204, "", "HTTP 204 from main"},
		"no JSON":                 {answer(200, "<html>"), 200, "<html>", "unusable answer from main: the answer is not JSON"},
		"no message":              {answer(200, "[]"), 200, "[]", "unusable answer from main: the answer is an array, want a message object"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, c.answer)
			p := anthropicAt(t, s.URL, Options{})
			_, err := p.Call(t.Context(), hello(t, p))
			failed := failedWith(t, err, c.detail)
			require.Equal(t, c.status, failed.Status)
			require.Equal(t, c.body, *failed.Body)
			require.NotContains(t, failed.Error(), "hush")
			require.False(t, failed.Config)
		})
	}
}

func TestAHugeErrorTextIsCut(t *testing.T) {
	t.Parallel()
	s := serve(t, answer(400, strings.Repeat("x", 1<<20)))
	p := anthropicAt(t, s.URL, Options{})
	_, err := p.Call(t.Context(), hello(t, p))
	require.Len(t, *failedWith(t, err, "HTTP 400").Body, 64<<10)
}

func TestAnAnswerOverTheLimitIsAFailedAttempt(t *testing.T) {
	t.Parallel()
	flood := func(kind, line string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			chunk := []byte(strings.Repeat(line, 1<<20/len(line)))
			for range 3 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}
	}
	s := serve(t, flood("application/json", " "), flood("text/event-stream", ": wait\n"))
	p := lookup(t, config.Provider{Kind: "anthropic", BaseURL: s.URL}, Options{}).(*anthropic)
	require.EqualValues(t, 64<<20, p.limit)
	p.limit = 2 << 20
	for _, want := range []string{"the answer of main is larger than 2 MB", "unusable stream from main: the stream is larger than 2 MB"} {
		_, err := p.Call(t.Context(), hello(t, p))
		require.Equal(t, 200, failedWith(t, err, want).Status)
	}
}

func TestARedirectIsNotFollowedSinceItWouldCarryTheKey(t *testing.T) {
	t.Parallel()
	other := serve(t, answer(200, fine))
	s := serve(t, answer(307, "", "Location", other.URL))
	p := anthropicAt(t, s.URL, Options{})
	_, err := p.Call(t.Context(), hello(t, p))
	require.Equal(t, 307, failedWith(t, err, "HTTP 307 from main").Status)
	require.Empty(t, other.all())
}

func TestATokenIsResolvedAtEveryCall(t *testing.T) {
	t.Parallel()
	s := serve(t, answer(200, fine))
	value, known := "one\n", false
	env := config.NewResolver(config.ResolverOptions{Lookup: func(string) (string, bool) { return value, known }})
	p := lookup(t, config.Provider{Kind: "anthropic", BaseURL: s.URL, AuthToken: "${ANTHROPIC_API_KEY}"}, Options{Resolve: env.Resolve})

	_, err := p.Call(t.Context(), hello(t, p))
	failed := failedWith(t, err, "auth_token: environment variable ANTHROPIC_API_KEY is not set")
	require.True(t, failed.Config)
	require.Zero(t, failed.Status)
	require.Nil(t, failed.Body)
	require.Empty(t, s.all(), "no call is made")

	known = true
	for _, want := range []string{"one", "two"} {
		value = want + "\n"
		_, err = p.Call(t.Context(), hello(t, p))
		require.NoError(t, err)
		require.Equal(t, want, s.last(t).header.Get("X-Api-Key"))
	}
}

func TestATokenNoHeaderCanHoldIsNotTold(t *testing.T) {
	t.Parallel()
	p := lookup(t, config.Provider{Kind: "anthropic", BaseURL: "http://127.0.0.1:1", AuthToken: "hush\x01hush"}, Options{})
	_, err := p.Call(t.Context(), hello(t, p))
	require.NotContains(t, failedWith(t, err, "invalid header field value").Detail, "hush")
}

// deadAddress is an address nobody listens on.
func deadAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestNoAnswerIsAFailedAttemptWithoutStatus(t *testing.T) {
	t.Parallel()
	dead := deadAddress(t)
	hangUp := serve(t, func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
	for url, want := range map[string]string{
		"http://" + dead:             "connect to http://" + dead + ": connection refused",
		"http://nobody.invalid/path": "connect to http://nobody.invalid/path: lookup nobody.invalid",
		hangUp.URL:                   "call " + hangUp.URL + ": EOF",
	} {
		p := lookup(t, config.Provider{Kind: "anthropic", BaseURL: url, AuthToken: "hush"}, Options{})
		_, err := p.Call(t.Context(), hello(t, p))
		failed := failedWith(t, err, want)
		require.Zero(t, failed.Status)
		require.Nil(t, failed.Body)
		require.True(t, failed.Temporary)
	}
}

func TestTheEndOfTheContextIsNoFailedAttempt(t *testing.T) {
	t.Parallel()
	hold := func(first string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if first != "" {
				w.Header().Set("Content-Type", "text/event-stream")
				io.WriteString(w, first)
				http.NewResponseController(w).Flush()
			}
			<-r.Context().Done()
		}
	}
	cause := errors.New("session is closed")
	for name, c := range map[string]struct {
		handler http.HandlerFunc
		when    func(asked chan struct{}, deltas chan Delta)
	}{
		"before an answer": {hold(""), func(asked chan struct{}, _ chan Delta) { <-asked }},
		"in a stream": {hold("data: {\"type\":\"message_start\",\"message\":{}}\n\n" +
			"data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n"),
			func(_ chan struct{}, deltas chan Delta) { <-deltas }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{}, 1)
			s := serve(t, func(w http.ResponseWriter, r *http.Request) { asked <- struct{}{}; c.handler(w, r) })
			p := anthropicAt(t, s.URL, Options{})
			ctx, cancel := context.WithCancelCause(t.Context())
			deltas := make(chan Delta, 1)
			r := hello(t, p)
			r.OnDelta = func(d Delta) { deltas <- d }
			go func() { c.when(asked, deltas); cancel(cause) }()
			_, err := p.Call(ctx, r)
			require.ErrorIs(t, err, cause)
			var failed *Error
			require.False(t, errors.As(err, &failed))
			require.Len(t, s.all(), 1)
		})
	}
}

func TestAnAnswerThatBreaksOffIsAskedForAgain(t *testing.T) {
	t.Parallel()
	half := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, fine[:10])
	}
	var slept sleeps
	s := serve(t, half, answer(200, fine))
	p := anthropicAt(t, s.URL, Options{Sleep: slept.sleep})
	got, err := p.Call(t.Context(), hello(t, p))
	require.NoError(t, err)
	require.Equal(t, `"fine"`, string(got.Content))

	start := "data: {\"type\":\"message_start\",\"message\":{}}\n\n"
	said := "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"a\"}}\n\n"
	for text, want := range map[string]int{start: 2, start + said: 1} {
		s = serve(t, func(w http.ResponseWriter, r *http.Request) {
			answer(200, text)(w, r)
			http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, answer(400, "enough"))
		p = anthropicAt(t, s.URL, Options{Sleep: slept.sleep})
		r := hello(t, p)
		r.OnDelta = func(Delta) {}
		_, err = p.Call(t.Context(), r)
		require.Error(t, err)
		require.Len(t, s.all(), want, "a stream is asked for again only while nothing of it was passed on")
	}

	s = serve(t, half)
	p = lookup(t, config.Provider{Kind: "anthropic", BaseURL: s.URL}, Options{})
	_, err = p.Call(t.Context(), hello(t, p))
	require.Equal(t, 200, failedWith(t, err, "the answer of main broke off: unexpected EOF").Status)
}

func TestADeadKeptConnectionDoesNotFailTheAttempt(t *testing.T) {
	t.Parallel()
	// Each connection serves one request well and dies on the next, as a
	// connection does that idled while a function was frozen.
	var connections atomic.Int32
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				req, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				io.Copy(io.Discard, req.Body)
				fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(fine), fine)
				if req, err = http.ReadRequest(in); err == nil {
					io.Copy(io.Discard, req.Body)
				}
			}()
		}
	}()
	p := lookup(t, config.Provider{Kind: "anthropic", BaseURL: "http://" + l.Addr().String()}, Options{})
	for range 3 {
		_, err := p.Call(t.Context(), hello(t, p))
		require.NoError(t, err)
	}
	require.EqualValues(t, 3, connections.Load())
}

func TestAConnectionIsUsedAgainAfterEachKindOfAnswer(t *testing.T) {
	t.Parallel()
	var connections atomic.Int32
	stream, n := file(t, "anthropic_stream.txt"), 0
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		n++
		switch n % 3 {
		case 0:
			answer(200, fine)(w, r)
		case 1:
			answer(200, stream)(w, r)
		case 2:
			answer(400, "no")(w, r)
		}
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.Start()
	defer s.Close()
	p := anthropicAt(t, s.URL, Options{})
	r := hello(t, p)
	r.OnDelta = func(Delta) {}
	for range 6 {
		p.Call(t.Context(), r)
	}
	require.EqualValues(t, 1, connections.Load())
}

func TestAStreamLeftOpenAfterItsEndIsCutOff(t *testing.T) {
	t.Parallel()
	stream := file(t, "anthropic_stream.txt")
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		answer(200, stream)(w, r)
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	p := anthropicAt(t, s.URL, Options{})
	r := hello(t, p)
	r.OnDelta = func(Delta) {}
	_, err := p.Call(t.Context(), r)
	require.NoError(t, err)
}

func TestSegmentsAreSentAgainFromTheStart(t *testing.T) {
	t.Parallel()
	s := serve(t, answer(529, "busy"), answer(200, fine))
	p := anthropicAt(t, s.URL, Options{Sleep: (&sleeps{}).sleep})
	var history [][]byte
	for i := range 5000 {
		if i > 0 {
			history = append(history, []byte(","))
		}
		history = append(history, fmt.Appendf(nil, `{"role":"user","content":"%d"}`, i))
	}
	_, err := p.Call(t.Context(), Request{Messages: history})
	require.NoError(t, err)
	all := s.all()
	require.Len(t, all, 2)
	require.Equal(t, all[0].body, all[1].body)
	require.Contains(t, all[1].body, `[{"role":"user","content":"0"},{"role":"user","content":"1"},`)
	require.EqualValues(t, len(all[1].body), all[1].length)
}
