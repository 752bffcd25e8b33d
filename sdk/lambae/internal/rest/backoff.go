package rest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"
)

const (
	firstWait   = 100 * time.Millisecond
	longestWait = 10 * time.Second
	// longestAsked bounds what a Retry-After header can ask for.
	longestAsked = 30 * time.Second
)

// Jitter doubles the wait from 100 ms to 10 s and takes a random part of its
// upper half, so that clients cut off together do not come back together.
func Jitter(attempt int) time.Duration {
	wait := longestWait
	if attempt < 7 {
		wait = min(firstWait<<attempt, longestWait)
	}
	return wait/2 + rand.N(wait/2)
}

// Sleep waits for d, or less when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

// retryAfter reads the header in its form of seconds; the other form would
// compare the server's clock with ours.
func retryAfter(response *http.Response) time.Duration {
	if response == nil {
		return 0
	}
	seconds, err := strconv.Atoi(response.Header.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, longestAsked)
}
