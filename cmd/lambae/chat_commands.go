package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/lambae/lambae/sdk/lambae"
)

// slash is one command of the chat.
type slash struct {
	name, args, summary string
	run                 func(ctx context.Context, args string) error
}

func (c *chat) commands() []slash {
	return []slash{
		{"help", "", "show this list", c.showHelp},
		{"new", "", "open another session", func(ctx context.Context, _ string) error { return c.enter(ctx, "") }},
		{"join", "<session id>", "go into another session", c.joinAnother},
		{"session", "", "show which session this is", c.showSession},
		{"who", "", "list who drives the session", c.showDrivers},
		{"history", "", "show everything that was said", c.showHistory},
		{"tools", "", "list the tools of this chat that the profile allows", c.showTools},
		{"sandbox", "start <image> | run <command> | stop", "use the session's remote sandbox", c.sandbox},
		{"close", "", "end the session for everybody, and leave", c.closeSession},
		{"quit", "", "leave; the session stays open", func(context.Context, string) error { return errQuit }},
	}
}

func (c *chat) command(ctx context.Context, line string) error {
	name, args, _ := strings.Cut(line[1:], " ")
	var names []string
	for _, command := range c.commands() {
		if command.name == name {
			return command.run(ctx, strings.TrimSpace(args))
		}
		names = append(names, command.name)
	}
	return fmt.Errorf("no command /%s%s; /help lists them, // starts a message with a slash", name, didYouMean(name, names, "/"))
}

func (c *chat) showHelp(context.Context, string) error {
	var rows [][]string
	for _, command := range c.commands() {
		rows = append(rows, []string{"/" + strings.TrimSpace(command.name+" "+command.args), command.summary})
	}
	var text strings.Builder
	_ = aligned(&text, rows) // into memory
	c.view.note(strings.TrimRight(text.String(), "\n"))
	return nil
}

func (c *chat) joinAnother(ctx context.Context, id string) error {
	if id == "" {
		return usagef("/join needs a session id (ses_…)")
	}
	return c.enter(ctx, id)
}

func (c *chat) showSession(context.Context, string) error {
	c.view.note(title(c.room.session))
	c.view.note("Others come in with: lambae chat " + c.room.session.ID)
	return nil
}

func (c *chat) showDrivers(ctx context.Context, _ string) error {
	drivers, err := c.room.session.Participants(ctx)
	if err != nil {
		return err
	}
	c.view.note(strings.Join(drivers, "\n"))
	return nil
}

func (c *chat) showHistory(ctx context.Context, _ string) error {
	for event, err := range c.room.session.Events(ctx) {
		if err != nil {
			return err
		}
		if event.Type == lambae.EventClientMessage || event.Type == lambae.EventServerMessage {
			c.view.past(event)
		}
	}
	return nil
}

func (c *chat) showTools(context.Context, string) error {
	if len(c.room.tools) == 0 {
		c.view.note("None. A profile allows them with: lambae admin profile edit <name> --tool get_current_time,ask_user")
		return nil
	}
	for _, tool := range c.room.tools {
		c.view.note(tool.Name + ": " + tool.Description)
	}
	c.view.note("The model may call these; they run in this program, on your machine.")
	return nil
}

func (c *chat) sandbox(ctx context.Context, args string) error {
	if err := c.room.session.RegisterDriver(ctx); err != nil {
		return err
	}
	verb, rest, _ := strings.Cut(args, " ")
	rest = strings.TrimSpace(rest)
	switch {
	case verb == "start" && rest != "":
		started, err := c.room.session.StartRemoteSandbox(ctx, rest)
		if err != nil {
			return err
		}
		c.view.note("sandbox " + started.SandboxID + " runs " + started.Image)
	case verb == "run" && rest != "":
		result, err := c.room.session.ExecRemoteSandbox(ctx, rest)
		if err != nil {
			return err
		}
		c.view.note(describeExec(&lambae.SandboxResponsePayload{Result: result}))
	case verb == "stop" && rest == "":
		stopped, err := c.room.session.StopRemoteSandbox(ctx)
		if err != nil {
			return err
		}
		c.view.note("sandbox " + stopped.SandboxID + " is stopped")
	default:
		return usagef("/sandbox takes start <image>, run <command> or stop")
	}
	return nil
}

func (c *chat) closeSession(ctx context.Context, _ string) error {
	if err := c.room.session.Close(ctx); err != nil {
		return err
	}
	c.room.feed.ended()
	c.view.note("session " + c.room.session.ID + " is closed")
	return errQuit
}
