package claude

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// defaultStartupTimeout is how long Startup waits when the caller says 0.
const defaultStartupTimeout = time.Minute

// Warm is a claude that is up and waits for its prompt.
type Warm struct {
	mu     sync.Mutex
	s      *session
	used   bool
	closed bool
}

// Startup starts claude ahead of its prompt and waits for the whole handshake,
// so that the query itself starts at once. Ctx belongs to the process: when it
// is done, claude ends. A timeout of 0 is a minute.
func Startup(ctx context.Context, opts *Options, timeout time.Duration) (*Warm, error) {
	if timeout <= 0 {
		timeout = defaultStartupTimeout
	}
	s := startProcess(ctx, opts)
	limit, cancel := context.WithTimeoutCause(ctx, timeout,
		fmt.Errorf("claude did not initialize within %s", timeout))
	defer cancel()
	if err := s.ready(limit); err != nil {
		s.close()
		if ctx.Err() != nil && !errors.Is(err, ErrAborted) {
			err = &abortError{cause: context.Cause(ctx)}
		}
		return nil, fmt.Errorf("start up: %w", err)
	}
	w := &Warm{s: s}
	runtime.AddCleanup(w, func(s *session) { go s.closeUnlessStreaming() }, s)
	return w, nil
}

// Query gives the waiting claude its prompt. It can be called once; a second
// call returns [ErrWarmUsed], a call after Close [ErrClosed]. When ctx is done
// the query ends, as it does with Startup's context.
func (w *Warm) Query(ctx context.Context, prompt Prompt) (*Stream, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return nil, ErrClosed
	case w.used:
		return nil, ErrWarmUsed
	}
	w.used = true
	w.s.streaming.Store(true)
	stop := context.AfterFunc(ctx, func() { w.s.abort(context.Cause(ctx)) })
	go func(s *session) {
		<-s.done
		stop()
	}(w.s)
	w.s.begin(prompt)
	return newStream(w.s), nil
}

// Close ends a claude that was not used, as [Stream.Close] does. After Query
// the stream is what to close, and this does nothing.
func (w *Warm) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.used && !w.closed {
		w.s.close()
	}
	w.closed = true
	return nil
}

// closeUnlessStreaming ends the session of a Warm that was forgotten.
func (s *session) closeUnlessStreaming() {
	if !s.streaming.Load() {
		s.close()
	}
}
