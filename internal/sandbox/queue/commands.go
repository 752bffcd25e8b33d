package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// Exec is [sandbox.Driver]'s for a sandbox with a sandboxd.
func (q *Queue) Exec(ctx context.Context, id string, c sandbox.Command) (sandbox.Result, error) {
	b := q.hold(id)
	defer q.release(id, b)
	n, err := q.give(context.WithoutCancel(ctx), id, order{Order: wire.Order{Command: c.Command, Stdin: c.Stdin, TimeoutMS: c.Timeout.Milliseconds(), Watched: c.Output != nil}})
	if err != nil {
		return sandbox.Result{}, err
	}
	if c.Output != nil {
		q.mu.Lock()
		b.outputs[n] = c.Output
		q.mu.Unlock()
		defer func() {
			q.mu.Lock()
			delete(b.outputs, n)
			q.mu.Unlock()
		}()
	}
	return q.await(ctx, id, b, n, c.Timeout, q.watch(id, n, c.Output))
}

// Launch is [sandbox.Driver]'s.
func (q *Queue) Launch(ctx context.Context, id string, c sandbox.Command) error {
	a, _, err := q.agent(ctx, id)
	if err == nil && a.Ended {
		err = sandbox.ErrGone
	}
	if err != nil {
		return err
	}
	_, err = q.give(ctx, id, order{Order: wire.Order{Command: c.Command, Stdin: c.Stdin, TimeoutMS: c.Timeout.Milliseconds()}, Launched: c.ID})
	return err
}

// Follow is [sandbox.Driver]'s.
func (q *Queue) Follow(ctx context.Context, id string, c sandbox.Command) (sandbox.Result, error) {
	n, err := q.launched(ctx, id, c.ID)
	if err != nil {
		return sandbox.Result{}, err
	}
	b := q.hold(id)
	defer q.release(id, b)
	// A command that nobody waits for any more runs on.
	return q.awaitOutcome(ctx, id, b, n, c.Timeout-q.o.Now().Sub(c.Started), &watch{})
}

// Kill is [sandbox.Driver]'s.
func (q *Queue) Kill(ctx context.Context, id, command string) error {
	n, err := q.launched(ctx, id, command)
	if errors.Is(err, sandbox.ErrNoCommand) {
		return nil
	}
	if err == nil {
		err = q.kill(ctx, id, n)
	}
	return err
}

func (q *Queue) kill(ctx context.Context, id string, n int64) error {
	_, err := q.give(ctx, id, order{Order: wire.Order{Kill: n}})
	return err
}

// await waits for the outcome of a command, and kills it when ctx ends first.
func (q *Queue) await(ctx context.Context, id string, b *box, n int64, timeout time.Duration, w *watch) (sandbox.Result, error) {
	res, err := q.awaitOutcome(ctx, id, b, n, timeout, w)
	if err == nil || ctx.Err() == nil {
		return res, err
	}
	live := context.WithoutCancel(ctx)
	if _, err := q.settle(live, id, wire.Outcome{N: n, Error: "the caller went away: " + context.Cause(ctx).Error()}); err != nil {
		return res, err
	}
	return res, errors.Join(err, q.kill(live, id, n))
}

// awaitOutcome waits for an outcome. A command whose time is long over counts as
// timed out: the sandbox may be cut off, and nobody should wait for ever.
func (q *Queue) awaitOutcome(ctx context.Context, id string, b *box, n int64, timeout time.Duration, w *watch) (sandbox.Result, error) {
	overdue, cancel := context.WithTimeoutCause(ctx, max(timeout, 0)+q.o.Grace, errOverdue)
	defer cancel()
	done := make(chan struct{})
	q.mu.Lock()
	b.waiters[n] = append(b.waiters[n], done)
	q.mu.Unlock()
	defer q.forget(b, n, done)
	for poll := q.o.Poll; ; poll = min(2*poll, 20*q.o.Poll) {
		q.mu.Lock()
		changed := b.changed
		q.mu.Unlock()
		out, there, err := q.known(ctx, id, b, n)
		if err != nil {
			return sandbox.Result{}, err
		}
		// Output is told before the outcome: what there is of it is here by now.
		came, err := w.look(ctx)
		switch {
		case there:
			return result(out)
		case err != nil:
			return sandbox.Result{}, err
		case came:
			poll = q.o.Poll
		}
		err = q.wait(overdue, done, changed, poll)
		if errors.Is(err, errOverdue) {
			out, err = q.settle(context.WithoutCancel(ctx), id, wire.Outcome{N: n, Result: &sandbox.Result{ExitCode: 137, TimedOut: true}})
			if err != nil {
				return sandbox.Result{}, err
			}
			_ = q.kill(context.WithoutCancel(ctx), id, n) // should it still run
			return result(out)
		}
		if err != nil {
			return sandbox.Result{}, err
		}
	}
}

// forget takes a waiter off. What was told to it is kept for the other ones.
func (q *Queue) forget(b *box, n int64, done chan struct{}) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if b.waiters[n] = slices.DeleteFunc(b.waiters[n], func(w chan struct{}) bool { return w == done }); len(b.waiters[n]) == 0 {
		delete(b.waiters, n)
	}
}

// known looks for an outcome, in memory first.
func (q *Queue) known(ctx context.Context, id string, b *box, n int64) (out wire.Outcome, there bool, err error) {
	q.mu.Lock()
	out, there = b.told[n]
	q.mu.Unlock()
	if there {
		return out, true, nil
	}
	out, there, err = q.outcome(ctx, id, n)
	if err == nil && !there {
		out, there, err = q.settleEnded(ctx, id, n)
	}
	return out, there, err
}

var errOverdue = errors.New("the outcome of the command is overdue")

// settleEnded gives an order the outcome that it would have got, had it been
// there when its sandbox ended.
func (q *Queue) settleEnded(ctx context.Context, id string, n int64) (wire.Outcome, bool, error) {
	a, _, err := q.agent(ctx, id)
	if err != nil || !a.Ended {
		return wire.Outcome{}, false, err
	}
	out, err := q.settle(ctx, id, wire.Outcome{N: n, Error: sandbox.ErrGone.Error()})
	return out, true, err
}

func result(out wire.Outcome) (sandbox.Result, error) {
	switch {
	case out.Error == sandbox.ErrGone.Error():
		return sandbox.Result{}, sandbox.ErrGone
	case out.Error != "":
		return sandbox.Result{}, &sandbox.RunError{Detail: out.Error}
	case out.Result == nil:
		return sandbox.Result{}, fmt.Errorf("command %d has neither a result nor an error", out.N)
	}
	return *out.Result, nil
}
