package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// style is how to write to a stream.
type style struct{ terminal, colours bool }

func (s style) paint(code, text string) string {
	if !s.colours || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string { return s.paint("1", text) }
func (s style) dim(text string) string  { return s.paint("2", text) }
func (s style) red(text string) string  { return s.paint("31", text) }
func (s style) cyan(text string) string { return s.paint("36", text) }

// safe takes control characters out of text that others wrote: on a terminal
// they could move the cursor, or worse.
func safe(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r < 0x20 || 0x7f <= r && r < 0xa0 {
			return utf8.RuneError
		}
		return r
	}, strings.ReplaceAll(text, "\r\n", "\n"))
}

// maxLine is how much of a long text fits an overview, in characters.
const maxLine = 160

// oneLine is text on a line of its own, cut to limit characters; 0 is no limit.
func oneLine(text string, limit int) string {
	text = strings.ReplaceAll(strings.TrimSpace(safe(text)), "\n", " ⏎ ")
	if limit > 0 && utf8.RuneCountInString(text) > limit {
		return string([]rune(text)[:limit-1]) + "…"
	}
	return text
}

// table writes rows under headers in aligned columns.
func table(w io.Writer, headers []string, rows [][]string) error {
	return aligned(w, append([][]string{headers}, rows...))
}

// aligned writes rows of cells, without the spaces that would end a line.
func aligned(w io.Writer, rows [][]string) error {
	var buffer bytes.Buffer
	columns := tabwriter.NewWriter(&buffer, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = oneLine(cell, 0)
		}
		fmt.Fprintln(columns, strings.Join(cells, "\t"))
	}
	_ = columns.Flush() // into memory
	for line := range strings.Lines(buffer.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// jsonLine writes v on one line, for lists.
func jsonLine(w io.Writer, v any) error { return writeJSON(w, v, "") }

// jsonDocument writes v with indentation, for single things.
func jsonDocument(w io.Writer, v any) error { return writeJSON(w, v, "  ") }

// writeJSON writes what the server sent where v knows it, and else v as it is.
func writeJSON(w io.Writer, v any, indent string) error {
	if s, ok := v.(interface{ Raw() json.RawMessage }); ok && s.Raw() != nil {
		v = s.Raw()
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(buffer.Bytes())
	return err
}

// when is a time in a table; never is what none means.
func when(t *time.Time, never string) string {
	if t == nil || t.IsZero() {
		return never
	}
	return t.UTC().Format("2006-01-02T15:04:05Z")
}

// joined is a list in a table.
func joined(items []string) string {
	if len(items) == 0 {
		return "-"
	}
	return strings.Join(items, ", ")
}
