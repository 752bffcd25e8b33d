package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/tidwall/gjson"
)

// ForkOptions say what goes into a fork.
type ForkOptions struct {
	SessionOptions
	// UpTo is the uuid of the last message to take over; empty takes all.
	UpTo string
	// Title of the fork; by default the original's with " (fork)" after it.
	Title string
}

// ForkSession copies a session into a new one and returns its id: same
// messages, new uuids, and a note on each of where it came from. The original
// stays as it is. The fork has no undo history.
func ForkSession(ctx context.Context, id string, opts *ForkOptions) (string, error) {
	if opts == nil {
		opts = &ForkOptions{}
	}
	if !isUUID(id) {
		return "", invalidID(id)
	}
	f := fork{from: id, to: uuid.NewString(), now: timestamp(time.Now()), opts: opts, ids: make(map[string]string)}
	if opts.Store != nil {
		return f.to, f.inStore(ctx)
	}
	return f.to, f.inFolder(ctx)
}

func (f *fork) inStore(ctx context.Context) error {
	key, err := f.opts.key(f.from)
	if err != nil {
		return err
	}
	entries, err := f.opts.Store.Load(ctx, key)
	if err != nil {
		return fmt.Errorf("load session %s from the store: %w", key, err)
	}
	if len(entries) == 0 {
		return notFound(f.from)
	}
	info, _ := summarise(key, entries, 0).info()
	copied, err := f.entries(entries, info)
	if err != nil {
		return err
	}
	key.SessionID = f.to
	if err := f.opts.Store.Append(ctx, key, copied); err != nil {
		return fmt.Errorf("write fork of session %s to the store: %w", f.from, err)
	}
	return nil
}

func (f *fork) inFolder(ctx context.Context) error {
	path, _, err := f.opts.find(ctx, f.from)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read session %s: %w", f.from, err)
	}
	var entries []Entry
	for line := range jsonLines(data) {
		entries = append(entries, line)
	}
	head, err := new(headBuffer).readHead(path)
	if err != nil {
		return fmt.Errorf("read session %s: %w", f.from, err)
	}
	copied, err := f.entries(entries, head.describe(f.from, ""))
	if err != nil {
		return err
	}
	return writeTranscript(filepath.Join(filepath.Dir(path), f.to+".jsonl"), copied)
}

type fork struct {
	from, to, now string
	opts          *ForkOptions
	ids           map[string]string // old uuids to new ones
}

// entries makes the fork's transcript of the original's.
func (f *fork) entries(all []Entry, info SessionInfo) ([]Entry, error) {
	kept, parents, err := f.choose(all)
	if err != nil {
		return nil, err
	}
	for _, e := range kept {
		f.ids[e.text("uuid")] = uuid.NewString()
	}
	for id := range parents { // left out, but other entries may refer to them
		f.ids[id] = uuid.NewString()
	}
	copied := make([]Entry, 0, len(kept)+2)
	for i, e := range kept {
		copied = append(copied, f.copy(e, parents, i == len(kept)-1))
	}
	if r := f.replacements(all); r != nil {
		copied = append(copied, r)
	}
	return append(copied, f.title(info)), nil
}

// choose picks the messages to copy. Progress notes are left out; parents says
// for each of them what was above it, to close the gaps.
func (f *fork) choose(all []Entry) (kept []jsonObject, parents map[string]string, err error) {
	parents = make(map[string]string)
	found := false
	for _, raw := range all {
		e, ok := parseChainEntry(raw)
		if !ok || e.sidechain {
			continue
		}
		if e.kind == "progress" {
			parents[e.uuid] = e.parent
		} else {
			o, _ := parseObject(raw)
			kept = append(kept, o)
		}
		if found = f.opts.UpTo != "" && e.uuid == f.opts.UpTo; found {
			break
		}
	}
	if len(kept) == 0 {
		return nil, nil, fmt.Errorf("session %s has no messages to fork", f.from)
	}
	if f.opts.UpTo != "" && !found {
		return nil, nil, fmt.Errorf("message %s is not in session %s; GetSessionMessages has the uuids", f.opts.UpTo, f.from)
	}
	return kept, parents, nil
}

func (f *fork) copy(e jsonObject, parents map[string]string, last bool) Entry {
	old := e.text("uuid")
	e.set("uuid", f.ids[old])
	parent := e.text("parentUuid")
	for skipped, ok := parents[parent]; ok; skipped, ok = parents[parent] {
		parent = skipped
	}
	e.set("parentUuid", f.newID(parent))
	if logical := e.text("logicalParentUuid"); logical != "" {
		e.set("logicalParentUuid", f.newID(logical))
	}
	// A reply says which session asked for it: providers cache by that.
	if e.text("type") == "assistant" && e.get("requestSessionId") == nil {
		if was := e.get("sessionId"); was != nil {
			e.set("requestSessionId", was)
		}
	}
	e.set("sessionId", f.to)
	if last {
		e.set("timestamp", f.now) // makes the fork the latest session
	}
	if e.get("isSidechain") == nil {
		e.set("isSidechain", false)
	}
	e.delete("slug", "teamName", "agentName", "sourceToolAssistantUUID", "forkedFrom")
	e.set("forkedFrom", jsonObject{{"sessionId", jsonText(f.from)}, {"messageUuid", jsonText(old)}}.encode())
	return e.encode()
}

// newID is the new name of an entry, null for one that is not copied.
func (f *fork) newID(old string) json.RawMessage {
	if id, ok := f.ids[old]; ok {
		return jsonText(id)
	}
	return json.RawMessage("null")
}

// replacements gathers the notes on what claude shortened in the original, so
// that the fork sends the model the same text.
func (f *fork) replacements(all []Entry) Entry {
	var list []byte
	for _, raw := range all {
		e := gjson.ParseBytes(raw)
		if e.Get("type").Str != "content-replacement" || e.Get("sessionId").Str != f.from {
			continue
		}
		for _, r := range e.Get("replacements").Array() {
			if list != nil {
				list = append(list, ',')
			}
			list = append(list, r.Raw...)
		}
	}
	if list == nil {
		return nil
	}
	return f.note("content-replacement", "replacements", append(append([]byte{'['}, list...), ']'))
}

func (f *fork) title(info SessionInfo) Entry {
	title := trimSpace(f.opts.Title)
	if title == "" {
		title = firstOf(info.CustomTitle, info.FirstPrompt, "Forked session") + " (fork)"
	}
	return f.note("custom-title", "customTitle", jsonText(title))
}

func (f *fork) note(kind, name string, value json.RawMessage) Entry {
	return jsonObject{
		{"type", jsonText(kind)}, {"sessionId", jsonText(f.to)}, {name, value},
		{"uuid", jsonText(uuid.NewString())}, {"timestamp", jsonText(f.now)},
	}.encode()
}
