package otlphttp

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxTries bounds the tries for one request to a collector that says "later".
const maxTries = 5

// client posts requests to a collector (OTLP specification, "OTLP/HTTP").
type client struct {
	http    *http.Client
	headers func(context.Context) (map[string]string, error)
	pause   time.Duration // before the second try; doubles
}

// post sends an encoded request, again after answers that ask for it. It fails
// when the collector refuses some or all of it.
func (c *client) post(ctx context.Context, url string, body []byte) error {
	var packed bytes.Buffer
	zw := gzip.NewWriter(&packed)
	if _, err := zw.Write(body); err != nil {
		return fmt.Errorf("compress: %w", err)
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("compress: %w", err)
	}

	pause := c.pause
	for try := 1; ; try++ {
		wait, err := c.try(ctx, url, packed.Bytes())
		if err == nil || wait < 0 || try == maxTries {
			return err
		}
		if wait == 0 {
			wait = pause/2 + rand.N(pause/2+1)
			pause *= 2
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// try sends the request once. After an error, wait is negative when another try
// is of no use, and 0 when the collector did not say how long to wait.
func (c *client) try(ctx context.Context, endpoint string, body []byte) (wait time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	headers, err := c.headers(ctx)
	if err != nil {
		return -1, err
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	req.Header.Set("Content-Encoding", "gzip")

	resp, err := c.http.Do(req)
	if err != nil {
		if request := new(url.Error); errors.As(err, &request) {
			err = request.Err // without the address, which may hold a key
		}
		return 0, err
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	switch resp.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return time.Duration(max(0, seconds)) * time.Second, fmt.Errorf("collector answered %s", resp.Status)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return -1, fmt.Errorf("collector answered %s", resp.Status)
	}
	return -1, rejected(answer)
}

// rejected is the partial_success of an answer as an error, or nil.
func rejected(answer []byte) error {
	partial, _ := field(answer, 1, protowire.BytesType)
	_, count := field(partial, 1, protowire.VarintType)
	why, _ := field(partial, 2, protowire.BytesType)
	if count == 0 {
		return nil
	}
	return fmt.Errorf("collector rejected %d items: %s", count, why)
}

// field finds a field of a message, as bytes or as a number.
func field(m []byte, want protowire.Number, as protowire.Type) (b []byte, v uint64) {
	for len(m) > 0 {
		num, typ, n := protowire.ConsumeTag(m)
		if n < 0 {
			return nil, 0
		}
		m = m[n:]
		if n = protowire.ConsumeFieldValue(num, typ, m); n < 0 {
			return nil, 0
		}
		if num == want && typ == as {
			if typ == protowire.VarintType {
				v, _ = protowire.ConsumeVarint(m)
			} else {
				b, _ = protowire.ConsumeBytes(m)
			}
		}
		m = m[n:]
	}
	return b, v
}
