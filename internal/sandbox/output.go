package sandbox

import (
	"strings"
	"unicode/utf8"
)

// MaxOutput is how many bytes are kept of each of a command's two streams
// (protocol, "Remote subagents"). The first ones are kept.
const MaxOutput = 65_536

// Buffer keeps the first [MaxOutput] bytes written to it. It never refuses a
// write, so that a command that says more runs on. The zero Buffer is ready.
type Buffer struct {
	kept []byte
	more bool
}

// Write keeps what there is room for.
func (b *Buffer) Write(p []byte) (int, error) {
	room := MaxOutput - len(b.kept)
	if len(p) > room {
		b.more = true
		b.kept = append(b.kept, p[:room]...)
		return len(p), nil
	}
	b.kept = append(b.kept, p...)
	return len(p), nil
}

// Text returns what was kept as UTF-8, cut between two characters, and whether
// there was more. Bytes that are no UTF-8 become U+FFFD.
func (b *Buffer) Text() (text string, truncated bool) {
	kept := b.kept
	if b.more {
		kept = kept[:wholeRunes(kept)]
	}
	text = strings.ToValidUTF8(string(kept), "\uFFFD")
	if len(text) <= MaxOutput {
		return text, b.more
	}
	cut := MaxOutput // a replacement is longer than what it replaces
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut], true
}

// wholeRunes is the length of b without the beginning of a character at its end.
func wholeRunes(b []byte) int {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if at := len(b) - i; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return at
			}
			break
		}
	}
	return len(b)
}

// outputWriter passes text on in whole characters.
type outputWriter struct {
	output func(stream, text string)
	stream string
	rest   []byte // the beginning of a character
}

func (w *outputWriter) Write(p []byte) (int, error) {
	b := append(w.rest, p...)
	whole := wholeRunes(b)
	if whole > 0 {
		w.output(w.stream, strings.ToValidUTF8(string(b[:whole]), "\uFFFD"))
	}
	w.rest = append([]byte(nil), b[whole:]...)
	return len(p), nil
}
