package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/wsstream"
)

// tailOptions are the flags of "lambae tail".
type tailOptions struct {
	clientFlags
	sessionKey, since string
	live, json, full  bool
}

func (a *app) tailCommand() *command {
	c := newCommand("tail", "follow a session's events as they happen")
	c.args = []argument{{"session id", true}}
	c.details = `Without an id it is the session that this machine was last in.

Shows the session's events from its beginning, then new ones as they come, until
the session ends or Ctrl-C. Lost connections are taken up again where they broke.
Times are in UTC.

Reading needs a session key. One that a chat or tail on this machine got before is
used again; otherwise the session is joined with the client key, which shows in it
as a session.join event.`
	var o tailOptions
	c.flags.StringVar(&o.sessionKey, "session-key", "", "session `key` (bae_ses_…) to use instead of joining")
	c.flags.StringVar(&o.since, "since", "", "start after the event with this `id`")
	c.flags.BoolVar(&o.live, "live", false, "skip the past: only events from now on")
	c.flags.BoolVar(&o.json, "json", false, "print events as they are, one JSON object a line")
	c.flags.BoolVar(&o.full, "full", false, "print long texts to their end")
	o.define(c.flags)
	c.check = func() error {
		if o.live && o.since != "" {
			return usagef("--live and --since exclude each other")
		}
		return nil
	}
	c.run = func(ctx context.Context, args []string) error {
		id := append(args, a.home().lastSession())[0]
		if id == "" {
			return usagef("missing <session id>; no session was opened here yet")
		}
		err := a.tail(ctx, o, id)
		if errors.Is(err, context.Canceled) {
			return nil // Ctrl-C is how a tail ends
		}
		return err
	}
	return c
}

func (a *app) tail(ctx context.Context, o tailOptions, id string) error {
	session, err := a.reader(ctx, o, id)
	if err != nil {
		return err
	}
	since := o.since
	if since == "" && !o.live {
		since = lambae.Beginning
	}
	style := a.styleFor(a.stdout)
	outage := outage{tell: func(text string) { fmt.Fprintln(a.stderr, text) }}
	events, err := a.follow(ctx, o, session, &lambae.SubscribeOptions{Since: since, OnLost: outage.lost})
	if err != nil {
		return err
	}
	for event, err := range events {
		if err != nil {
			return err
		}
		outage.over()
		if o.json {
			_, err = fmt.Fprintf(a.stdout, "%s\n", event.Raw())
		} else {
			_, err = fmt.Fprintln(a.stdout, eventLine(event, style, o.full))
		}
		if err != nil {
			return err // the reader of our output is gone
		}
	}
	return nil
}

// follow subscribes over a WebSocket where the server offers one, else over HTTP.
func (a *app) follow(ctx context.Context, o tailOptions, session *lambae.Session, opts *lambae.SubscribeOptions) (iter.Seq2[lambae.Event, error], error) {
	client, _, err := a.client(ctx, o.clientFlags)
	if err != nil {
		return nil, err
	}
	meta, err := client.Meta(ctx)
	if err != nil {
		return nil, err
	}
	if meta.WebSocketURL == "" {
		return session.Subscribe(ctx, opts), nil
	}
	return wsstream.Subscribe(ctx, session, meta.WebSocketURL, &wsstream.Options{SubscribeOptions: *opts}), nil
}

// outage tells once of a lost connection, not with every try to get it back.
type outage struct {
	tell func(text string)
	told bool
}

// lost takes the error of a connection. A server whose time was up is no outage.
func (o *outage) lost(err error) {
	if errors.Is(err, lambae.ErrLagged) || o.told {
		return
	}
	o.told = true
	o.tell("connection lost; trying again")
}

// over says that the connection works.
func (o *outage) over() { o.told = false }

// reader is a session whose events can be read.
func (a *app) reader(ctx context.Context, o tailOptions, id string) (*lambae.Session, error) {
	client, hasKey, err := a.client(ctx, o.clientFlags)
	if err != nil {
		return nil, err
	}
	if o.sessionKey != "" {
		return client.Session(id, o.sessionKey)
	}
	return a.enter(ctx, client, hasKey, o.named(), id)
}

// enter comes back to a session with the key remembered of it, or joins it.
func (a *app) enter(ctx context.Context, client *lambae.Client, hasKey, named bool, id string) (*lambae.Session, error) {
	if key := a.home().sessionKey(id); key != "" && !named {
		session, err := client.Session(id, key)
		if err != nil {
			return nil, err
		}
		_, err = session.Participants(ctx)
		problem, refused := errors.AsType[*lambae.APIError](err)
		if err == nil {
			return session, a.home().rememberSession(id, key) // now the last one
		}
		if !refused || problem.Type != lambae.TypeUnauthorized {
			return nil, err
		}
		// The key is revoked, or of another server: join again.
	}
	if !hasKey {
		return nil, a.errNoClientKey()
	}
	session, err := client.Join(ctx, id, &lambae.OpenRequest{ClientVersion: userAgent()})
	if problem, ok := errors.AsType[*lambae.APIError](err); ok && problem.Type == lambae.TypeSessionClosed {
		return nil, fmt.Errorf("%s, so it cannot be joined; its events are still there: lambae admin session events %s", problem.Detail, id)
	}
	if err != nil {
		return nil, err
	}
	return session, a.home().rememberSession(id, session.Key)
}

// eventLine is an event in an overview.
func eventLine(event lambae.Event, style style, full bool) string {
	limit := maxLine
	if full {
		limit = 0
	}
	said := oneLine(describe(event), limit)
	if event.Type == lambae.EventSessionError || event.Type == lambae.EventSandboxError || event.Type == lambae.EventSubagentFailed {
		said = style.red(said)
	}
	kind := string(event.Type)
	if said != "" {
		kind = fmt.Sprintf("%-26s", kind) // the longest there is
	}
	return strings.TrimRight(strings.Join([]string{
		style.dim(event.CreatedAt.UTC().Format("15:04:05.000")),
		style.cyan(fmt.Sprintf("%-12s", short(event.ClientKeyID))),
		style.bold(kind),
		said,
	}, "  "), " ")
}

// short is enough of an id to tell a few apart: the prefix and 8 characters.
func short(id string) string {
	return id[:min(len(id), len("key_")+8)]
}
