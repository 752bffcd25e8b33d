package claude

import (
	"sync"

	"github.com/google/uuid"
)

// input knows which messages still wait for a result, and so when the last
// word has been said. Claude reads answers to its own requests from the same
// stream, so it must stay open until then.
type input struct {
	write func(m UserMessage) error
	close func()

	mu          sync.Mutex
	outstanding map[string]bool // uuids of messages without a result
	sent        int             // messages that get one
	results     int
	last        bool // no more messages follow
	closed      bool
}

func newInput(write func(UserMessage) error, closeInput func()) *input {
	return &input{write: write, close: closeInput, outstanding: make(map[string]bool)}
}

func (in *input) send(m UserMessage) error {
	if m.UUID == "" {
		m.UUID = uuid.NewString()
	}
	in.mu.Lock()
	if in.last || in.closed {
		in.mu.Unlock()
		return ErrInputClosed
	}
	if !m.AppendOnly {
		in.outstanding[m.UUID] = true
		in.sent++
	}
	in.mu.Unlock()
	return in.write(m)
}

// done says that no more messages follow.
func (in *input) done() {
	in.mu.Lock()
	in.last = true
	in.mu.Unlock()
	in.closeIfSettled()
}

// settle notes a result. Claude names the messages a turn answered, several
// when it merged them; a claude that does not yet is counted by results.
func (in *input) settle(r *ResultMessage) {
	in.mu.Lock()
	in.results++
	for _, id := range r.UserMessageUUIDs {
		delete(in.outstanding, id)
	}
	delete(in.outstanding, r.UserMessageUUID)
	in.mu.Unlock()
	in.closeIfSettled()
}

func (in *input) closeIfSettled() {
	in.mu.Lock()
	settled := in.last && !in.closed && (len(in.outstanding) == 0 || in.results >= in.sent)
	if settled {
		in.closed = true
	}
	in.mu.Unlock()
	if settled {
		in.close()
	}
}
