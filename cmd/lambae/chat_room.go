package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/lambae/lambae/sdk/lambae"
)

// room is the session the user is in, and what others do there.
type room struct {
	session *lambae.Session
	feed    *feed
	tools   []lambae.ClientTool // declared in it
	cancel  context.CancelFunc
	done    chan struct{}
}

// close stops watching.
func (r *room) close() {
	r.cancel()
	<-r.done
}

// enter goes into a session, a new one for an empty id, and out of the one
// before.
func (c *chat) enter(ctx context.Context, id string) error {
	session, err := c.session(ctx, id)
	if err != nil {
		return err
	}
	next := &room{session: session, feed: newFeed(c.view.others), done: make(chan struct{})}
	c.view.note(title(session))
	since, err := c.recall(ctx, next, id != "")
	if err != nil {
		return err
	}
	if next.feed.closed() {
		c.view.note(endedNote)
	} else if err := c.settle(ctx, next, id == ""); err != nil {
		return err
	}
	if c.room != nil {
		c.room.close()
	}
	c.room = next
	watching, cancel := context.WithCancel(ctx)
	next.cancel = cancel
	go c.watch(watching, next, since)
	return nil
}

func (c *chat) session(ctx context.Context, id string) (*lambae.Session, error) {
	if id != "" {
		return c.app.enter(ctx, c.client, c.hasKey, c.named, id)
	}
	if !c.hasKey {
		return nil, c.app.errNoClientKey()
	}
	session, err := c.client.Open(ctx, &lambae.OpenRequest{ClientVersion: userAgent()})
	if err != nil {
		return nil, err
	}
	return session, c.app.home().rememberSession(session.ID, session.Key)
}

func title(session *lambae.Session) string {
	if session.Profile == nil {
		return "session " + session.ID
	}
	return fmt.Sprintf("session %s, profile %s (%s %s)", session.ID,
		session.Profile.Name, session.Profile.Provider.Provider, session.Profile.Provider.Model)
}

// shownHistory is how many messages of before are shown.
const shownHistory = 10

// recall reads what was said before and where to go on from; it shows the end
// of it to who comes back.
func (c *chat) recall(ctx context.Context, r *room, back bool) (since string, err error) {
	if back && !c.history {
		return "", nil
	}
	var messages []lambae.Event
	for event, err := range r.session.Events(ctx) {
		if err != nil {
			return "", err
		}
		since = event.ID
		switch event.Type {
		case lambae.EventClientMessage, lambae.EventServerMessage:
			messages = append(messages, event)
		case lambae.EventSessionClose:
			r.feed.ended()
		}
	}
	if hidden := len(messages) - shownHistory; hidden > 0 {
		c.view.note(fmt.Sprintf("(%s before; /history shows all)", count(hidden, "message")))
		messages = messages[hidden:]
	}
	for _, message := range messages {
		c.view.past(message)
	}
	return since, nil
}

// settle makes the user a driver and declares the chat's tools.
func (c *chat) settle(ctx context.Context, r *room, fresh bool) error {
	err := r.session.RegisterDriver(ctx)
	if refused, ok := errors.AsType[*lambae.RPCError](err); ok && refused.Code == lambae.CodeSession {
		r.feed.ended()
		c.view.note(endedNote)
		return nil
	}
	if err != nil || fresh && len(c.tools) == 0 {
		return err
	}
	return c.declare(ctx, r)
}

const endedNote = "The session has ended: it can be read, not continued. /new opens another."

// declare tells the server of the tools that the profile allows. Which those
// are is only known to who has just opened or joined; others find out.
func (c *chat) declare(ctx context.Context, r *room) error {
	session, allowed := r.session, []lambae.ClientTool{}
	for _, tool := range c.tools {
		if session.Profile != nil {
			if slices.Contains(session.Profile.AllowedTools, tool.Name) {
				allowed = append(allowed, tool)
			}
			continue
		}
		err := session.UpdateClientTools(ctx, lambae.Declarations(append(allowed, tool)))
		if refused, ok := errors.AsType[*lambae.RPCError](err); ok && refused.Code == lambae.CodeToolNotAllowed {
			continue
		}
		if err != nil {
			return err
		}
		allowed = append(allowed, tool)
	}
	r.tools = allowed
	return session.UpdateClientTools(ctx, lambae.Declarations(allowed))
}

// watch shows what others do until the room is left or the session ends.
func (c *chat) watch(ctx context.Context, r *room, since string) {
	defer close(r.done)
	outage := outage{tell: c.view.note}
	for event, err := range r.session.Subscribe(ctx, &lambae.SubscribeOptions{Since: since, OnLost: outage.lost}) {
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			c.view.failure("cannot see what others do any more: " + explain(err))
			return
		}
		outage.over()
		r.feed.event(event)
	}
}
