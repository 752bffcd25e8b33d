package main

import (
	"sync"

	"github.com/lambae/lambae/sdk/lambae"
)

// feed sifts the events of a subscription: the user sees their own turn as the
// answer to their message, everything else as others' doing, nothing twice.
//
// Others may even use the same client key, so that only event ids tell who did
// what. The user's own are known when the turn has ended, but for the first:
// their message, which is known by its text. Before it all events are others';
// from there to the end of the turn the gate is the user's, and events are held
// back until it is clear whose they are.
type feed struct {
	show func(event lambae.Event, own bool) // own: by the same client key

	mu      sync.Mutex
	over    bool            // the session has ended
	seen    map[string]bool // ids of the own turns that the subscription will still bring
	keyID   string          // the user's, once an own event told it
	waiting bool            // a message is on its way
	begun   bool            // and its turn has begun
	text    string          // of the message
	held    []lambae.Event
}

func newFeed(show func(event lambae.Event, own bool)) *feed {
	return &feed{show: show, seen: map[string]bool{}}
}

// closed reports whether the session has ended as far as is known.
func (f *feed) closed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.over
}

// ended says that the session has ended.
func (f *feed) ended() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
}

// begin says that the user sends a message.
func (f *feed) begin(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting, f.begun, f.text = true, false, text
}

// own takes an event that came as part of the user's own turn.
func (f *feed) own(event lambae.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.keyID = event.ClientKeyID
	f.seen[event.ID] = true
}

// end says that the turn has ended, with a result unless it failed.
func (f *feed) end(result *lambae.Result) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if result != nil {
		for _, event := range result.Events {
			f.seen[event.ID] = true
		}
	}
	f.waiting, f.begun = false, false
	for _, event := range f.held {
		f.pass(event)
	}
	f.held = nil
}

// event takes an event of the subscription.
func (f *feed) event(event lambae.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if event.Type == lambae.EventSessionClose {
		f.over = true
	}
	switch {
	case f.waiting && !f.begun && f.mine(event):
		f.begun = true
	case f.begun:
		f.held = append(f.held, event)
	default:
		f.pass(event)
	}
}

// mine recognises the message that is on its way.
func (f *feed) mine(event lambae.Event) bool {
	if event.Type != lambae.EventClientMessage || f.keyID != "" && event.ClientKeyID != f.keyID {
		return false
	}
	payload, err := event.Decode()
	message, ok := payload.(*lambae.Message)
	return err == nil && ok && message.Content.Text() == f.text
}

// pass shows an event unless the user has seen it.
func (f *feed) pass(event lambae.Event) {
	if f.seen[event.ID] {
		delete(f.seen, event.ID) // a subscription brings it once
		return
	}
	f.show(event, event.ClientKeyID == f.keyID)
}
