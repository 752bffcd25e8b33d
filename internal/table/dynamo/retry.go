package dynamo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

const (
	firstBackOff = 25 * time.Millisecond
	maxBackOff   = 2 * time.Second
)

// A fate is what is known of a request that failed.
type fate int

const (
	final    fate = iota // asking again would not help
	rejected             // not carried out; it may be later
	lost                 // may have been carried out
)

// call sends one request until it has a final answer, ctx ends, or the time for
// retries is over. The request is told whether an earlier attempt may have been
// carried out already. The error is not explained yet.
func (t *Table) call(ctx context.Context, op string, request func(ctx context.Context, unsure bool) error) error {
	if err := t.usable(ctx); err != nil {
		return err
	}
	start := time.Now()
	unsure, cause := false, error(nil)
	for attempt := 0; ; attempt++ {
		t.onCall(op)
		err := t.once(ctx, func(ctx context.Context) error { return request(ctx, unsure) })
		if err == nil {
			return nil
		}
		f := fateOf(err)
		switch {
		case errors.Is(err, errOverwritten):
			return fmt.Errorf("%w (the answer was lost to: %v)", err, cause)
		case f == final:
			return err
		case f == lost:
			unsure, cause = true, err
		}
		wait := t.backOff(attempt)
		if time.Since(start)+wait > t.giveUpAfter {
			return &gaveUpError{attempts: attempt + 1, unsure: unsure, err: err}
		}
		if ctxErr := sleep(ctx, wait); ctxErr != nil {
			return &gaveUpError{attempts: attempt + 1, unsure: unsure, err: errors.Join(ctxErr, err)}
		}
	}
}

func (t *Table) once(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, t.cutAfter)
	defer cancel()
	return request(ctx)
}

// backOff is a random time below a bound that doubles: clients that were
// rejected together must not come back together.
func (t *Table) backOff(attempt int) time.Duration {
	most := min(firstBackOff<<min(attempt, 10), maxBackOff)
	return time.Duration(t.random() % uint64(most))
}

// sleep returns early with ctx's error.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// fateOf knows what DynamoDB documents as never carried out. Whatever else might
// pass is taken for lost.
func fateOf(err error) fate {
	var noCredentials *credentialsError
	if errors.As(err, &noCredentials) {
		return final
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode() {
		case "ProvisionedThroughputExceededException", "ThrottlingException", "RequestLimitExceeded",
			"TransactionConflictException", "TransactionInProgressException":
			return rejected
		case "InternalServerError", "ServiceUnavailable":
			return lost
		}
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() >= 500 {
		return lost
	}
	if api == nil && broken(err) {
		return lost
	}
	return final
}

// broken reports whether the request or its answer got lost on the way.
func broken(err error) bool {
	var (
		send    *smithyhttp.RequestSendError
		garbled *smithy.DeserializationError
		network net.Error
	)
	return errors.As(err, &send) || errors.As(err, &garbled) || errors.As(err, &network) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// A gaveUpError ends the retries of a call.
type gaveUpError struct {
	attempts int
	unsure   bool
	err      error
}

func (e *gaveUpError) Error() string { return e.err.Error() }
func (e *gaveUpError) Unwrap() error { return e.err }
