package claude

import (
	"io"
	"sync"
)

// messageQueue takes messages from the reader to whoever iterates. It has no
// bound: a consumer may wait for a control response inside its loop, and that
// response comes after the messages it has not taken yet.
type messageQueue struct {
	mu       sync.Mutex
	messages []Message
	ready    chan struct{} // holds a token while there is something to see
	finished bool
	err      error
}

func newMessageQueue() *messageQueue { return &messageQueue{ready: make(chan struct{}, 1)} }

func (q *messageQueue) push(m Message) {
	q.mu.Lock()
	if !q.finished {
		q.messages = append(q.messages, m)
	}
	q.mu.Unlock()
	q.wake()
}

// finish ends the queue; the first call counts. With drop, messages that were
// not taken yet are discarded.
func (q *messageQueue) finish(err error, drop bool) {
	q.mu.Lock()
	if !q.finished {
		q.finished, q.err = true, err
		if drop {
			q.messages = nil
		}
	}
	q.mu.Unlock()
	q.wake()
}

func (q *messageQueue) wake() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// pop returns the next message. After the last one it returns the queue's
// error once and io.EOF from then on.
func (q *messageQueue) pop() (Message, error) {
	for {
		q.mu.Lock()
		if len(q.messages) > 0 {
			m := q.messages[0]
			q.messages[0] = nil
			q.messages = q.messages[1:]
			q.mu.Unlock()
			return m, nil
		}
		if q.finished {
			err := q.err
			q.err = nil
			q.mu.Unlock()
			q.wake() // others may wait too
			if err == nil {
				err = io.EOF
			}
			return nil, err
		}
		q.mu.Unlock()
		<-q.ready
	}
}
