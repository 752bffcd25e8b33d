package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

const (
	// closeWait is how long Close waits for the process to end.
	closeWait = 2 * time.Second
	// closeFlush is the part of it that entries on their way to the store get.
	closeFlush = 500 * time.Millisecond
)

// session is one running claude: the part of a Stream that goroutines hold. It
// never refers to the Stream, so that a forgotten Stream can be collected and
// its session ended.
type session struct {
	opts      *Options
	ctx       context.Context
	cancel    context.CancelCauseFunc
	queue     *messageQueue
	control   *controller
	input     *input
	callbacks *callbacks
	mirror    *mirror // nil without a store

	started     chan struct{} // closed when transport or its error is set
	transport   Transport
	initialized chan struct{} // closed when initErr or initBody is set
	initBody    json.RawMessage
	initErr     error
	initOnce    sync.Once
	done        chan struct{} // closed when everything has ended
	exit        error         // how the transport ended; set before done closes

	streaming atomic.Bool // a Stream refers to it

	closeOnce sync.Once
	failOnce  sync.Once
	failure   error
}

// newSession starts claude; errors show up in the queue. cleanup runs after
// the transport has ended.
func newSession(ctx context.Context, opts *Options, open func(context.Context, *session) (Transport, error)) *session {
	s := &session{
		opts: opts, queue: newMessageQueue(), started: make(chan struct{}),
		initialized: make(chan struct{}), done: make(chan struct{}),
	}
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.control = newController(s.writeLine)
	s.input = newInput(func(m UserMessage) error {
		m.Verbatim = m.Verbatim || opts.VerbatimPrompts
		line, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("encode message: %w", err)
		}
		return s.writeLine(line)
	}, func() { _ = s.transport.CloseInput() })
	request, hooks := opts.initialize()
	s.callbacks = &callbacks{opts: opts, hooks: hooks, mcp: newMCPBridge(opts.MCPServers, s.sendMCP)}
	go s.run(ctx, request, open)
	return s
}

// run is the session's life.
func (s *session) run(ctx context.Context, request initializeRequest, open func(context.Context, *session) (Transport, error)) {
	defer close(s.done)
	stop := context.AfterFunc(ctx, func() { s.abort(context.Cause(ctx)) })
	defer stop()

	err := context.Cause(ctx)
	if err != nil {
		err = &abortError{cause: err}
	} else {
		s.transport, err = open(ctx, s)
	}
	if err == nil {
		close(s.started)
		handshaken := make(chan struct{})
		go func() {
			defer close(handshaken)
			s.handshake(request)
		}()
		err = s.read()
		s.transport.Close() // for a child that closed its output and stays
		s.exit = s.transport.Wait()
		if err = cmp.Or(err, s.exit); err == nil {
			// An answer may have come just before the end: it counts. None will come.
			s.control.close(errEnded)
			<-handshaken
		}
	} else {
		close(s.started)
	}
	s.finish(err)
}

// finish lets go of everything, tells the consumer, and ends.
func (s *session) finish(err error) {
	s.failOnce.Do(func() { s.failure = err })
	s.setInitialized(nil, cmp.Or(s.failure, ErrClosed))
	s.shut(ErrClosed)
	if s.mirror != nil {
		s.mirror.finish() // failures become messages, so before the queue ends
	}
	s.queue.finish(s.failure, false)
}

// shut runs the steps of closing that do not need the process.
func (s *session) shut(reason error) {
	s.closeOnce.Do(func() {
		if s.opts.Cleanup != nil {
			s.opts.Cleanup()
		}
		ctx, cancel := context.WithTimeout(context.Background(), closeFlush)
		s.flush(ctx)
		cancel()
		s.control.close(reason)
		s.cancel(reason)
		s.callbacks.mcp.close()
	})
}

// flush hands pending entries to the store. Before the start there is no
// mirror yet, and nothing to flush.
func (s *session) flush(ctx context.Context) {
	select {
	case <-s.started:
		if s.mirror != nil {
			s.mirror.flush(ctx)
		}
	default:
	}
}

// close ends the session for its caller.
func (s *session) close() {
	deadline := time.NewTimer(closeWait)
	defer deadline.Stop()
	s.failOnce.Do(func() {}) // a closed stream ends without an error
	s.queue.finish(nil, true)
	s.shut(ErrClosed)
	go func() {
		if <-s.started; s.transport != nil {
			s.transport.Close()
		}
	}()
	select {
	case <-s.done:
	case <-deadline.C:
	}
}

// abort ends the session because its context did.
func (s *session) abort(cause error) {
	err := &abortError{cause: cause}
	s.failOnce.Do(func() { s.failure = err })
	s.queue.finish(err, true)
	s.shut(err)
	if <-s.started; s.transport != nil {
		s.transport.Close()
	}
}

// handshake initialises claude.
func (s *session) handshake(request initializeRequest) {
	body, err := s.control.call(s.ctx, request)
	if err == nil {
		err = s.checkInitialized(body)
	}
	if err != nil {
		s.failOnce.Do(func() { s.failure = fmt.Errorf("initialize claude: %w", err) })
	}
	s.setInitialized(body, err)
	if err != nil {
		s.transport.Close()
	}
}

// checkInitialized refuses a claude that ignored options which must not be.
func (s *session) checkInitialized(body json.RawMessage) error {
	applied := func(key string) bool { return gjson.GetBytes(body, key).Bool() }
	if s.opts.MCPOverStdin && len(s.opts.processMCPServers()) > 0 && !applied("mcp_servers_applied") {
		return errors.New("this claude did not take the MCP servers over stdin; update it, or unset Options.MCPOverStdin")
	}
	for _, matchers := range s.opts.Hooks {
		for _, m := range matchers {
			if m.BlockOnFailure && !applied("hook_on_failure_supported") {
				return errors.New("this claude does not support BlockOnFailure on hooks; update it, or unset the option")
			}
		}
	}
	return nil
}

func (s *session) setInitialized(body json.RawMessage, err error) {
	s.initOnce.Do(func() {
		s.initBody, s.initErr = body, err
		close(s.initialized)
	})
}

// ready waits until claude has answered the handshake.
func (s *session) ready(ctx context.Context) error {
	select {
	case <-s.initialized:
		return s.initErr
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// begin sends the prompt once claude is ready.
func (s *session) begin(p Prompt) {
	go func() {
		if s.ready(s.ctx) != nil {
			return
		}
		if p.seq == nil {
			_ = s.input.send(UserText(p.text))
			s.input.done()
			return
		}
		for m := range p.seq {
			if s.input.send(m) != nil || s.ctx.Err() != nil {
				return
			}
		}
		if !p.open {
			s.input.done()
		}
	}()
}

func (s *session) writeLine(line []byte) error {
	<-s.started
	if s.transport == nil {
		return ErrClosed
	}
	return s.transport.WriteLine(line)
}

func (s *session) sendMCP(ctx context.Context, server string, message json.RawMessage) error {
	_, err := s.control.call(ctx, map[string]any{"subtype": "mcp_message", "server_name": server, "message": message})
	return err
}

// read takes what claude writes apart until it ends.
func (s *session) read() error {
	for {
		line, err := s.transport.ReadLine()
		if err == io.EOF { // a broken connection may have one in its chain
			return nil
		}
		if err != nil {
			return fmt.Errorf("read from claude: %w", err)
		}
		s.take(line)
	}
}

// take handles one line. Whatever is not a JSON object is noise that something
// printed: it is dropped.
func (s *session) take(line []byte) {
	message, err := decodeMessage(line)
	if err != nil {
		return
	}
	switch message.MessageType() {
	case "control_response":
		s.control.answered(line)
	case "control_request":
		s.serve(line)
	case "control_cancel_request":
		s.control.withdrawn(line)
	case "transcript_mirror":
		if s.mirror != nil {
			s.mirror.frame(line)
		}
	case "keep_alive":
	default:
		if r, ok := message.(*ResultMessage); ok {
			s.input.settle(r)
		}
		s.queue.push(message)
	}
}

// serve answers a request of claude on a goroutine of its own.
func (s *session) serve(line []byte) {
	var req controlRequest
	if json.Unmarshal(line, &req) != nil {
		return
	}
	answer, err := s.callbacks.begin(req.RequestID, req.Request)
	if err != nil {
		go func() { _ = s.control.respond(req.RequestID, nil, err) }()
		return
	}
	if answer == nil {
		return
	}
	ctx, done := s.control.serve(s.ctx, req.RequestID)
	go func() {
		defer done()
		body, err := answer(ctx)
		if errors.Is(context.Cause(ctx), errWithdrawn) {
			return // nobody waits for it
		}
		_ = s.control.respond(req.RequestID, body, err)
	}()
}
