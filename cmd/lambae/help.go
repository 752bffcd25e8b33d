package main

import (
	"context"
	"flag"
	"fmt"
	"strings"
)

// commands is the whole tree.
func (a *app) commands() *command {
	root := newGroup("lambae", "durable, multiplayer sessions for AI agents",
		a.devCommand(),
		a.chatCommand(),
		a.tailCommand(),
		a.adminCommand(),
		a.versionCommand(),
	)
	root.details = `Start a server with "lambae dev", then talk to it with "lambae chat".

The keys of the server on this machine are read from the folder .lambae, or
the one that LAMBAE_HOME names. To reach another server set BAE_URL and
BAE_CLIENT_KEY, and BAE_ADMIN_URL and BAE_ADMIN_KEY_FILE for "lambae admin".`
	help := a.helpCommand(root)
	help.parent = root
	root.subs = append(root.subs, help)
	return root
}

func (a *app) helpCommand(root *command) *command {
	c := newCommand("help", "show what a command does")
	c.args = []argument{{"command", true}, {"subcommand", true}, {"subcommand", true}}
	c.run = func(_ context.Context, args []string) error {
		target, rest, err := root.find(args)
		if err != nil && err != errHelp {
			return err
		}
		if len(rest) > 0 {
			return usagef("%s has no subcommand %q", target.path(), rest[0])
		}
		_, err = fmt.Fprint(a.stdout, target.help())
		return err
	}
	return c
}

// path is how the command is called: "lambae admin key".
func (c *command) path() string {
	if c.parent == nil {
		return c.name
	}
	return c.parent.path() + " " + c.name
}

// helpPath is the call that shows the command's help.
func (c *command) helpPath() string {
	root, rest, _ := strings.Cut(c.path(), " ")
	return strings.TrimSpace(root + " help " + rest)
}

// help is the command's whole help text.
func (c *command) help() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s: %s\n\n", c.path(), c.summary)
	fmt.Fprintf(&text, "usage: %s\n", c.usage())
	if c.details != "" {
		fmt.Fprintf(&text, "\n%s\n", c.details)
	}
	if c.subs != nil {
		var rows [][]string
		for _, sub := range c.subs {
			rows = append(rows, []string{sub.name, sub.summary})
		}
		text.WriteString("\ncommands:\n" + indented(rows))
	}
	if flags := c.flagHelp(); flags != "" {
		fmt.Fprintf(&text, "\nflags:\n%s", flags)
	}
	return text.String()
}

func (c *command) usage() string {
	usage := c.path()
	if c.subs != nil {
		return usage + " <command> …"
	}
	for _, arg := range c.args {
		if arg.optional {
			usage += fmt.Sprintf(" [%s]", arg.name)
		} else {
			usage += fmt.Sprintf(" <%s>", arg.name)
		}
	}
	if len(c.flagNames()) > 0 {
		usage += " [flags]"
	}
	return usage
}

// flagHelp lists the flags. A word in back quotes in a flag's usage names its
// value.
func (c *command) flagHelp() string {
	var rows [][]string
	c.flags.VisitAll(func(f *flag.Flag) {
		value, usage := flag.UnquoteUsage(f)
		name := "--" + f.Name
		if !isBool(f) {
			name += " " + value
		}
		rows = append(rows, []string{name, usage})
	})
	return indented(rows)
}

// indented is rows aligned, two spaces in.
func indented(rows [][]string) string {
	var text, out strings.Builder
	_ = aligned(&text, rows) // into memory
	for line := range strings.Lines(text.String()) {
		out.WriteString("  " + line)
	}
	return out.String()
}

// didYouMean is the nearest of the known names, if any is near.
func didYouMean(name string, known []string, prefix string) string {
	best, distance := "", max(2, len(name)/3)+1
	for _, candidate := range known {
		if d := edits(name, candidate); d < distance {
			best, distance = candidate, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %s%s?", prefix, best)
}

// edits is how many letters must be added, dropped, changed or swapped with
// their neighbour to make a into b.
func edits(a, b string) int {
	// rows are of the last two letters of a and the current one.
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(last[j]+1, row[j-1]+1, change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
