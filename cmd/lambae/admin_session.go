package main

import (
	"context"
	"fmt"

	"github.com/lambae/lambae/sdk/lambae/admin"
)

func (a *app) sessionListCommand() *command {
	var f listFlags
	var state string
	c := a.adminCommandOf("list", "list sessions, oldest first", func(ctx context.Context, client *admin.Client, _ []string) error {
		return show(a, f, client.Sessions(ctx, state), []string{"ID", "STATE", "PROFILE", "CLIENT", "CREATED", "ENDED"},
			func(s admin.Session) []string {
				return []string{s.ID, s.State, s.ProfileID, orDash(text(s.ClientVersion)), when(&s.CreatedAt, "-"), when(s.ClosedAt, "-")}
			})
	})
	c.flags.StringVar(&state, "state", "", "only sessions in this `state`: open, closed or error")
	f.define(c.flags)
	return c
}

func (a *app) sessionEventsCommand() *command {
	var f listFlags
	var full bool
	c := a.adminCommandOf("events", "show a session's events, oldest first", func(ctx context.Context, client *admin.Client, args []string) error {
		style := a.styleFor(a.stdout)
		shown := 0
		for event, err := range client.SessionEvents(ctx, args[0]) {
			if err != nil {
				return err
			}
			if f.json {
				_, err = fmt.Fprintf(a.stdout, "%s\n", event.Raw())
			} else {
				_, err = fmt.Fprintln(a.stdout, eventLine(event, style, full))
			}
			if err != nil {
				return err
			}
			if shown++; shown == f.limit {
				break
			}
		}
		return nil
	})
	c.args = []argument{{"session id", false}}
	c.details = "Works for ended sessions too. To follow one that goes on, use \"lambae tail\"."
	c.flags.BoolVar(&full, "full", false, "print long texts to their end")
	f.define(c.flags)
	return c
}
