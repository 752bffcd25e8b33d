package claude

import (
	"context"
	"errors"
	"io"
	"iter"
	"runtime"
)

// Stream is one running query: messages come out of it, and control methods
// reach into it while it runs. All methods may be called at any time from any
// goroutine; only one goroutine should take messages.
//
// A stream holds a process. It ends when the messages are read to their end,
// when a loop over Messages is left, on Close, and when the query's context is
// done; a stream that is simply forgotten is ended by the garbage collector.
type Stream struct{ s *session }

func newStream(s *session) *Stream {
	stream := &Stream{s: s}
	runtime.AddCleanup(stream, func(s *session) { go s.close() }, s)
	return stream
}

// Query starts claude with a prompt. It returns at once; whatever goes wrong
// is the error that ends the messages. Nil options are the defaults.
//
// When ctx is done the query ends with an error that matches [ErrAborted].
func Query(ctx context.Context, prompt Prompt, opts *Options) *Stream {
	s := startProcess(ctx, opts)
	s.begin(prompt)
	return newStream(s)
}

// Messages yields the messages of the query until it ends. Leaving the loop
// early closes the stream. An error is the last thing it yields.
func (st *Stream) Messages() iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		defer runtime.KeepAlive(st)
		for {
			m, err := st.Next()
			if err == io.EOF { // itself: a broken connection may have one in its chain
				return
			}
			if !yield(m, err) {
				st.Close()
				return
			}
			if err != nil {
				return
			}
		}
	}
}

// Turn yields the messages up to the next result, which is the last it yields.
// The stream stays open when the loop is left, early or not: Turn is for
// conversations, where [Stream.Send] follows.
func (st *Stream) Turn() iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		defer runtime.KeepAlive(st)
		for {
			m, err := st.Next()
			if err == io.EOF { // itself: a broken connection may have one in its chain
				return
			}
			if !yield(m, err) || err != nil {
				return
			}
			if _, last := m.(*ResultMessage); last {
				return
			}
		}
	}
}

// Next returns the next message. It returns io.EOF after the last one; any
// other error ends the stream as well.
func (st *Stream) Next() (Message, error) {
	defer runtime.KeepAlive(st)
	m, err := st.s.queue.pop()
	if _, result := m.(*ResultMessage); result {
		// Whoever sees a result may rely on the turn being in the store, or on
		// a mirror_error message that follows.
		st.s.flush(st.s.ctx)
	}
	return m, err
}

// Result reads the stream to its end and returns the last result. It is the
// short way for a caller that wants nothing in between. A query that ends
// without a result is an error; a result that reports a failure is not.
func (st *Stream) Result() (*ResultMessage, error) {
	var result *ResultMessage
	for m, err := range st.Messages() {
		if err != nil {
			return result, err
		}
		if r, ok := m.(*ResultMessage); ok {
			result = r
		}
	}
	if result == nil {
		return nil, errors.New("claude ended without a result")
	}
	return result, nil
}

// Send gives claude one more message. It does not wait for the answer. While
// a turn runs, the message waits for it to end or joins it, as claude decides.
func (st *Stream) Send(ctx context.Context, m UserMessage) error {
	defer runtime.KeepAlive(st)
	if err := st.s.ready(ctx); err != nil {
		return err
	}
	return st.s.input.send(m)
}

// CloseInput says that no more messages follow. The stream ends once what was
// sent has its result.
func (st *Stream) CloseInput() error {
	defer runtime.KeepAlive(st)
	if err := st.s.ready(st.s.ctx); err != nil {
		return err
	}
	st.s.input.done()
	return nil
}

// Close ends the query. In order: [Options.Cleanup] runs, pending entries are
// handed to the session store (best effort), pending requests in both
// directions are rejected, the MCP servers' sessions close, claude's input
// closes, and claude ends; SIGTERM follows after two seconds and SIGKILL after
// five more. Close returns after two seconds at the latest, see [Stream.Done].
//
// Its error is what a server said to the deletion of its session, see
// [DirectConnectOptions]; how claude itself ended is no concern of Close.
func (st *Stream) Close() error {
	defer runtime.KeepAlive(st)
	st.s.close()
	select {
	case <-st.s.done:
		var failed *DirectConnectError
		if errors.As(st.s.exit, &failed) {
			return failed
		}
	default:
	}
	return nil
}

// Done is closed when claude has ended and everything it needed is gone.
func (st *Stream) Done() <-chan struct{} { return st.s.done }
