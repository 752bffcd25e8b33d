package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/wire"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
)

const (
	orderPrefix   = "CMD#"
	outcomePrefix = "RES#"
	runPrefix     = "RUN#"
)

func orderKey(id string, n int64) table.Key {
	return table.Key{PK: session.SandboxPK(id), SK: fmt.Sprintf("%s%012d", orderPrefix, n)}
}

func outcomeKey(id string, n int64) table.Key {
	return table.Key{PK: session.SandboxPK(id), SK: fmt.Sprintf("%s%012d", outcomePrefix, n)}
}

// runKey is the item that finds a launched command by its id.
func runKey(id, command string) table.Key {
	return table.Key{PK: session.SandboxPK(id), SK: runPrefix + command}
}

// order is a command's row.
type order struct {
	wire.Order
	// Launched is the id of a command that nobody waits for in particular.
	Launched string `json:"launched,omitempty"`
}

// Orders returns the orders after the n-th.
func (q *Queue) Orders(ctx context.Context, id string, after int64) (wire.Orders, error) {
	out := wire.Orders{Orders: []wire.Order{}}
	r := table.Range{PK: session.SandboxPK(id), From: orderKey(id, after+1).SK, To: orderPrefix + "~"}
	for it, err := range q.table.Query(ctx, r) {
		if err != nil {
			return out, fmt.Errorf("read the commands of sandbox %s: %w", id, err)
		}
		var o order
		if err := unpack(it.Body, &o); err != nil {
			return out, fmt.Errorf("read the commands of sandbox %s: %w", id, err)
		}
		if o.N != after+1 {
			break // a hole: the one before is being written
		}
		after = o.N
		out.Orders = append(out.Orders, o.Order)
	}
	return out, nil
}

func unpack(body []byte, v any) error {
	b, err := table.Unpack(body)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	return err
}

// give writes the next order and rings. Numbers are dense, so that nobody who
// reads them in order can miss one.
func (q *Queue) give(ctx context.Context, id string, o order) (n int64, err error) {
	b := q.hold(id)
	defer q.release(id, b)
	b.giving.Lock()
	defer b.giving.Unlock()
	for {
		if b.next == 0 {
			if b.next, err = q.count(ctx, id); err != nil {
				return 0, err
			}
		}
		n = b.next
		o.N = n
		ops := []table.Op{{Key: orderKey(id, n), Body: table.Pack(session.MarshalJSON(o)), If: table.IfAbsent(),
			Expires: q.o.Now().Add(keep + time.Duration(o.TimeoutMS)*time.Millisecond)}}
		if o.Launched == "" {
			_, err = q.table.Put(ctx, ops[0])
		} else {
			ops = append(ops, table.Op{Key: runKey(id, o.Launched), Body: session.MarshalJSON(n), If: table.IfAbsent(), Expires: ops[0].Expires})
			err = q.table.Write(ctx, ops...)
		}
		if err == nil {
			b.next++
			q.ring(ctx, id)
			return n, nil
		}
		if errors.Is(err, table.ErrTooLarge) {
			return 0, &sandbox.RunError{Detail: "the command and its input are too large for a sandbox"}
		}
		b.next = 0 // another process was first, or nobody knows: look again
		if !errors.Is(err, table.ErrCondition) {
			return 0, fmt.Errorf("give sandbox %s a command: %w", id, err)
		}
		if o.Launched != "" {
			if n, err := q.launched(ctx, id, o.Launched); !errors.Is(err, sandbox.ErrNoCommand) {
				return n, err // it was launched before
			}
		}
	}
}

// count returns the number of the next order.
func (q *Queue) count(ctx context.Context, id string) (int64, error) {
	last := int64(0)
	r := table.Range{PK: session.SandboxPK(id), From: orderPrefix, To: orderPrefix + "~", Reverse: true, Limit: 1}
	for it, err := range q.table.Query(ctx, r) {
		if err == nil {
			last, err = strconv.ParseInt(strings.TrimPrefix(it.SK, orderPrefix), 10, 64)
		}
		if err != nil {
			return 0, fmt.Errorf("count the commands of sandbox %s: %w", id, err)
		}
	}
	return last + 1, nil
}

// launched returns the number of a launched command.
func (q *Queue) launched(ctx context.Context, id, command string) (n int64, err error) {
	items, err := q.table.Get(ctx, runKey(id, command))
	if err != nil {
		return 0, fmt.Errorf("look for command %s of sandbox %s: %w", command, id, err)
	}
	if !items[0].Exists() {
		return 0, sandbox.ErrNoCommand
	}
	return n, json.Unmarshal(items[0].Body, &n)
}

// Settle notes an outcome that sandboxd tells. The first outcome of an order
// stays. It returns the id of a launched command, "" for any other.
func (q *Queue) Settle(ctx context.Context, id string, out wire.Outcome) (launched string, first wire.Outcome, err error) {
	items, err := q.table.Get(ctx, orderKey(id, out.N))
	if err != nil {
		return "", out, fmt.Errorf("read command %d of sandbox %s: %w", out.N, id, err)
	}
	if !items[0].Exists() {
		return "", out, ErrNoOrder
	}
	var o order
	if err := unpack(items[0].Body, &o); err != nil {
		return "", out, fmt.Errorf("read command %d of sandbox %s: %w", out.N, id, err)
	}
	first, err = q.settle(ctx, id, out)
	return o.Launched, first, err
}

// settle writes an outcome if there is none, and returns the one there is.
func (q *Queue) settle(ctx context.Context, id string, out wire.Outcome) (wire.Outcome, error) {
	_, err := q.table.Put(ctx, table.Op{Key: outcomeKey(id, out.N), Body: table.Pack(session.MarshalJSON(out)), If: table.IfAbsent(), Expires: q.o.Now().Add(keep)})
	if errors.Is(err, table.ErrCondition) {
		first, _, err := q.outcome(ctx, id, out.N)
		return first, err
	}
	if err != nil {
		return out, fmt.Errorf("note the outcome of command %d of sandbox %s: %w", out.N, id, err)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.boxes[id]; b != nil {
		for _, w := range b.waiters[out.N] {
			close(w)
		}
		delete(b.waiters, out.N)
	}
	return out, nil
}

func (q *Queue) outcome(ctx context.Context, id string, n int64) (out wire.Outcome, there bool, err error) {
	items, err := q.table.Get(ctx, outcomeKey(id, n))
	if err != nil {
		return out, false, fmt.Errorf("read the outcome of command %d of sandbox %s: %w", n, id, err)
	}
	if !items[0].Exists() {
		return out, false, nil
	}
	return out, true, unpack(items[0].Body, &out)
}

// settleAll gives an outcome to all orders that have none. An order that is given
// while this runs is settled by who gives it, see [Queue.await].
func (q *Queue) settleAll(ctx context.Context, id string) error {
	done := map[string]bool{}
	for it, err := range q.table.Query(ctx, table.Prefix(session.SandboxPK(id), outcomePrefix)) {
		if err != nil {
			return fmt.Errorf("read the outcomes of sandbox %s: %w", id, err)
		}
		done[strings.TrimPrefix(it.SK, outcomePrefix)] = true
	}
	var open []int64
	for it, err := range q.table.Query(ctx, table.Prefix(session.SandboxPK(id), orderPrefix)) {
		if err != nil {
			return fmt.Errorf("read the commands of sandbox %s: %w", id, err)
		}
		if number := strings.TrimPrefix(it.SK, orderPrefix); !done[number] {
			var o order
			if err := unpack(it.Body, &o); err != nil {
				return fmt.Errorf("read the commands of sandbox %s: %w", id, err)
			}
			if o.Kill == 0 {
				open = append(open, o.N)
			}
		}
	}
	for _, n := range open {
		if _, err := q.settle(ctx, id, wire.Outcome{N: n, Error: sandbox.ErrGone.Error()}); err != nil {
			return err
		}
	}
	return nil
}

// Output passes on a piece of a watched command's output.
func (q *Queue) Output(id string, out wire.Output) {
	q.mu.Lock()
	var to func(stream, text string)
	if b := q.boxes[id]; b != nil {
		to = b.outputs[out.N]
	}
	q.mu.Unlock()
	if to != nil {
		to(out.Stream, out.Text)
	}
}
