package rest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func at(t *testing.T, url string, retries int) *Client {
	client, err := New(Config{BaseURL: url, Key: "k", Retries: retries, Backoff: func(int) time.Duration { return 0 }, UserAgent: "test/1"})
	require.NoError(t, err)
	return client
}

func TestDoRepeatsOnlyWhatItMay(t *testing.T) {
	t.Parallel()
	const cut = 0 // no answer at all
	for name, test := range map[string]struct {
		answers    []int
		repeatable bool
		retries    int
		tries      int
		status     int // 0 for an error
		unsure     bool
	}{
		"a success is final":                               {[]int{200}, true, 3, 1, 200, false},
		"a refusal is final":                               {[]int{404}, true, 3, 1, 404, false},
		"a conflict is final":                              {[]int{409}, true, 3, 1, 409, false},
		"a busy server did nothing":                        {[]int{503, 429, 201}, false, 3, 3, 201, false},
		"a failed server may have acted":                   {[]int{500, 201}, false, 3, 1, 500, false},
		"a failed gateway may have let it through":         {[]int{502, 504, 201}, true, 3, 3, 201, true},
		"a lost answer may hide an effect":                 {[]int{cut, 201}, false, 3, 1, 0, false},
		"a lost answer to a repeatable request is no loss": {[]int{cut, cut, 201}, true, 3, 3, 201, true},
		"tries are counted":                                {[]int{503}, true, 2, 3, 503, false},
		"the last error is returned":                       {[]int{503, cut}, true, 2, 3, 0, false},
		"no retries are possible":                          {[]int{503}, true, -1, 1, 503, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tries atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				if string(body) != "{}" || r.Header.Get("Authorization") != "Bearer k" ||
					r.Header.Get("Content-Type") != "application/json" || r.UserAgent() != "test/1" {
					w.WriteHeader(http.StatusTeapot)
					return
				}
				answer := test.answers[min(int(tries.Add(1)), len(test.answers))-1]
				if answer == cut {
					panic(http.ErrAbortHandler)
				}
				w.WriteHeader(answer)
			}))
			defer server.Close()
			response, err := at(t, server.URL, test.retries).Do(t.Context(), Request{
				Method: "POST", Path: "/x", Body: []byte("{}"), Repeatable: test.repeatable,
			})
			require.EqualValues(t, test.tries, tries.Load())
			if test.status == 0 {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			defer response.Body.Close()
			require.Equal(t, test.status, response.StatusCode)
			require.Equal(t, test.unsure, response.Unsure)
		})
	}
}

func TestDoRepeatsWhenNobodyListens(t *testing.T) {
	t.Parallel()
	var dials atomic.Int32
	client := at(t, "http://127.0.0.1:9", 2)
	client.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return nil, &net.OpError{Op: "dial", Err: net.UnknownNetworkError("refused")}
	}}}
	_, err := client.Do(t.Context(), Request{Method: "POST", Path: "/x"})
	require.ErrorContains(t, err, "dial")
	require.EqualValues(t, 3, dials.Load())
}

func TestDoStopsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	defer server.Close()
	client := at(t, server.URL, 100)
	client.backoff = func(int) time.Duration {
		cancel()
		return time.Hour
	}
	_, err := client.Do(ctx, Request{Method: "GET", Path: "/x", Repeatable: true})
	require.ErrorIs(t, err, context.Canceled)
}

func TestDoWaitsAsLongAsItIsAskedTo(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"":     0,
		"0":    0,
		"7":    7 * time.Second,
		"9999": 30 * time.Second,
		"-1":   0,
		"soon": 0,
	} {
		require.Equal(t, want, retryAfter(&http.Response{Header: http.Header{"Retry-After": {header}}}), header)
	}
	require.Zero(t, retryAfter(nil))
}

func TestDoKeepsThePrefixOfTheAddress(t *testing.T) {
	t.Parallel()
	paths := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.String() }))
	defer server.Close()
	response, err := at(t, server.URL+"/stage/", 0).Do(t.Context(), Request{
		Method: "GET", Path: "/api/v1/meta", Query: map[string][]string{"cursor": {"a b"}},
	})
	require.NoError(t, err)
	response.Body.Close()
	require.Equal(t, "/stage/api/v1/meta?cursor=a+b", <-paths)
}

func TestDoRefusesToClimbOutOfItsPath(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/admin/v1/profiles/..", "/admin/v1/profiles/", "/a/./b"} {
		_, err := at(t, "http://127.0.0.1:9", -1).Do(t.Context(), Request{Method: "DELETE", Path: path})
		require.ErrorContains(t, err, "empty id", path)
	}
}

func TestNewRefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"", "127.0.0.1:8080", "localhost:8080", "ftp://host", "http://", "http://a b"} {
		_, err := New(Config{BaseURL: address})
		require.ErrorContains(t, err, "server address", address)
	}
}

func TestJitterGrowsToItsBound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		attempt := rapid.IntRange(0, 1000).Draw(t, "attempt")
		wait := Jitter(attempt)
		full := 10 * time.Second
		if attempt < 7 {
			full = min(full, 100*time.Millisecond<<attempt)
		}
		require.GreaterOrEqual(t, wait, full/2)
		require.Less(t, wait, full)
	})
}
