package claude

import (
	"bytes"
	"io"
	"iter"
	"os"

	"github.com/tidwall/gjson"
)

// headBytes is how much of a transcript's start and end a listing reads: what
// it shows stands there, and transcripts can be huge.
const headBytes = 64 << 10

// sessionHead is the start and the end of a transcript; for a short one both
// are the whole of it.
type sessionHead struct {
	head, tail []byte
	mtime      int64 // milliseconds since 1970
	size       int64
}

// readHead reads a regular file's head and tail into buf, which it may grow
// and returns for the next call.
func readHead(path string, buf []byte) (sessionHead, []byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return sessionHead{}, buf, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return sessionHead{}, buf, err
	}
	if cap(buf) < 2*headBytes {
		buf = make([]byte, 2*headBytes)
	}
	buf = buf[:2*headBytes]
	h := sessionHead{mtime: info.ModTime().UnixMilli(), size: info.Size()}
	n, err := f.ReadAt(buf[:headBytes], 0)
	if err != nil && err != io.EOF {
		return sessionHead{}, buf, err
	}
	h.head, h.tail = buf[:n], buf[:n]
	if h.size > headBytes {
		n, err := f.ReadAt(buf[headBytes:], h.size-headBytes)
		if err != nil && err != io.EOF {
			return sessionHead{}, buf, err
		}
		h.tail = buf[headBytes : headBytes+n]
	}
	return h, buf, nil
}

// info reads what a listing shows; ok is false for sessions it leaves out.
func (h sessionHead) info(id, projectPath string) (info SessionInfo, ok bool) {
	first, _, _ := bytes.Cut(h.head, []byte{'\n'})
	if bytes.Contains(first, []byte(`"isSidechain":true`)) || bytes.Contains(first, []byte(`"isSidechain": true`)) {
		return SessionInfo{}, false
	}
	info = h.describe(id, projectPath)
	return info, info.Summary != ""
}

// describe reads what there is to show, of any session.
func (h sessionHead) describe(id, projectPath string) SessionInfo {
	marks := marksIn(h.tail)
	if marks.customTitle == "" && h.size > headBytes {
		early := marksIn(h.head)
		marks.customTitle = firstOf(marks.customTitle, early.customTitle)
		marks.aiTitle = firstOf(marks.aiTitle, early.aiTitle)
	}
	prompt, attachment := firstPromptIn(h.head)
	info := SessionInfo{
		SessionID: id, LastModified: h.mtime, FileSize: h.size,
		CustomTitle: firstOf(marks.customTitle, marks.aiTitle),
		FirstPrompt: prompt,
		GitBranch:   firstOf(lastTopLevel(h.tail, "gitBranch"), firstText(h.head, "gitBranch")),
		Cwd:         firstOf(firstText(h.head, "cwd"), projectPath),
		Tag:         marks.tag, AgentName: marks.agentName,
		Model: lastText(h.tail, "model"),
	}
	if ms, ok := parseDate(firstText(h.head, "timestamp")); ok {
		info.CreatedAt = ms
	}
	info.Summary = firstOf(info.CustomTitle, marks.lastPrompt, marks.summary, prompt, attachment)
	return info
}

// marks are the lines about a session, as against those of its conversation.
type marks struct {
	customTitle, aiTitle, lastPrompt, summary, tag, agentName string
}

// messagePrefix starts the lines of the conversation as claude writes them.
// They are most of a file and hold no marks, so they are skipped by it.
var messagePrefix = []byte(`{"parentUuid":`)

// marksIn returns the last mark of every kind.
func marksIn(part []byte) marks {
	var m marks
	for line := range bytes.Lines(part) {
		if bytes.HasPrefix(line, messagePrefix) {
			continue
		}
		line = bytes.TrimSpace(line)
		if len(line) < 2 || line[0] != '{' || line[len(line)-1] != '}' {
			continue
		}
		if !mayHoldMark(line) || !gjson.ValidBytes(line) {
			continue
		}
		m.take(line)
	}
	return m
}

var markNames = [][]byte{
	[]byte(`Title"`), []byte(`"lastPrompt"`), []byte(`"summary"`), []byte(`"tag"`), []byte(`"agentName"`),
}

func mayHoldMark(line []byte) bool {
	for _, name := range markNames {
		if bytes.Contains(line, name) {
			return true
		}
	}
	return false
}

func (m *marks) take(line []byte) {
	kind := ""
	var custom, ai, tag, agent gjson.Result
	gjson.ParseBytes(line).ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "type":
			kind = value.Str
		case "customTitle":
			custom = value
		case "aiTitle":
			ai = value
		case "tag":
			tag = value
		case "agentName":
			agent = value
		case "lastPrompt":
			if value.Type == gjson.String {
				m.lastPrompt = value.Str
			}
		case "summary":
			if value.Type == gjson.String {
				m.summary = value.Str
			}
		}
		return true
	})
	switch kind {
	case "custom-title":
		m.customTitle = custom.String()
	case "ai-title":
		m.aiTitle = ai.String()
	case "tag":
		m.tag = tag.String()
	case "agent-name":
		m.agentName = agent.String()
	}
}

// firstPromptIn returns the first prompt in a head, or the first command. For
// a session that began without words, attachment says what it began with.
func firstPromptIn(head []byte) (prompt, attachment string) {
	fallback := ""
	for line := range bytes.Lines(head) {
		if !bytes.Contains(line, []byte(`"user"`)) || !gjson.ValidBytes(line) {
			continue
		}
		prompt, command := promptOf(line)
		if prompt != "" {
			return prompt, ""
		}
		fallback = firstOf(fallback, command)
		if attachment == "" {
			attachment = attachmentOf(line)
		}
	}
	return fallback, attachment
}

// lastTopLevel returns the last value of a text member that belongs to a line
// itself rather than to something nested in it.
func lastTopLevel(part []byte, name string) string {
	mark := []byte(`"` + name + `":`)
	for line := range linesBackward(part) {
		if !bytes.Contains(line, mark) {
			continue
		}
		text, found := "", false
		ok := eachMember(line, func(n, value []byte) {
			if string(n) == name && value[0] == '"' {
				text, found = unquote(value), true
			}
		})
		if ok && found {
			return text
		}
	}
	return ""
}

// linesBackward yields lines from the last to the first. Searching forward in
// each is much faster than searching backward in all.
func linesBackward(part []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for end := len(part); end > 0; {
			start := bytes.LastIndexByte(part[:end], '\n') + 1
			if start < end && !yield(part[start:end]) {
				return
			}
			end = start - 1
		}
	}
}

// firstText returns the first text value of a member, wherever it stands.
func firstText(part []byte, name string) string {
	return textAt(part, bytes.Index(part, []byte(`"`+name+`":`)), name)
}

// lastText returns a text value of a member in the last line that has one.
func lastText(part []byte, name string) string {
	mark := []byte(`"` + name + `":`)
	for line := range linesBackward(part) {
		if i := bytes.Index(line, mark); i >= 0 {
			return textAt(line, i, name)
		}
	}
	return ""
}

func textAt(part []byte, i int, name string) string {
	if i < 0 {
		return ""
	}
	rest := bytes.TrimLeft(part[i+len(name)+3:], " ")
	if len(rest) == 0 || rest[0] != '"' {
		return ""
	}
	end := skipString(rest, 0)
	if end < 0 {
		return ""
	}
	return unquote(rest[:end])
}
