package claude

import (
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"
)

// SessionSummary is what a listing shows of one session. Stores keep it beside
// the transcript and never look into Data.
type SessionSummary struct {
	SessionID string `json:"sessionId"`
	// MTime is when the summary was written, in milliseconds since 1970, by the
	// clock that the store's ListSessions uses.
	MTime int64           `json:"mtime"`
	Data  json.RawMessage `json:"data"`
}

// FoldSessionSummary carries a summary over appended entries: prev is the
// summary so far, nil for the first entries of a session. Stores call it as
// they append, one call after the other for each session, and never for keys
// with a subpath. An mtime of 0 keeps the previous one.
//
// It is pure, and folding in pieces gives the same as folding at once. The
// shape of Data is that of the JavaScript SDK, so both can share a store.
func FoldSessionSummary(prev *SessionSummary, key SessionKey, entries []Entry, mtime int64) SessionSummary {
	next := SessionSummary{SessionID: key.SessionID, MTime: mtime}
	var data jsonObject
	if prev != nil {
		data, _ = parseObject(prev.Data)
		if mtime == 0 {
			next.MTime = prev.MTime
		}
	}
	for _, e := range entries {
		foldEntry(&data, e)
	}
	next.Data = data.encode()
	return next
}

func foldEntry(data *jsonObject, e Entry) {
	var entry struct{ kind, tag, prompt, fallback string }
	once := func(name string, value any) {
		if data.get(name) == nil {
			data.set(name, value)
		}
	}
	sidechain, isUser := false, false
	root := gjson.ParseBytes(e)
	if root.IsObject() {
		root.ForEach(func(name, value gjson.Result) bool {
			isText := value.Type == gjson.String
			switch name.Str {
			case "type":
				entry.kind = value.Str
				isUser = value.Str == "user"
			case "tag":
				entry.tag = value.Str
			case "isSidechain":
				sidechain = value.Type == gjson.True
			case "timestamp":
				if ms, ok := parseDate(value.Str); ok {
					once("createdAt", ms)
				}
			case "cwd":
				if value.Str != "" {
					once("cwd", value.Str)
				}
			case "customTitle", "aiTitle", "lastPrompt", "gitBranch":
				if isText {
					data.set(name.Str, value.Str)
				}
			case "summary":
				if isText {
					data.set("summaryHint", value.Str)
				}
			}
			return true
		})
	}
	once("isSidechain", sidechain)
	if entry.kind == "tag" {
		if entry.tag == "" {
			data.delete("tag")
		} else {
			data.set("tag", entry.tag)
		}
	}
	if isUser && data.get("firstPromptLocked") == nil {
		entry.prompt, entry.fallback = promptOf(e)
		if entry.prompt != "" {
			data.set("firstPrompt", entry.prompt)
			data.set("firstPromptLocked", true)
		} else if entry.fallback != "" {
			once("commandFallback", entry.fallback)
		}
	}
}

// info is a summary as a listing shows it; ok is false for sessions that
// listings leave out: side chains, and those with nothing to show.
func (s SessionSummary) info() (info SessionInfo, ok bool) {
	data := gjson.ParseBytes(s.Data)
	text := func(names ...string) string {
		for _, name := range names {
			if v := data.Get(name).String(); v != "" {
				return v
			}
		}
		return ""
	}
	info = SessionInfo{
		SessionID: s.SessionID, LastModified: s.MTime,
		CustomTitle: text("customTitle", "aiTitle"),
		FirstPrompt: text("firstPrompt", "commandFallback"),
		GitBranch:   text("gitBranch"), Cwd: text("cwd"), Tag: text("tag"), CreatedAt: data.Get("createdAt").Int(),
	}
	info.Summary = firstOf(info.CustomTitle, text("lastPrompt"), text("summaryHint"), info.FirstPrompt)
	return info, info.Summary != "" && !data.Get("isSidechain").Bool()
}

func firstOf(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// summarise folds a whole transcript.
func summarise(key SessionKey, entries []Entry, mtime int64) SessionSummary {
	return FoldSessionSummary(nil, key, entries, mtime)
}

// size is how many bytes entries take as lines of a file.
func sizeOf(entries []Entry) int64 {
	n := int64(0)
	for _, e := range entries {
		n += int64(len(e)) + 1
	}
	return n
}

// isBlank reports whether a line holds nothing.
func isBlank(line []byte) bool { return strings.TrimSpace(string(line)) == "" }
