package claude

import (
	"regexp"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/tidwall/gjson"
)

// maxPromptUnits is where a prompt is cut in listings, in UTF-16 units.
const maxPromptUnits = 200

var (
	commandName = regexp.MustCompile(`<command-name>(.*?)</command-name>`)
	bashInput   = regexp.MustCompile(`(?s)<bash-input>(.*?)</bash-input>`)
	// notAPrompt matches text that claude or an editor put into the
	// conversation: a lower-case tag, or the note of an interruption.
	notAPrompt = regexp.MustCompile(`^(?:\s*<[a-z][\w-]*[\s>]|\[Request interrupted by user[^\]]*\])`)
)

// promptOf returns what the user said in a transcript entry, as a listing shows
// it. For a slash command it returns the command as a fallback instead, for
// sessions in which nothing better follows.
func promptOf(entry []byte) (prompt, fallback string) {
	var message []byte
	isUser, aside := false, false
	eachMember(entry, func(name, value []byte) {
		switch string(name) {
		case "type":
			isUser = string(value) == `"user"`
		case "isMeta", "isCompactSummary":
			aside = aside || string(value) == "true"
		case "message":
			message = value
		}
	})
	if !isUser || aside {
		return "", ""
	}
	for _, text := range promptTexts(message) {
		text = trimSpace(strings.ReplaceAll(text, "\n", " "))
		if text == "" {
			continue
		}
		if !strings.ContainsAny(text, "<[") { // what all three expressions begin with
			return cutPrompt(text), ""
		}
		if m := commandName.FindStringSubmatch(text); m != nil {
			fallback = firstOf(fallback, m[1])
			continue
		}
		if m := bashInput.FindStringSubmatch(text); m != nil {
			return "! " + m[1], ""
		}
		if notAPrompt.MatchString(text) {
			continue
		}
		return cutPrompt(text), ""
	}
	return "", fallback
}

// promptTexts returns the texts of a message; one with a tool's result in it
// was not written by the user.
func promptTexts(message []byte) []string {
	var content []byte
	eachMember(message, func(name, value []byte) {
		if string(name) == "content" && content == nil {
			content = value
		}
	})
	if len(content) == 0 {
		return nil
	}
	if content[0] == '"' {
		return []string{unquote(content)}
	}
	blocks := gjson.ParseBytes(content)
	if !blocks.IsArray() {
		return nil
	}
	var texts []string
	for _, block := range blocks.Array() {
		switch block.Get("type").Str {
		case "tool_result":
			return nil
		case "text":
			texts = append(texts, block.Get("text").String())
		}
	}
	return texts
}

// attachmentOf names what a user's entry holds besides text.
func attachmentOf(entry []byte) string {
	root := gjson.ParseBytes(entry)
	if root.Get("type").Str != "user" || root.Get("isMeta").Bool() {
		return ""
	}
	name := ""
	for _, block := range root.Get("message.content").Array() {
		switch block.Get("type").Str {
		case "tool_result":
			return ""
		case "image":
			name = "Image"
		case "document":
			name = firstOf(name, "Document")
		}
	}
	return name
}

func cutPrompt(text string) string {
	if len(text) <= maxPromptUnits { // no text has more units than bytes
		return text
	}
	units := utf16.Encode([]rune(text))
	if len(units) <= maxPromptUnits {
		return text
	}
	units = units[:maxPromptUnits]
	if last := units[len(units)-1]; last >= 0xD800 && last < 0xDC00 {
		units = units[:len(units)-1] // half a character
	}
	return trimSpace(string(utf16.Decode(units))) + "…"
}

// trimSpace trims what JavaScript counts as white space.
func trimSpace(s string) string {
	return strings.TrimFunc(s, func(r rune) bool {
		return r == '\uFEFF' || r != '\u0085' && strings.ContainsRune(" \t\n\v\f\r\u00a0\u1680\u2028\u2029\u202f\u205f\u3000", r) ||
			r >= '\u2000' && r <= '\u200a'
	})
}

// parseDate reads a date as JavaScript's Date.parse does, for the forms that
// occur: ISO 8601 and RFC 1123. It returns milliseconds since 1970.
func parseDate(s string) (int64, bool) {
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02", time.RFC1123} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}
