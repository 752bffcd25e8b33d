package bedrock

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
)

const maxErrorText = 64 << 10

// keepErrors keeps what the SDK drops of an answer that is an error: its text,
// which events show, and how long to wait.
type keepErrors struct{ next bedrockruntime.HTTPClient }

// kept is what was kept of one call. It travels in the call's context, the one
// thing that goes through the SDK untouched.
type kept struct {
	status     int
	body       string
	retryAfter time.Duration
}

type keptKey struct{}

func withKept(ctx context.Context) (context.Context, *kept) {
	k := &kept{}
	return context.WithValue(ctx, keptKey{}, k), k
}

func (c keepErrors) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.next.Do(r)
	k, ok := r.Context().Value(keptKey{}).(*kept)
	if err != nil || !ok || resp.StatusCode == http.StatusOK {
		return resp, err
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(text))
	k.status, k.body = resp.StatusCode, strings.ToValidUTF8(string(text), "\uFFFD")
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		k.retryAfter = time.Duration(seconds) * time.Second
	}
	return resp, nil
}
