package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/lambae/lambae/sdk/lambae"
)

// chatOptions are the flags of "lambae chat".
type chatOptions struct {
	clientFlags
	noTools, noHistory bool
}

func (a *app) chatCommand() *command {
	c := newCommand("chat", "talk to an agent in the terminal")
	c.args = []argument{{"session id", true}}
	c.details = `Opens a new session, or comes back to one that this or another client opened:
others in it are shown as they speak. A line is a message, a line with / a command;
/help lists them. Ctrl-C stops waiting for an answer, which the server still
finishes; at the prompt it leaves. The session stays open until somebody closes it.

Without a terminal each line of the input is a message; answers go to standard
output, everything else to standard error.

The chat brings two tools of its own, if the profile allows their names:
get_current_time and ask_user. They show what client tools are: the model asks, and
this program, not the server, does the work.`
	var o chatOptions
	o.define(c.flags)
	c.flags.BoolVar(&o.noTools, "no-tools", false, "declare no tools of this program")
	c.flags.BoolVar(&o.noHistory, "no-history", false, "come back without reading what was said before")
	c.handlesInterrupts = true
	c.run = func(ctx context.Context, args []string) error {
		return a.chat(ctx, o, append(args, "")[0])
	}
	return c
}

// chat is one call of "lambae chat".
type chat struct {
	app       *app
	client    *lambae.Client
	hasKey    bool
	named     bool // the key is one that the user gave for this call
	history   bool // read what was said before
	input     input
	view      *view
	interrupt *interrupter
	tools     []lambae.ClientTool // those the chat has; the profile may allow fewer

	room *room // the session the user is in; nil before the first
}

// chat talks until the user leaves; an empty id is a new session.
func (a *app) chat(ctx context.Context, o chatOptions, id string) error {
	client, hasKey, err := a.client(ctx, o.clientFlags)
	if err != nil {
		return err
	}
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	input, view := a.console(ctx)
	c := &chat{
		app: a, client: client, hasKey: hasKey, named: o.named(), history: !o.noHistory,
		input: input, view: view, interrupt: &interrupter{quit: quit},
	}
	go c.interrupt.watch(ctx, a.interrupts)
	if !o.noTools {
		c.tools = chatTools(a.now, c.asker())
	}
	if err := c.enter(ctx, id); err != nil {
		return err
	}
	if input.interactive() {
		view.note("Type a message, /help for commands, Ctrl-D to leave.")
	}
	defer c.leave()
	return c.loop(ctx)
}

// errQuit is the wish to leave.
var errQuit = errors.New("quit")

// loop reads lines until the user leaves.
func (c *chat) loop(ctx context.Context) error {
	for {
		line, err := c.input.line(ctx, c.view.style.bold("you › "))
		if errors.Is(err, io.EOF) || ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read input: %w", err)
		}
		switch err := c.handle(ctx, strings.TrimSpace(line)); {
		case err == nil:
		case errors.Is(err, errQuit) || ctx.Err() != nil:
			return nil
		case !c.input.interactive():
			return err // nobody is there to try again
		default:
			c.view.failure(explain(err))
		}
	}
}

func (c *chat) handle(ctx context.Context, line string) error {
	switch {
	case line == "":
		return nil
	case strings.HasPrefix(line, "//"): // a message that starts with a slash
		return c.say(ctx, line[1:])
	case strings.HasPrefix(line, "/"):
		return c.command(ctx, line)
	}
	return c.say(ctx, line)
}

// say sends a message and shows the answer as it comes.
func (c *chat) say(ctx context.Context, text string) error {
	wait, done := c.interrupt.waiting(ctx)
	defer done()
	c.room.feed.begin(text)
	result, err := c.room.session.Run(wait, lambae.UserMessage(text), &lambae.RunOptions{
		Tools:  c.tools,
		Stream: c.view.style.terminal,
		Hooks: lambae.Hooks{
			OnUpdate: func(_ context.Context, update lambae.Update) error {
				c.show(update)
				return nil
			},
			AfterToolCall: func(_ context.Context, _ lambae.ToolUse, result lambae.ToolResult) error {
				c.view.toolResult(result)
				return nil
			},
		},
	})
	c.view.endAnswer()
	c.room.feed.end(result)
	if err != nil && wait.Err() != nil && ctx.Err() == nil {
		c.view.note("Not waiting any more; what has begun goes on in the server. Ctrl-C again leaves.")
		return nil
	}
	if failed, ok := errors.AsType[*lambae.TurnError](err); ok {
		c.room.feed.ended()
		return fmt.Errorf("%w; the session has ended, /new opens another", failed)
	}
	return err
}

// show shows what happens in the user's own turn.
func (c *chat) show(update lambae.Update) {
	switch {
	case update.Delta != nil && update.Delta.Type == lambae.DeltaText:
		c.view.delta(update.Delta.Text)
	case update.Lost != nil:
		c.view.endAnswer()
		(&outage{tell: c.view.note}).lost(update.Lost)
	case update.Event != nil:
		c.room.feed.own(*update.Event)
		c.view.own(*update.Event)
	}
}

// leave says goodbye. The session needs nobody to go on.
func (c *chat) leave() {
	c.room.close()
	if !c.room.feed.closed() {
		c.view.note("The session stays open. To come back: lambae chat " + c.room.session.ID)
	}
}
