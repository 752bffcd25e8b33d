package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	firstWait = 500 * time.Millisecond // before the second call, doubled each time
	lastWait  = 8 * time.Second
	// longestRetryAfter caps what an API may ask for: a caller waits meanwhile,
	// and a fallback may be ready.
	longestRetryAfter = time.Minute
)

// retrier repeats a call within one attempt.
type retrier struct {
	sleep  func(context.Context, time.Duration) error
	random func() float64 // in [0, 1)
	now    func() time.Time
}

// do makes the call, and again up to max times while its failure is temporary.
// It gives up early when the wait would outlast ctx.
func (r retrier) do(ctx context.Context, max int, call func() (*Response, error)) (*Response, error) {
	for n := 0; ; n++ {
		resp, err := call()
		var failed *Error
		if n >= max || !errors.As(err, &failed) || !failed.Temporary {
			return resp, err
		}
		wait := r.wait(n, failed.RetryAfter)
		if deadline, ok := ctx.Deadline(); ok && r.now().Add(wait).After(deadline) {
			return nil, err
		}
		if r.sleep(ctx, wait) != nil {
			return nil, fmt.Errorf("wait to call again after %q: %w", failed.Detail, context.Cause(ctx))
		}
	}
}

// wait is what the API asks for, else exponential with jitter over its upper
// half, so that callers cut off together do not come back together.
func (r retrier) wait(n int, asked time.Duration) time.Duration {
	if asked > 0 {
		return min(asked, longestRetryAfter)
	}
	d := lastWait
	if n < 10 {
		d = min(firstWait<<n, lastWait)
	}
	return d/2 + time.Duration(r.random()*float64(d/2))
}

// retryAfter reads the Retry-After header: seconds or an HTTP date. 0 means that
// it is absent, past or not understood.
func retryAfter(h http.Header, now time.Time) time.Duration {
	v := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(v, 64); err == nil && seconds > 0 {
		return time.Duration(min(seconds, longestRetryAfter.Seconds()) * float64(time.Second))
	}
	if at, err := http.ParseTime(v); err == nil && at.After(now) {
		return min(at.Sub(now), longestRetryAfter)
	}
	return 0
}

// temporary tells statuses worth another call: too many requests and the
// server's own troubles, 529 ("overloaded") among them.
func temporary(status int) bool { return status == http.StatusTooManyRequests || status >= 500 }

// sleep is [retrier].sleep on the real clock.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
