// Package queue gets commands to the sandboxd of a sandbox and their results
// back, through rows of the table, so that any process of the server can ask and
// any can be asked (protocol, "Remote subagents"; package wire has the other
// half). Within a process nobody has to look: rings and results are passed on at
// once. Between processes the rows are looked at.
//
// The drivers whose sandboxes have a sandboxd inside stand on it.
package queue

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/sandbox/wire"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
)

// Options of a [Queue]. The zero value works.
type Options struct {
	Now func() time.Time // time.Now when nil
	// Ring rings a doorbell that a gateway holds, see [Queue.Hang]; nil where
	// doorbells end here. It must not block for long. A ring may get lost: sandboxd
	// looks by itself now and then.
	Ring func(ctx context.Context, bell string)
	// Poll is how often rows are looked at that another process may have written;
	// 50 ms by default.
	Poll time.Duration
	// Grace is how long after a command's time-out its result may come; 30 s by
	// default. Then the command counts as lost.
	Grace time.Duration
}

// Queue passes commands and results. It is safe for concurrent use.
type Queue struct {
	table table.Table
	o     Options

	mu    sync.Mutex
	boxes map[string]*box
}

// box is what this process knows of a sandbox.
type box struct {
	refs    int
	giving  sync.Mutex                // held while an order is written: numbers have no holes
	next    int64                     // number of the next order, 0 when not known; guarded by giving
	ears    map[chan struct{}]bool    // doorbells that end here
	last    int64                     // number of the last order of this process, 0 for none
	fresh   map[int64]order           // being written; handed out already, see [Queue.give]
	waiters map[int64][]chan struct{} // for outcomes
	told    map[int64]wire.Outcome    // outcomes somebody waits for, being written
	outputs map[int64]func(stream, text string)
	changed chan struct{} // closed and replaced when the agent enrolls or the sandbox ends
}

var (
	// ErrUnauthorized is returned for a code or token that opens nothing.
	ErrUnauthorized = errors.New("invalid sandbox token")
	// ErrUnwanted tells sandboxd that its sandbox has ended.
	ErrUnwanted = errors.New("the sandbox has ended; nothing is wanted of it any more")
	// ErrNoOrder is returned for the outcome of an order that was never given.
	ErrNoOrder = errors.New("no such command")
)

// keep is how long orders and outcomes outlive the last moment they matter.
const keep = 24 * time.Hour

// agent is the item that lets one sandboxd in.
type agent struct {
	Code  string `json:"code"`            // hash of the one-time code
	Token string `json:"token,omitempty"` // hash of the token, once enrolled
	Ended bool   `json:"ended,omitempty"`
	// Bell is the connection at which a gateway holds the doorbell, the latest.
	Bell string `json:"bell,omitempty"`
}

// New returns a queue over t.
func New(t table.Table, o *Options) *Queue {
	q := &Queue{table: t, boxes: map[string]*box{}}
	if o != nil {
		q.o = *o
	}
	if q.o.Now == nil {
		q.o.Now = time.Now
	}
	if q.o.Poll == 0 {
		q.o.Poll = 50 * time.Millisecond
	}
	if q.o.Grace == 0 {
		q.o.Grace = 30 * time.Second
	}
	return q
}

func agentKey(id string) table.Key {
	return table.Key{PK: session.SandboxPK(id), SK: "AGENT"}
}

// hold returns the box of a sandbox; release it.
func (q *Queue) hold(id string) *box {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.boxes[id]
	if b == nil {
		b = &box{ears: map[chan struct{}]bool{}, fresh: map[int64]order{},
			waiters: map[int64][]chan struct{}{}, told: map[int64]wire.Outcome{}, outputs: map[int64]func(string, string){}, changed: make(chan struct{})}
		q.boxes[id] = b
	}
	b.refs++
	return b
}

func (q *Queue) release(id string, b *box) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b.refs--; b.refs == 0 && len(b.ears) == 0 {
		delete(q.boxes, id)
	}
}

// Prepare makes the one-time code with which a sandboxd may enroll for the sandbox.
func (q *Queue) Prepare(ctx context.Context, id string) (code string, err error) {
	code = NewToken()
	body := session.MarshalJSON(agent{Code: session.HashSecret(code)})
	if _, err := q.table.Put(ctx, table.Op{Key: agentKey(id), Body: body}); err != nil {
		return "", fmt.Errorf("prepare sandbox %s: %w", id, err)
	}
	return code, nil
}

// NewToken returns a token, or a one-time code.
func NewToken() string {
	b := make([]byte, 24)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the process instead
	return wire.TokenPrefix + hex.EncodeToString(b)
}

// Enroll lets in the first sandboxd that has the code. The same one may come
// again, since it may not have got the answer; the code opens nothing for another.
func (q *Queue) Enroll(ctx context.Context, id, code, tokenHash string) error {
	a, _, err := q.agent(ctx, id)
	if err != nil {
		return err
	}
	if !same(a.Code, session.HashSecret(code)) || len(tokenHash) != 64 {
		return ErrUnauthorized
	}
	if a.Ended {
		return ErrUnwanted
	}
	if a.Token == "" {
		_, err := q.update(ctx, id, func(a *agent) bool {
			enrolls := a.Token == ""
			if enrolls {
				a.Token = tokenHash
			}
			return enrolls
		})
		if err != nil {
			return fmt.Errorf("enroll sandbox %s: %w", id, err)
		}
		return q.Enroll(ctx, id, code, tokenHash) // now it is this one's, or another's
	} else if !same(a.Token, tokenHash) {
		return ErrUnauthorized
	}
	q.announce(id)
	return nil
}

// Authenticate checks a sandbox's token. [ErrUnauthorized], or [ErrUnwanted] for
// the right token of a sandbox that has ended.
func (q *Queue) Authenticate(ctx context.Context, id, token string) error {
	a, _, err := q.agent(ctx, id)
	switch {
	case err != nil:
		return err
	case !same(a.Token, session.HashSecret(token)):
		return ErrUnauthorized
	case a.Ended:
		return ErrUnwanted
	}
	return nil
}

// Wanted reports whether the sandbox has not ended, as far as is known.
func (q *Queue) Wanted(ctx context.Context, id string) bool {
	a, _, err := q.agent(ctx, id)
	return err != nil || !a.Ended
}

func (q *Queue) agent(ctx context.Context, id string) (a agent, item table.Item, err error) {
	if !session.IsID(session.SandboxPrefix, id) {
		return a, item, ErrUnauthorized
	}
	items, err := q.table.Get(ctx, agentKey(id))
	if err != nil {
		return a, item, fmt.Errorf("read sandbox %s: %w", id, err)
	}
	if !items[0].Exists() {
		return a, item, ErrUnauthorized
	}
	if err := json.Unmarshal(items[0].Body, &a); err != nil {
		return a, item, fmt.Errorf("read sandbox %s: %w", id, err)
	}
	return a, items[0], nil
}

// update changes the item of a sandbox's agent, unless change says that there is
// nothing to change, and returns it as it is then.
func (q *Queue) update(ctx context.Context, id string, change func(a *agent) bool) (agent, error) {
	for {
		a, item, err := q.agent(ctx, id)
		if err != nil || !change(&a) {
			return a, err
		}
		op := table.Op{Key: agentKey(id), Body: session.MarshalJSON(a), If: table.IfVersion(item.Version)}
		if a.Ended {
			op.Expires = q.o.Now().Add(keep)
		}
		_, err = q.table.Put(ctx, op)
		if !errors.Is(err, table.ErrCondition) {
			return a, err
		}
	}
}

// Hang notes the connection at which a gateway holds the doorbell of a sandbox.
func (q *Queue) Hang(ctx context.Context, id, bell string) error {
	a, err := q.update(ctx, id, func(a *agent) bool {
		a.Bell = bell
		return !a.Ended
	})
	if err == nil && a.Ended {
		err = ErrUnwanted
	}
	if err != nil {
		return fmt.Errorf("hang the doorbell of sandbox %s: %w", id, err)
	}
	return nil
}

// same compares hashes in constant time. An empty one equals nothing.
func same(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}

// announce wakes whoever waits for the agent.
func (q *Queue) announce(id string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.boxes[id]; b != nil {
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// Enrolled waits until a sandboxd has enrolled.
func (q *Queue) Enrolled(ctx context.Context, id string) error {
	b := q.hold(id)
	defer q.release(id, b)
	for {
		q.mu.Lock()
		changed := b.changed
		q.mu.Unlock()
		a, _, err := q.agent(ctx, id)
		switch {
		case err != nil:
			return err
		case a.Ended:
			return ErrUnwanted
		case a.Token != "":
			return nil
		}
		if err := q.wait(ctx, changed, nil, q.o.Poll); err != nil {
			return err
		}
	}
}

// wait waits for either of two changes, or for as long as another process's change
// may go unnoticed.
func (q *Queue) wait(ctx context.Context, one, other <-chan struct{}, poll time.Duration) error {
	var look <-chan time.Time
	if !q.table.Exclusive() {
		t := time.NewTimer(poll)
		defer t.Stop()
		look = t.C
	}
	select {
	case <-one:
	case <-other:
	case <-look:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// Listen returns a channel that is rung when there are orders for the sandbox.
func (q *Queue) Listen(id string) (ring <-chan struct{}, stop func()) {
	b := q.hold(id)
	ear := make(chan struct{}, 1)
	q.mu.Lock()
	b.ears[ear] = true
	q.mu.Unlock()
	return ear, func() {
		q.mu.Lock()
		delete(b.ears, ear)
		q.mu.Unlock()
		q.release(id, b)
	}
}

// ring rings the doorbells of the sandbox, here and at a gateway.
func (q *Queue) ring(ctx context.Context, id string) {
	q.mu.Lock()
	if b := q.boxes[id]; b != nil {
		for ear := range b.ears {
			select {
			case ear <- struct{}{}:
			default: // it rings already
			}
		}
	}
	q.mu.Unlock()
	if q.o.Ring == nil {
		return
	}
	if a, _, err := q.agent(ctx, id); err == nil && a.Bell != "" {
		q.o.Ring(ctx, a.Bell)
	}
}

// End ends the sandbox for its sandboxd: it is told so at its next word, and all
// commands that have no outcome yet end with [sandbox.ErrGone].
func (q *Queue) End(ctx context.Context, id string) error {
	_, err := q.update(ctx, id, func(a *agent) bool {
		ends := !a.Ended
		a.Ended = true
		return ends
	})
	if errors.Is(err, ErrUnauthorized) {
		return nil // it was never prepared
	}
	if err != nil {
		return fmt.Errorf("end sandbox %s: %w", id, err)
	}
	if err := q.settleAll(ctx, id); err != nil {
		return err
	}
	q.announce(id)
	q.ring(ctx, id)
	return nil
}
