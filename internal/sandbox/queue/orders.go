package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// Orders returns the orders after the n-th, and none that was given after one that
// is left out: who has got a number does not look before it again.
func (q *Queue) Orders(ctx context.Context, id string, after int64) (wire.Orders, error) {
	out := wire.Orders{Orders: []wire.Order{}}
	limit, fresh, err := q.given(ctx, id, after)
	if err != nil {
		return out, err
	}
	add := func(o wire.Order) {
		for len(fresh) > 0 && fresh[0].N <= o.N {
			if fresh[0].N < o.N {
				out.Orders = append(out.Orders, fresh[0])
			}
			fresh = fresh[1:]
		}
		out.Orders = append(out.Orders, o)
	}
	last := after
	r := table.Range{PK: session.SandboxPK(id), From: orderKey(id, after+1).SK, To: orderPrefix + "~"}
	for it, err := range q.table.Query(ctx, r) {
		var o order
		if err == nil {
			err = unpack(it.Body, &o)
		}
		if err != nil {
			return out, fmt.Errorf("read the commands of sandbox %s: %w", id, err)
		}
		if !q.table.Exclusive() && o.N != last+1 || q.table.Exclusive() && o.N > limit {
			break // one before it may be on its way
		}
		last = o.N
		add(o.Order)
	}
	out.Orders = append(out.Orders, fresh...)
	return out, nil
}

// given returns, where no other process gives orders, the last number that was
// given, and the orders up to it that are being written: all others are rows.
func (q *Queue) given(ctx context.Context, id string, after int64) (limit int64, fresh []wire.Order, err error) {
	if !q.table.Exclusive() {
		return 0, nil, nil
	}
	q.mu.Lock()
	if b := q.boxes[id]; b != nil {
		limit = b.last
	}
	q.mu.Unlock()
	if limit == 0 {
		if limit, err = q.lastRow(ctx, id); err != nil {
			return 0, nil, err
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.boxes[id]; b != nil {
		for n, o := range b.fresh {
			if n > after && n <= limit {
				fresh = append(fresh, o.Order)
			}
		}
	}
	slices.SortFunc(fresh, func(a, b wire.Order) int { return cmp.Compare(a.N, b.N) })
	return limit, fresh, nil
}

func unpack(body []byte, v any) error {
	b, err := table.Unpack(body)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	return err
}

// restartGap is how many numbers a process that has the table for itself leaves
// free after the last order it finds: its predecessor may have handed out some
// that were never written.
const restartGap = 1 << 20

// give gives the next order and rings. Orders are given one after the other, so
// that whoever reads them in order misses none.
//
// Where no other process can have the table, an order that its caller waits for is
// handed out while it is being written: if this process dies before, the caller is
// gone with it, and its number is not used again.
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
		op := q.write(id, o)
		if len(op.Body) > table.MaxItem {
			return 0, &sandbox.RunError{Detail: "the command and its input are too large for a sandbox"}
		}
		if o.Launched == "" && q.table.Exclusive() {
			b.next++
			q.giveFresh(ctx, id, o, op)
			return n, nil
		}
		ops := []table.Op{op}
		if o.Launched == "" {
			_, err = q.table.Put(ctx, ops[0])
		} else {
			ops = append(ops, table.Op{Key: runKey(id, o.Launched), Body: session.MarshalJSON(n), If: table.IfAbsent(), Expires: ops[0].Expires})
			err = q.table.Write(ctx, ops...)
		}
		if err == nil {
			b.next++
			q.mu.Lock()
			b.last = n
			q.mu.Unlock()
			q.ring(ctx, id)
			return n, nil
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

func (q *Queue) write(id string, o order) table.Op {
	return table.Op{Key: orderKey(id, o.N), Body: table.Pack(session.MarshalJSON(o)), If: table.IfAbsent(),
		Expires: q.o.Now().Add(keep + time.Duration(o.TimeoutMS)*time.Millisecond)}
}

// giveFresh hands an order out and writes it meanwhile. One that cannot be written
// is settled, should sandboxd not have run it already.
func (q *Queue) giveFresh(ctx context.Context, id string, o order, op table.Op) {
	b := q.hold(id)
	q.mu.Lock()
	b.fresh[o.N], b.last = o, o.N
	q.mu.Unlock()
	q.ring(ctx, id)
	go func() {
		defer q.release(id, b)
		_, err := q.table.Put(context.WithoutCancel(ctx), op)
		q.mu.Lock()
		defer q.mu.Unlock()
		delete(b.fresh, o.N)
		if err != nil {
			b.told[o.N] = wire.Outcome{N: o.N, Error: fmt.Sprintf("the command could not be noted: %s", err)}
			b.wake(o.N)
		}
	}()
}

// tell passes an outcome on to whoever waits for it in this process. The first one
// stays.
func (q *Queue) tell(id string, out wire.Outcome) {
	q.mu.Lock()
	defer q.mu.Unlock()
	b := q.boxes[id]
	if b == nil || len(b.waiters[out.N]) == 0 {
		return
	}
	b.told[out.N] = out
	b.wake(out.N)
}

// count returns the number of the next order.
func (q *Queue) count(ctx context.Context, id string) (int64, error) {
	last, err := q.lastRow(ctx, id)
	if err == nil && q.table.Exclusive() && last > 0 {
		last += restartGap
	}
	return last + 1, err
}

// lastRow returns the number of the last order that is written, 0 for none.
func (q *Queue) lastRow(ctx context.Context, id string) (last int64, err error) {
	r := table.Range{PK: session.SandboxPK(id), From: orderPrefix, To: orderPrefix + "~", Reverse: true, Limit: 1}
	for it, err := range q.table.Query(ctx, r) {
		if err == nil {
			last, err = strconv.ParseInt(strings.TrimPrefix(it.SK, orderPrefix), 10, 64)
		}
		if err != nil {
			return 0, fmt.Errorf("count the commands of sandbox %s: %w", id, err)
		}
	}
	return last, nil
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
	o, err := q.order(ctx, id, out.N)
	if err != nil {
		return "", out, err
	}
	if q.table.Exclusive() {
		q.tell(id, out) // whoever waits need not wait for the row
	}
	first, err = q.settle(ctx, id, out)
	return o.Launched, first, err
}

// order reads an order that was given.
func (q *Queue) order(ctx context.Context, id string, n int64) (o order, err error) {
	q.mu.Lock()
	fresh := false
	if b := q.boxes[id]; b != nil {
		o, fresh = b.fresh[n]
	}
	q.mu.Unlock()
	if fresh {
		return o, nil
	}
	items, err := q.table.Get(ctx, orderKey(id, n))
	switch {
	case err != nil:
	case !items[0].Exists():
		return o, ErrNoOrder
	default:
		err = unpack(items[0].Body, &o)
	}
	if err != nil {
		err = fmt.Errorf("read command %d of sandbox %s: %w", n, id, err)
	}
	return o, err
}

// settle writes an outcome if there is none, and returns the one there is.
func (q *Queue) settle(ctx context.Context, id string, out wire.Outcome) (wire.Outcome, error) {
	_, err := q.table.Put(ctx, table.Op{Key: outcomeKey(id, out.N), Body: table.Pack(session.MarshalJSON(out)), If: table.IfAbsent(), Expires: q.o.Now().Add(keep)})
	if errors.Is(err, table.ErrCondition) {
		q.written(id, out.N)
		first, _, err := q.outcome(ctx, id, out.N)
		return first, err
	}
	if err != nil {
		return out, fmt.Errorf("note the outcome of command %d of sandbox %s: %w", out.N, id, err)
	}
	q.written(id, out.N)
	return out, nil
}

// written wakes whoever waits for an outcome that is a row now.
func (q *Queue) written(id string, n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b := q.boxes[id]; b != nil {
		delete(b.told, n)
		b.wake(n)
	}
}

// wake wakes whoever waits for an outcome. The caller holds mu.
func (b *box) wake(n int64) {
	for _, w := range b.waiters[n] {
		close(w)
	}
	delete(b.waiters, n)
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
