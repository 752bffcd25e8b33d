package provider

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxAnswer     = 64 << 20 // bytes of an answer, streamed or whole
	maxErrorText  = 64 << 10 // bytes kept of the body of an answer that cannot be used
	maxDetailText = 300      // runes of it in an error's detail
)

// answerFunc reads a whole answer. Its error says what is wrong with the answer.
type answerFunc func(status int, raw []byte) (*Response, error)

// usable reads an answer, or says that the named provider gave none to use.
func usable(name string, status int, raw []byte, read answerFunc) (*Response, error) {
	resp, err := read(status, raw)
	if err != nil {
		text := strings.ToValidUTF8(string(raw[:min(len(raw), maxErrorText)]), "\uFFFD")
		return nil, &Error{Status: status, Body: &text, Detail: fmt.Sprintf("unusable answer from %s: %v", name, err)}
	}
	return resp, nil
}

// httpDetail is how a refused call reads in events.
func httpDetail(name string, status int, text string) string {
	detail := fmt.Sprintf("HTTP %d from %s", status, name)
	if text = strings.TrimSpace(text); text != "" {
		detail += ": " + firstRunes(text, maxDetailText)
	}
	return detail
}

func firstRunes(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n]) + "…"
}
