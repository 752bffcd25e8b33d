package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
)

// command is one command, or a group of them.
type command struct {
	name    string
	args    []argument
	summary string // one line, for lists
	details string // the rest of the help
	flags   *flag.FlagSet
	check   func() error                                   // of the flags together; may be nil
	run     func(ctx context.Context, args []string) error // nil for a group
	subs    []*command

	// handlesInterrupts is for commands that do not simply end on Ctrl-C.
	handlesInterrupts bool

	parent *command
}

// argument is a positional argument. Optional ones come last.
type argument struct {
	name     string
	optional bool
}

// usageError is a wrong call of a command.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// errHelp asks for the help of the command instead of running it.
var errHelp = errors.New("help was asked for")

// newCommand is a command without flags so far.
func newCommand(name, summary string) *command {
	return &command{name: name, summary: summary, flags: flag.NewFlagSet(name, flag.ContinueOnError)}
}

// newGroup is a command that is nothing but its subcommands. Flags that it is given
// must be those of all of them.
func newGroup(name, summary string, subs ...*command) *command {
	group := newCommand(name, summary)
	group.subs = subs
	for _, sub := range subs {
		sub.parent = group
	}
	return group
}

// find follows the words of args to a command. A group's own flags, which all its
// commands have as well, may stand before the command's name.
func (c *command) find(args []string) (*command, []string, error) {
	if c.subs == nil {
		return c, args, nil
	}
	var before []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		name, value, hasValue := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		if name == "h" || name == "help" {
			return c, nil, errHelp
		}
		if !c.shares(name) {
			return c, nil, usagef("flags go after the command; unexpected %s", args[0])
		}
		if args = args[1:]; !hasValue {
			if len(args) == 0 {
				return c, nil, usagef("--%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		before = append(before, "--"+name+"="+value)
	}
	if len(args) == 0 {
		return c, nil, errHelp
	}
	for _, sub := range c.subs {
		if sub.name == args[0] {
			return sub.find(append(before, args[1:]...))
		}
	}
	names := make([]string, 0, len(c.subs))
	for _, sub := range c.subs {
		names = append(names, sub.name)
	}
	return c, nil, usagef("unknown command %q%s", args[0], didYouMean(args[0], names, ""))
}

// shares reports whether all commands of the group have a flag.
func (c *command) shares(flag string) bool {
	return c.flags.Lookup(flag) != nil || c.parent != nil && c.parent.shares(flag)
}

// parse sets the flags and returns the positional arguments, which may stand
// anywhere among them.
func (c *command) parse(args []string) ([]string, error) {
	var positional []string
	for i := 0; i < len(args); i++ {
		word := args[i]
		if word == "--" {
			positional = append(positional, args[i+1:]...)
			break
		}
		if !strings.HasPrefix(word, "-") || word == "-" {
			positional = append(positional, word)
			continue
		}
		name, value, hasValue := strings.Cut(strings.TrimLeft(word, "-"), "=")
		if name == "h" || name == "help" {
			return nil, errHelp
		}
		known := c.flags.Lookup(name)
		if known == nil {
			return nil, usagef("unknown flag --%s%s", name, didYouMean(name, c.flagNames(), "--"))
		}
		if !hasValue && isBool(known) {
			value, hasValue = "true", true
		}
		if !hasValue {
			if i++; i == len(args) {
				return nil, usagef("--%s needs a value", name)
			}
			value = args[i]
		}
		if err := c.flags.Set(name, value); err != nil {
			return nil, usagef("--%s: %q is not valid (%v)", name, value, err)
		}
	}
	if err := c.checkArgs(positional); err != nil || c.check == nil {
		return positional, err
	}
	return positional, c.check()
}

func (c *command) checkArgs(given []string) error {
	if len(given) > len(c.args) {
		return usagef("unexpected argument %q", given[len(c.args)])
	}
	if len(given) < len(c.args) && !c.args[len(given)].optional {
		return usagef("missing <%s>", c.args[len(given)].name)
	}
	return nil
}

func (c *command) flagNames() []string {
	var names []string
	c.flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	return names
}

// given is the set of flags that were on the command line.
func (c *command) given() map[string]bool {
	given := map[string]bool{}
	c.flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	return given
}

func isBool(f *flag.Flag) bool {
	boolean, ok := f.Value.(interface{ IsBoolFlag() bool })
	return ok && boolean.IsBoolFlag()
}

// list is a flag that may be given more than once, or with commas.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

// Set adds to the list; an empty value makes it empty.
func (l *list) Set(value string) error {
	if value == "" {
		*l = list{}
		return nil
	}
	for _, item := range strings.Split(value, ",") {
		if item = strings.TrimSpace(item); item != "" {
			*l = append(*l, item)
		}
	}
	return nil
}
