package agent

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/shell"
	"github.com/lambae/lambae/internal/sandbox/wire"
)

// runs are the commands that run, and the process groups that outlive theirs.
type runs struct {
	mu     *sync.Mutex
	stop   map[int64]context.CancelCauseFunc
	groups map[int]bool // with a process that still has the output open
	work   *sync.WaitGroup
	ended  bool
}

func newRuns() runs {
	return runs{mu: &sync.Mutex{}, stop: map[int64]context.CancelCauseFunc{}, groups: map[int]bool{}, work: &sync.WaitGroup{}}
}

var errKilled = errors.New("the command was killed")

// end kills everything.
func (r *runs) end() {
	r.mu.Lock()
	r.ended = true
	for _, stop := range r.stop {
		stop(errKilled)
	}
	for g := range r.groups {
		shell.KillGroup(g)
	}
	r.mu.Unlock()
	r.work.Wait()
}

// begin does one order, in the background.
func (a *Agent) begin(ctx context.Context, o wire.Order) {
	r := &a.runs
	r.mu.Lock()
	defer r.mu.Unlock()
	if o.Kill != 0 {
		if stop := r.stop[o.Kill]; stop != nil {
			stop(errKilled)
		}
		return
	}
	own, stop := context.WithCancelCause(ctx)
	r.stop[o.N] = stop
	r.work.Go(func() {
		out := a.run(own, o)
		r.mu.Lock()
		delete(r.stop, o.N)
		r.mu.Unlock()
		stop(nil)
		a.tell(ctx, out)
	})
}

// run runs a command to its end.
func (a *Agent) run(ctx context.Context, o wire.Order) wire.Outcome {
	var stdout, stderr sandbox.Buffer
	c := shell.Command{
		Args: []string{"sh", "-c", o.Command}, Dir: a.o.Boot.Dir, Env: a.o.Env, Stdin: []byte(o.Stdin),
		Timeout: time.Duration(o.TimeoutMS) * time.Millisecond, Stdout: &stdout, Stderr: &stderr,
	}
	if o.Watched {
		w := a.watch(ctx, o.N)
		defer w.flush()
		c.Stdout = both{&stdout, sandbox.OutputWriter(w.say, "stdout")}
		c.Stderr = both{&stderr, sandbox.OutputWriter(w.say, "stderr")}
	}
	group := 0
	c.Started = func(g int) {
		group = g
		a.runs.note(g, true)
	}
	c.Over = func() { a.runs.note(group, false) }
	exit, err := shell.Run(ctx, c)
	out := wire.Outcome{N: o.N}
	switch {
	case errors.Is(err, errKilled):
		exit.Code, err = 137, nil
	case err != nil:
		out.Error = err.Error()
		return out
	}
	r := sandbox.Result{ExitCode: exit.Code, TimedOut: exit.TimedOut}
	var cutOut, cutErr bool
	r.Stdout, cutOut = stdout.Text()
	r.Stderr, cutErr = stderr.Text()
	r.Truncated = cutOut || cutErr
	out.Result = &r
	return out
}

func (r *runs) note(group int, open bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !open {
		delete(r.groups, group)
		return
	}
	r.groups[group] = true
	if r.ended {
		shell.KillGroup(group)
	}
}

// tell tells an outcome until the server has it.
func (a *Agent) tell(ctx context.Context, out wire.Outcome) {
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := a.call(ctx, http.MethodPost, "/results", a.token, out, nil)
		if err == nil || ctx.Err() != nil || errors.Is(err, ErrUnwanted) {
			return
		}
		a.o.Logger.Warn("result not told, trying again", "command", out.N, "error", err)
		if pause(ctx, jitter(wait)) != nil {
			return
		}
	}
}

// both writes to two writers, neither of which fails.
type both struct {
	one, other interface{ Write([]byte) (int, error) }
}

func (b both) Write(p []byte) (int, error) {
	_, _ = b.one.Write(p)
	return b.other.Write(p)
}

// watcher tells a command's output as it comes. What the network is too slow for
// is left out: the command must not be held up, and its result has it.
type watcher struct {
	mu    sync.Mutex
	queue []wire.Output
	size  int
	wake  chan struct{}
	ended chan struct{} // closed when nothing more will be said
	done  chan struct{} // closed when all is told
}

const (
	// maxUntold is how much output may wait to be told.
	maxUntold = 1 << 20
	// flushFor is how long a command's result may wait for its output.
	flushFor = 2 * time.Second
	// tellEvery is how often output is told at most: a server may have to pass it on
	// through its table.
	tellEvery = 50 * time.Millisecond
)

func (a *Agent) watch(ctx context.Context, n int64) *watcher {
	w := &watcher{wake: make(chan struct{}, 1), ended: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		for seq := int64(0); ; {
			batch, last := w.take()
			for _, out := range join(batch) {
				seq++
				out.N, out.Seq = n, seq
				_ = a.call(context.WithoutCancel(ctx), http.MethodPost, "/output", a.token, out, nil)
			}
			if last {
				return
			}
			if len(batch) == 0 {
				select {
				case <-w.wake:
				case <-w.ended:
				}
				continue
			}
			select {
			case <-time.After(tellEvery):
			case <-w.ended:
			}
		}
	}()
	return w
}

// take takes what is to be told, and says whether nothing will follow.
func (w *watcher) take() (batch []wire.Output, last bool) {
	select {
	case <-w.ended:
		last = true
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	batch = w.queue
	w.queue, w.size = nil, 0
	return batch, last
}

func (w *watcher) say(stream, text string) {
	w.mu.Lock()
	if w.size += len(text); w.size <= maxUntold {
		w.queue = append(w.queue, wire.Output{Stream: stream, Text: text})
	}
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// flush waits until all is told, for a while. Nothing may be said after it.
func (w *watcher) flush() {
	close(w.ended)
	select {
	case <-w.done:
	case <-time.After(flushFor):
	}
}

// join puts pieces of one stream that follow each other together, up to what the
// server passes on at a time.
func join(pieces []wire.Output) (out []wire.Output) {
	for i := 0; i < len(pieces); {
		var b strings.Builder
		stream := pieces[i].Stream
		for b.WriteString(pieces[i].Text); ; b.WriteString(pieces[i].Text) {
			if i++; i == len(pieces) || pieces[i].Stream != stream || b.Len()+len(pieces[i].Text) > sandbox.MaxOutput {
				break
			}
		}
		out = append(out, wire.Output{Stream: stream, Text: b.String()})
	}
	return out
}
