// Package dynamo keeps a [table.Table] in one DynamoDB table, alone or shared
// with any number of processes.
//
// Items have short attribute names, since DynamoDB counts them as stored bytes:
//
//	pk  S  partition key
//	sk  S  sort key
//	b   B  body, left out when empty
//	v   N  version
//	x   N  expiry in Unix seconds (the table's TTL attribute), left out when never
//	w   B  nonce of the write, by which it knows itself when its answer was lost
//
// The package links no service but DynamoDB, to start fast on Lambda. It knows
// nothing of what the items mean.
package dynamo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/lambae/lambae/internal/table"
)

// Options may be nil, or zero in every field.
type Options struct {
	// OnCall is told of every request that is sent, retries included, by the name
	// of its operation ("PutItem"). It must be safe for concurrent use.
	OnCall func(op string)
	// AttemptTimeout cuts a request whose answer does not come; 0 means 10 s.
	// DynamoDB answers within milliseconds: the time is for large items over slow
	// lines.
	AttemptTimeout time.Duration
	// GiveUpAfter bounds the retries of one call; 0 means 30 s.
	GiveUpAfter time.Duration
	// Random is the source of nonces, versions and jitter, safe for concurrent
	// use; nil means rand.Uint64.
	Random func() uint64
}

// Table is the store in DynamoDB. It implements [table.Table].
type Table struct {
	client      *dynamodb.Client
	name        string
	where       string // region or endpoint, for messages
	onCall      func(op string)
	cutAfter    time.Duration
	giveUpAfter time.Duration
	random      func() uint64
	closed      atomic.Bool
}

var _ table.Table = (*Table)(nil)

var errClosed = errors.New("dynamo: the table is closed")

const (
	defaultAttemptTimeout = 10 * time.Second
	defaultGiveUpAfter    = 30 * time.Second
)

// Open returns the table of that name. It makes no request, so that a function
// that starts cold waits for nothing; a table that does not exist shows with the
// first call.
//
// Retries are this package's own: those of the client are switched off, because
// they hide that an earlier attempt may have landed.
func Open(client *dynamodb.Client, tableName string, opts *Options) (*Table, error) {
	if tableName == "" {
		return nil, errors.New("dynamo: no table name: set the name of the DynamoDB table")
	}
	o := client.Options()
	if o.Region == "" {
		return nil, errors.New("dynamo: no region: set AWS_REGION, or a region in the AWS profile")
	}
	if opts == nil {
		opts = &Options{}
	}
	t := &Table{
		client:      dynamodb.New(o, withoutRetries, withMarkedCredentials),
		name:        tableName,
		where:       o.Region,
		onCall:      opts.OnCall,
		cutAfter:    cmp.Or(opts.AttemptTimeout, defaultAttemptTimeout),
		giveUpAfter: cmp.Or(opts.GiveUpAfter, defaultGiveUpAfter),
		random:      opts.Random,
	}
	if o.BaseEndpoint != nil {
		t.where = *o.BaseEndpoint
	}
	if t.onCall == nil {
		t.onCall = func(string) {}
	}
	if t.random == nil {
		t.random = rand.Uint64
	}
	return t, nil
}

func withoutRetries(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }

// withMarkedCredentials makes a failure to get credentials one that can be told
// from a failure of the request.
func withMarkedCredentials(o *dynamodb.Options) {
	inner := o.Credentials
	if inner == nil {
		return
	}
	o.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
		c, err := inner.Retrieve(ctx)
		if err != nil {
			return c, &credentialsError{err}
		}
		return c, nil
	})
}

type credentialsError struct{ err error }

func (e *credentialsError) Error() string { return e.err.Error() }
func (e *credentialsError) Unwrap() error { return e.err }

// Exclusive is false: any process with the permission can write.
func (t *Table) Exclusive() bool { return false }

// Close makes the table refuse further calls. Calls under way go on.
func (t *Table) Close() error {
	t.closed.Store(true)
	return nil
}

// usable returns why no call can be made, or nil.
func (t *Table) usable(ctx context.Context) error {
	if t.closed.Load() {
		return errClosed
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("dynamo: %w", err)
	}
	return nil
}
