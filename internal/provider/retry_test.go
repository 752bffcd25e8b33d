package provider

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRetriesFollowTheStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]int{400: 1, 401: 1, 404: 1, 408: 1, 413: 1, 429: 3, 500: 3, 502: 3, 503: 3, 529: 3} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			t.Parallel()
			s := serve(t, answer(status, "x"))
			p := anthropicAt(t, s.URL, Options{Sleep: (&sleeps{}).sleep})
			_, err := p.Call(t.Context(), hello(t, p))
			require.Equal(t, status, failedWith(t, err, "HTTP "+strconv.Itoa(status)).Status)
			require.Len(t, s.all(), want, "max_retries is 2")
		})
	}
}

func TestWaitsHonourRetryAfterAndElseGrow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := serve(t,
		answer(429, "", "Retry-After", "7"), answer(503, "", "Retry-After", now.Add(9*time.Second).Format(http.TimeFormat)), answer(200, fine))
	var slept sleeps
	p := anthropicAt(t, s.URL, Options{Sleep: slept.sleep, Now: func() time.Time { return now }})
	_, err := p.Call(t.Context(), hello(t, p))
	require.NoError(t, err)
	require.Equal(t, []time.Duration{7 * time.Second, 9 * time.Second}, slept.list)

	s = serve(t, answer(500, ""))
	slept = sleeps{}
	p = anthropicAt(t, s.URL, Options{Sleep: slept.sleep, Random: func() float64 { return 0 }})
	_, err = p.Call(t.Context(), hello(t, p))
	require.Error(t, err)
	require.Equal(t, []time.Duration{250 * time.Millisecond, 500 * time.Millisecond}, slept.list)
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "soon": 0, "0": 0, "-3": 0, "NaN": 0, "1.5": 1500 * time.Millisecond, "60": time.Minute, "61": time.Minute, "1e30": time.Minute,
		now.Add(time.Second).Format(http.TimeFormat):  time.Second,
		now.Add(time.Hour).Format(http.TimeFormat):    time.Minute,
		now.Add(-time.Second).Format(http.TimeFormat): 0,
	} {
		require.Equal(t, want, retryAfter(http.Header{"Retry-After": {value}}, now), value)
	}
}

func TestNoRetryOutlastsTheContext(t *testing.T) {
	t.Parallel()
	s := serve(t, answer(429, "", "Retry-After", "50"))
	p := anthropicAt(t, s.URL, Options{}) // whose sleep fails the test
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, err := p.Call(ctx, hello(t, p))
	failedWith(t, err, "HTTP 429")
	require.Len(t, s.all(), 1, "the wait would end after the context, so a fallback gets the time")
}

func TestACancelledWaitIsNoFailedAttempt(t *testing.T) {
	t.Parallel()
	s := serve(t, answer(500, ""))
	cause := errors.New("closed")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := anthropicAt(t, s.URL, Options{Sleep: func(ctx context.Context, d time.Duration) error {
		cancel(cause)
		return sleep(ctx, d)
	}})
	_, err := p.Call(ctx, hello(t, p))
	require.ErrorIs(t, err, cause)
	var failed *Error
	require.False(t, errors.As(err, &failed))
}

func TestWaitsStayWithinTheirBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1000).Draw(t, "n")
		r := retrier{random: func() float64 { return rapid.Float64Range(0, 0.999999).Draw(t, "random") }}
		d := r.wait(n, 0)
		full := lastWait
		if n < 4 {
			full = firstWait << n
		}
		require.GreaterOrEqual(t, d, full/2)
		require.LessOrEqual(t, d, full)
		asked := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "asked"))
		require.Equal(t, min(asked, time.Minute), r.wait(n, asked))
	})
}

func TestSleepEndsWithItsContext(t *testing.T) {
	t.Parallel()
	require.NoError(t, sleep(t.Context(), time.Microsecond))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, sleep(ctx, time.Hour), context.Canceled)
}
