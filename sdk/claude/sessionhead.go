package claude

import (
	"bytes"
	"slices"

	"github.com/tidwall/gjson"
)

// headBytes is how much of a transcript's start and end a listing reads: what
// it shows stands there, and transcripts can be huge.
const headBytes = 64 << 10

// sessionHead is the start and the end of a transcript; for a short one both
// are the whole of it. It is valid until its buffer reads the next one.
type sessionHead struct {
	head, tail []byte
	mtime      int64 // milliseconds since 1970
	size       int64
	buffer     *headBuffer
}

// headBuffer is the memory that one transcript after the other is read into.
type headBuffer struct {
	bytes []byte
	lines [][]byte
}

// readHead reads a regular file's head and tail, in one read where they touch.
// It asks for no byte beyond the end: that would be one more read, in vain.
func (b *headBuffer) readHead(path string) (sessionHead, error) {
	f, err := openHead(path)
	if err != nil {
		return sessionHead{}, err
	}
	defer f.close()
	if b.bytes == nil {
		b.bytes = make([]byte, 2*headBytes)
	}
	h := sessionHead{mtime: f.mtime, size: f.size, buffer: b}
	if h.size > 2*headBytes {
		if h.head, err = f.readAt(b.bytes[:headBytes], 0); err != nil {
			return sessionHead{}, err
		}
		h.tail, err = f.readAt(b.bytes[headBytes:], h.size-headBytes)
		return h, err
	}
	all, err := f.readAt(b.bytes[:h.size], 0)
	h.head, h.tail = all[:min(len(all), headBytes)], all[max(len(all)-headBytes, 0):]
	return h, err
}

// split returns the lines of a part that are not empty, until the next split.
// A listing goes through them three times, twice from the last to the first,
// and finding their ends is what takes the time.
func (b *headBuffer) split(part []byte) [][]byte {
	b.lines = b.lines[:0]
	for len(part) > 0 {
		end := bytes.IndexByte(part, '\n')
		if end < 0 {
			end = len(part)
		}
		if end > 0 {
			b.lines = append(b.lines, part[:end])
		}
		part = part[min(end+1, len(part)):]
	}
	return b.lines
}

// info reads what a listing shows; ok is false for sessions it leaves out.
func (h sessionHead) info(id, projectPath string) (info SessionInfo, ok bool) {
	if h.isSidechain() {
		return SessionInfo{}, false
	}
	info = h.describe(id, projectPath)
	return info, info.Summary != ""
}

// isSidechain reports whether the first line belongs to a side chain.
func (h sessionHead) isSidechain() bool {
	mark := []byte(`"isSidechain":`)
	line, _, _ := bytes.Cut(h.head, []byte{'\n'})
	for {
		i := bytes.Index(line, mark)
		if i < 0 {
			return false
		}
		line = line[i+len(mark):]
		if bytes.HasPrefix(bytes.TrimPrefix(line, []byte{' '}), []byte("true")) {
			return true
		}
	}
}

// describe reads what there is to show, of any session.
func (h sessionHead) describe(id, projectPath string) SessionInfo {
	lines := h.buffer.split(h.tail)
	marks := marksIn(lines)
	prompt, attachment := firstPromptIn(h.head)
	info := SessionInfo{
		SessionID: id, LastModified: h.mtime, FileSize: h.size,
		FirstPrompt: prompt,
		GitBranch:   lastTopLevel(lines, "gitBranch"),
		Cwd:         firstOf(firstText(h.head, "cwd"), projectPath),
		Tag:         marks.tag, AgentName: marks.agentName,
		Model: lastText(lines, "model"),
	}
	if info.GitBranch == "" {
		info.GitBranch = firstText(h.head, "gitBranch")
	}
	if marks.customTitle == "" && h.size > headBytes {
		early := marksIn(h.buffer.split(h.head))
		marks.customTitle = early.customTitle
		marks.aiTitle = firstOf(marks.aiTitle, early.aiTitle)
	}
	if ms, ok := parseDate(firstText(h.head, "timestamp")); ok {
		info.CreatedAt = ms
	}
	info.CustomTitle = firstOf(marks.customTitle, marks.aiTitle)
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
func marksIn(lines [][]byte) marks {
	var m marks
	for _, line := range lines {
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
func lastTopLevel(lines [][]byte, name string) string {
	mark := []byte(`"` + name + `":`)
	for _, line := range slices.Backward(lines) {
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

// firstText returns the first text value of a member, wherever it stands.
func firstText(part []byte, name string) string {
	return textAt(part, bytes.Index(part, []byte(`"`+name+`":`)), name)
}

// lastText returns a text value of a member in the last line that has one.
func lastText(lines [][]byte, name string) string {
	mark := []byte(`"` + name + `":`)
	for _, line := range slices.Backward(lines) {
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
