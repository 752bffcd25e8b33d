// Package faulty stands between a DynamoDB client and its endpoint, and breaks
// chosen requests in the ways a network and a busy service do.
package faulty

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A Fault is what happens to one request. The zero Fault lets it pass.
type Fault struct {
	// Drop closes the connection: before the request is passed on, or, with
	// Carry, when it has been carried out and its answer is due.
	Drop bool
	// Status and Code answer an error of DynamoDB: instead of the request, or,
	// with Carry, after it has been carried out.
	Status int
	Code   string
	// Reasons are the codes of a TransactionCanceledException.
	Reasons []string
	// Carry passes the request on before Drop or Code.
	Carry bool
	// Hold waits before the request is passed on, even when the client has long
	// given up by then.
	Hold time.Duration
	// HoldAnswer waits before the answer is passed back.
	HoldAnswer time.Duration
	// Keys, when positive, is how many keys of a BatchGetItem are carried out; the
	// others come back unprocessed.
	Keys int
}

// The faults of the field, by what they mean for a write.
var (
	LostRequest   = Fault{Drop: true}
	LostAnswer    = Fault{Drop: true, Carry: true}
	ServerError   = Fault{Status: 500, Code: "InternalServerError"}
	ErrorThatDid  = Fault{Status: 500, Code: "InternalServerError", Carry: true}
	Unavailable   = Fault{Status: 503, Code: "ServiceUnavailable"}
	Throttled     = Fault{Status: 400, Code: "ThrottlingException"}
	OverCapacity  = Fault{Status: 400, Code: "ProvisionedThroughputExceededException"}
	OverLimit     = Fault{Status: 400, Code: "RequestLimitExceeded"}
	Conflict      = Fault{Status: 400, Code: "TransactionConflictException"}
	ConflictInTx  = Fault{Status: 400, Code: "TransactionCanceledException", Reasons: []string{"None", "TransactionConflict"}}
	ThrottledInTx = Fault{Status: 400, Code: "TransactionCanceledException", Reasons: []string{"ThrottlingError", "None"}}
)

// A Plan says what happens to the n-th request (from 1) for an operation, such
// as "PutItem". It is called by many goroutines, one at a time.
type Plan func(op string, n int) Fault

// Proxy starts a proxy for an endpoint that lasts as long as the test, and
// returns its URL.
func Proxy(t testing.TB, endpoint string, plan Plan) string {
	t.Helper()
	p := &proxy{t: t, endpoint: endpoint, plan: plan, seen: map[string]int{}}
	p.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	server := httptest.NewServer(p)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close() // waits for the requests that are held
		p.client.CloseIdleConnections()
	})
	return server.URL
}

type proxy struct {
	t        testing.TB
	endpoint string
	plan     Plan
	client   *http.Client

	mu   sync.Mutex
	seen map[string]int
}

func (p *proxy) next(r *http.Request) Fault {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[op]++
	return p.plan(op, p.seen[op])
}

func (p *proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	f := p.next(r)
	time.Sleep(f.Hold)
	fails := f.Drop || f.Code != ""
	var res *answer
	if !fails || f.Carry {
		res = p.pass(r, body, f)
	}
	time.Sleep(f.HoldAnswer)
	switch {
	case f.Drop:
		panic(http.ErrAbortHandler) // net/http closes the connection, without a word
	case f.Code != "":
		res = f.answer()
	}
	res.write(w)
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *answer) write(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// pass carries a request out, whether its client still waits or not.
func (p *proxy) pass(r *http.Request, body []byte, f Fault) *answer {
	var unprocessed json.RawMessage
	if f.Keys > 0 {
		body, unprocessed = splitKeys(p.t, body, f.Keys)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(r.Context()), r.Method, p.endpoint+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header = r.Header.Clone()
	res, err := p.client.Do(req)
	if err != nil {
		panic(http.ErrAbortHandler) // to the client it is a connection that broke
	}
	defer func() { _ = res.Body.Close() }()
	got, err := io.ReadAll(res.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	a := &answer{status: res.StatusCode, header: res.Header, body: got}
	if unprocessed != nil {
		a.body = withUnprocessed(p.t, got, unprocessed)
		a.header = http.Header{"Content-Type": res.Header["Content-Type"]}
	}
	return a
}

// splitKeys cuts a BatchGetItem of one table down to its first n keys, and
// returns the rest in the form of UnprocessedKeys.
func splitKeys(t testing.TB, body []byte, n int) (first []byte, rest json.RawMessage) {
	type wanted struct {
		Keys           []json.RawMessage
		ConsistentRead bool
	}
	var in struct{ RequestItems map[string]wanted }
	require.NoError(t, json.Unmarshal(body, &in))
	left := map[string]wanted{}
	for name, w := range in.RequestItems {
		if len(w.Keys) <= n {
			return body, nil
		}
		left[name] = wanted{w.Keys[n:], w.ConsistentRead}
		in.RequestItems[name] = wanted{w.Keys[:n], w.ConsistentRead}
	}
	return encode(t, in), encode(t, left)
}

func withUnprocessed(t testing.TB, body []byte, unprocessed json.RawMessage) []byte {
	var out map[string]json.RawMessage
	require.NoError(t, json.Unmarshal(body, &out))
	out["UnprocessedKeys"] = unprocessed
	return encode(t, out)
}

func encode(t testing.TB, v any) []byte {
	b, err := json.Marshal(v)
	require.NoError(t, err)
	return b
}

// answer is the error in DynamoDB's form.
func (f Fault) answer() *answer {
	type reason struct{ Code string }
	said := struct {
		Type    string `json:"__type"`
		Message string
		Reasons []reason `json:"CancellationReasons,omitempty"`
	}{Type: "com.amazonaws.dynamodb.v20120810#" + f.Code, Message: "a fault of the test"}
	for _, r := range f.Reasons {
		said.Reasons = append(said.Reasons, reason{r})
	}
	body, err := json.Marshal(said)
	if err != nil {
		panic(err)
	}
	return &answer{status: f.Status, header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, body: body}
}
