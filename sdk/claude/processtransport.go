package claude

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"
)

const stderrTail = 64 << 10

// processTransport speaks with a process through its standard streams.
type processTransport struct {
	process Process
	lines   *lineReader
	done    chan struct{} // closed when the process has ended and err is set
	err     error

	writeMu     sync.Mutex
	inputClosed bool
	closeOnce   sync.Once
	readDone    chan struct{} // closed when stdout has been read to its end
	readOnce    sync.Once
}

func newProcessTransport(process Process, onStderr func([]byte)) *processTransport {
	t := &processTransport{
		process: process, lines: newLineReader(process.Stdout()),
		done: make(chan struct{}), readDone: make(chan struct{}),
	}
	tail := new(tailBuffer)
	stderrDone := make(chan struct{})
	go func() {
		defer close(stderrDone)
		if r := process.Stderr(); r != nil {
			tail.drain(r, onStderr)
		}
	}()
	go func() {
		defer close(t.done)
		err := process.Wait()
		<-stderrDone
		var exit *ExitError
		if errors.As(err, &exit) {
			exit.Stderr = tail.String()
		}
		t.err = err
		go func() { // free the pipes as soon as the reader is through
			<-t.readDone
			if local, ok := process.(*localProcess); ok {
				local.closePipes()
			}
		}()
	}()
	return t
}

func (t *processTransport) ReadLine() ([]byte, error) {
	line, err := t.lines.next()
	if err != nil {
		t.readOnce.Do(func() { close(t.readDone) })
		if errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, os.ErrClosed) {
			err = io.EOF // the process is gone; a grandchild holds the pipe
		}
	}
	return line, err
}

func (t *processTransport) WriteLine(line []byte) error {
	t.writeMu.Lock()
	defer t.writeMu.Unlock()
	if t.inputClosed {
		return ErrInputClosed
	}
	// One write, so that no other line can come between.
	_, err := t.process.Stdin().Write(append(line[:len(line):len(line)], '\n'))
	return err
}

func (t *processTransport) CloseInput() error {
	// A write may hang on a child that does not read; closing the pipe frees
	// it, so this must not wait for the lock first.
	err := t.process.Stdin().Close()
	t.writeMu.Lock()
	t.inputClosed = true
	t.writeMu.Unlock()
	return err
}

func (t *processTransport) Close() error {
	t.closeOnce.Do(func() {
		_ = t.CloseInput()
		go t.end()
	})
	return nil
}

// end makes sure that the process ends.
func (t *processTransport) end() {
	term := time.NewTimer(closeGrace)
	defer term.Stop()
	select {
	case <-t.done:
		return
	case <-term.C:
	}
	_ = t.process.Signal(terminate)
	kill := time.NewTimer(killDelay)
	defer kill.Stop()
	select {
	case <-t.done:
	case <-kill.C:
		_ = t.process.Signal(os.Kill)
	}
}

func (t *processTransport) Wait() error {
	<-t.done
	return t.err
}

// tailBuffer keeps the end of what is written to it.
type tailBuffer struct {
	mu  sync.Mutex
	buf []byte
}

func (b *tailBuffer) drain(r io.Reader, each func([]byte)) {
	chunk := make([]byte, 32<<10)
	for {
		n, err := r.Read(chunk)
		if n > 0 {
			if each != nil {
				each(chunk[:n])
			}
			b.mu.Lock()
			b.buf = append(b.buf, chunk[:n]...)
			if extra := len(b.buf) - stderrTail; extra > 0 {
				b.buf = append(b.buf[:0], b.buf[extra:]...)
			}
			b.mu.Unlock()
		}
		if err != nil {
			return
		}
	}
}

func (b *tailBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.buf)
}
