package queue

import (
	"context"
	"fmt"
	"time"

	"github.com/lambae/lambae/internal/sandbox"
	"github.com/lambae/lambae/internal/sandbox/wire"
	"github.com/lambae/lambae/internal/session"
	"github.com/lambae/lambae/internal/table"
)

const outputPrefix = "OUT#"

// keepOutput is how long a piece of output waits for whoever watches the command.
const keepOutput = time.Hour

func outputKey(id string, n, seq int64) table.Key {
	return table.Key{PK: session.SandboxPK(id), SK: fmt.Sprintf("%s%012d#%012d", outputPrefix, n, seq)}
}

// Output passes on a piece of a watched command's output: at once where no other
// process could be the one that waits for it, and through a row where one could.
// It takes what a result would keep of a stream, and drops the rest, and what
// nobody asked for.
func (q *Queue) Output(ctx context.Context, id string, out wire.Output) error {
	var kept sandbox.Buffer
	_, _ = kept.Write([]byte(out.Text))
	out.Text, _ = kept.Text()
	if q.table.Exclusive() {
		q.mu.Lock()
		var to func(stream, text string)
		if b := q.boxes[id]; b != nil {
			to = b.outputs[out.N]
		}
		q.mu.Unlock()
		if to != nil {
			to(out.Stream, out.Text)
		}
		return nil
	}
	o, err := q.order(ctx, id, out.N)
	if err != nil || !o.Watched {
		return err
	}
	_, err = q.table.Put(ctx, table.Op{
		Key: outputKey(id, out.N, out.Seq), Body: table.Pack(session.MarshalJSON(out)), Expires: q.o.Now().Add(keepOutput),
	})
	if err != nil {
		return fmt.Errorf("pass on output of command %d of sandbox %s: %w", out.N, id, err)
	}
	return nil
}

// watch is the output of a command that comes through rows. The zero watch has none.
type watch struct {
	queue  *Queue
	id     string
	n      int64
	seq    int64 // of the last piece that was seen
	output func(stream, text string)
}

// watch makes a watch, for a table that others have too.
func (q *Queue) watch(id string, n int64, output func(stream, text string)) *watch {
	if output == nil || q.table.Exclusive() {
		return &watch{}
	}
	return &watch{queue: q, id: id, n: n, output: output}
}

// look passes on what has come since the last look, and reports whether anything had.
func (w *watch) look(ctx context.Context) (came bool, err error) {
	if w.output == nil {
		return false, nil
	}
	r := table.Range{PK: session.SandboxPK(w.id), From: outputKey(w.id, w.n, w.seq+1).SK, To: outputKey(w.id, w.n+1, 0).SK}
	for it, err := range w.queue.table.Query(ctx, r) {
		var out wire.Output
		if err == nil {
			err = unpack(it.Body, &out)
		}
		if err != nil {
			return came, fmt.Errorf("read output of command %d of sandbox %s: %w", w.n, w.id, err)
		}
		w.seq, came = out.Seq, true
		w.output(out.Stream, out.Text)
	}
	return came, nil
}
