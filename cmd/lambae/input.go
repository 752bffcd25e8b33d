package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"

	"golang.org/x/term"
)

// input is where a chat's lines come from.
type input interface {
	// line reads the next line, and io.EOF at the end.
	line(ctx context.Context, prompt string) (string, error)
	// interactive reports whether a person is typing.
	interactive() bool
}

// console is the user's terminal, or the streams if there is none.
func (a *app) console(ctx context.Context) (input, *view) {
	style := a.styleFor(a.stdout)
	in, isTerminal := terminal(a.stdin)
	out, shown := terminal(a.stdout)
	if !isTerminal || !shown {
		return newPlainInput(ctx, a.stdin), &view{style: style, out: a.stdout, rest: a.stderr}
	}
	editor := newEditor(in, out)
	return editor, &view{style: style, out: editor, rest: editor}
}

// plainInput reads lines from a stream.
type plainInput struct{ lines chan plainLine }

type plainLine struct {
	text string
	err  error
}

// newPlainInput reads ahead until ctx ends, so that waiting for a line can be
// given up.
func newPlainInput(ctx context.Context, r io.Reader) *plainInput {
	p := &plainInput{make(chan plainLine)}
	go func() {
		defer close(p.lines)
		reader := bufio.NewReader(r)
		for {
			text, err := reader.ReadString('\n')
			if text != "" && errors.Is(err, io.EOF) {
				err = nil // the last line lacks its end
			}
			select {
			case p.lines <- plainLine{strings.TrimRight(text, "\r\n"), err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return p
}

func (p *plainInput) line(ctx context.Context, _ string) (string, error) {
	select {
	case line, open := <-p.lines:
		if !open {
			return "", io.EOF
		}
		return line.text, line.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (p *plainInput) interactive() bool { return false }

// editor is a terminal with line editing and history. Only while a line is read
// the terminal is in raw mode: otherwise Ctrl-C shall be a signal. What is
// written to it goes above the line that is being read.
type editor struct {
	in, out *os.File
	screen  atomic.Pointer[term.Terminal]
	pending chan plainLine // a read that was given up: it still has the terminal
}

func newEditor(in, out *os.File) *editor {
	e := &editor{in: in, out: out}
	e.clear()
	return e
}

// clear forgets a line that was begun, not those before.
func (e *editor) clear() {
	screen := term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{e.in, e.out}, "")
	if before := e.screen.Load(); before != nil {
		screen.History = before.History
	}
	e.screen.Store(screen)
}

func (e *editor) Write(p []byte) (int, error) { return e.screen.Load().Write(p) }

func (e *editor) interactive() bool { return true }

func (e *editor) line(ctx context.Context, prompt string) (string, error) {
	cooked, err := term.MakeRaw(int(e.in.Fd()))
	if err != nil {
		return "", err
	}
	defer func() { _ = term.Restore(int(e.in.Fd()), cooked) }()
	screen := e.screen.Load()
	if width, height, err := term.GetSize(int(e.out.Fd())); err == nil && width > 0 {
		_ = screen.SetSize(width, height)
	}
	screen.SetPrompt(prompt)
	screen.SetBracketedPasteMode(true)
	defer screen.SetBracketedPasteMode(false)
	if e.pending == nil {
		e.pending = make(chan plainLine, 1)
		go func(read chan<- plainLine) {
			text, err := readPasted(screen)
			read <- plainLine{text, err}
		}(e.pending)
	}
	select {
	case line := <-e.pending:
		e.pending = nil
		if line.err != nil { // Ctrl-C or Ctrl-D
			e.clear()
			_, _ = io.WriteString(e.out, "\r\n")
		}
		return line.text, line.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// longestLine is where the terminal stops taking letters.
const longestLine = 4096

// readPasted reads a line, or all lines of a paste and the one after it: the
// user ends a paste by Enter, as any message.
func readPasted(screen *term.Terminal) (string, error) {
	var lines []string
	for {
		line, err := screen.ReadLine()
		lines = append(lines, line)
		if errors.Is(err, term.ErrPasteIndicator) {
			screen.SetPrompt("")
			continue
		}
		if len([]rune(line)) >= longestLine {
			fmt.Fprintf(screen, "The line was cut at %d letters; longer ones can be piped in.\n", longestLine)
		}
		return strings.Join(lines, "\n"), err
	}
}
