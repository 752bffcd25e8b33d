package claude

import (
	"slices"

	"github.com/tidwall/gjson"
)

// chainEntry is one link of a conversation: an entry with a uuid, and what the
// order of the conversation depends on.
type chainEntry struct {
	kind, uuid, parent string
	sidechain, meta    bool
	team               bool   // belongs to a teammate's conversation
	messageID          string // of the model's reply this is part of
	toolResult         bool
	timestamp          string
	preserved          *preservedSegment
	boundary           bool // a compaction
	raw                []byte
}

// preservedSegment is a stretch of the conversation that a compaction kept: it
// now follows its anchor.
type preservedSegment struct {
	head, tail, anchor string
	uuids              []string // all of it, where the transcript names them
}

// parseChainEntry reads a transcript line; ok is false for lines that are no
// part of a conversation.
func parseChainEntry(line []byte) (e chainEntry, ok bool) {
	root := gjson.ParseBytes(line)
	e.kind, e.uuid = root.Get("type").Str, root.Get("uuid").Str
	switch e.kind {
	case "user", "assistant", "system", "attachment", "progress":
	default:
		return e, false
	}
	if e.uuid == "" {
		return e, false
	}
	e.parent = root.Get("parentUuid").Str
	e.sidechain = root.Get("isSidechain").Bool()
	e.meta = root.Get("isMeta").Bool()
	e.team = root.Get("teamName").Str != ""
	e.timestamp = root.Get("timestamp").Str
	e.raw = line
	switch e.kind {
	case "assistant":
		e.messageID = root.Get("message.id").Str
	case "user":
		e.toolResult = root.Get(`message.content.#(type=="tool_result")`).Exists()
	case "system":
		e.boundary = root.Get("subtype").Str == "compact_boundary"
		e.preserved = parsePreserved(root.Get("compactMetadata"))
	}
	return e, true
}

func parsePreserved(meta gjson.Result) *preservedSegment {
	if s := meta.Get("preservedSegment"); s.Exists() {
		return &preservedSegment{head: s.Get("headUuid").Str, tail: s.Get("tailUuid").Str, anchor: s.Get("anchorUuid").Str}
	}
	if s := meta.Get("preservedMessages"); s.Exists() {
		p := &preservedSegment{anchor: s.Get("anchorUuid").Str}
		for _, id := range s.Get("uuids").Array() {
			p.uuids = append(p.uuids, id.Str)
		}
		if len(p.uuids) > 0 {
			p.head, p.tail = p.uuids[0], p.uuids[len(p.uuids)-1]
			return p
		}
	}
	return nil
}

// chain puts the entries of a transcript into the order of the conversation
// that its last message belongs to. A transcript is a tree: editing a prompt
// or rewinding starts a new branch, and only one is the conversation.
type chain struct {
	entries []chainEntry
	at      map[string]int // by uuid; of entries written twice the last counts
}

func newChain(lines func(yield func([]byte) bool)) *chain {
	c := &chain{at: make(map[string]int)}
	for line := range lines {
		if e, ok := parseChainEntry(line); ok {
			if i, twice := c.at[e.uuid]; twice {
				c.entries[i] = e
				continue
			}
			c.at[e.uuid] = len(c.entries)
			c.entries = append(c.entries, e)
		}
	}
	c.relink()
	return c
}

// relink moves the stretch that the last compaction preserved behind its
// anchor, and lets what followed the anchor follow the stretch.
func (c *chain) relink() {
	for i := len(c.entries) - 1; i >= 0; i-- {
		if !c.entries[i].boundary {
			continue
		}
		p := c.entries[i].preserved
		if p == nil {
			return
		}
		if _, ok := c.at[p.tail]; ok {
			for j := range c.entries {
				if c.entries[j].parent == p.anchor {
					c.entries[j].parent = p.tail
				}
			}
		}
		if head, ok := c.at[p.head]; ok {
			c.entries[head].parent = p.anchor
		}
		return
	}
}

// conversation returns the entries of the conversation, first to last.
func (c *chain) conversation() []chainEntry {
	leaf, ok := c.leaf()
	if !ok {
		return nil
	}
	var path []chainEntry
	seen := make(map[string]bool)
	for i, ok := leaf, true; ok && !seen[c.entries[i].uuid]; i, ok = c.up(i) {
		seen[c.entries[i].uuid] = true
		path = append(path, c.entries[i])
	}
	slices.Reverse(path)
	return c.withParallelResults(path, seen)
}

func (c *chain) up(i int) (int, bool) {
	j, ok := c.at[c.entries[i].parent]
	return j, ok
}

// leaf finds the message that the conversation ends with: of all ends of
// branches the last one in the file, main conversation before side chains.
func (c *chain) leaf() (int, bool) {
	parents := make(map[string]bool, len(c.entries))
	for _, e := range c.entries {
		parents[e.parent] = true
	}
	best, bestMain := -1, false
	for i, e := range c.entries {
		if parents[e.uuid] {
			continue
		}
		j, ok := c.nearestMessage(i)
		if !ok {
			continue
		}
		e := c.entries[j]
		main := !e.sidechain && !e.team && !e.meta
		if best < 0 || main && !bestMain || main == bestMain && j > best {
			best, bestMain = j, main
		}
	}
	return best, best >= 0
}

// nearestMessage walks up to the user's or the model's message above an end.
func (c *chain) nearestMessage(i int) (int, bool) {
	seen := make(map[int]bool)
	for ok := true; ok && !seen[i]; i, ok = c.up(i) {
		seen[i] = true
		if kind := c.entries[i].kind; kind == "user" || kind == "assistant" {
			return i, true
		}
	}
	return 0, false
}

// withParallelResults puts back what a single line of parents cannot hold: when
// one reply calls several tools, each call is an entry and each result hangs
// from its call, so that only one of them leads on.
func (c *chain) withParallelResults(path []chainEntry, on map[string]bool) []chainEntry {
	group := func(e chainEntry) string {
		if e.messageID != "" {
			return e.messageID
		}
		return e.uuid
	}
	last := make(map[string]int) // where each reply ends on the path
	for i, e := range path {
		if e.kind == "assistant" {
			last[group(e)] = i
		}
	}
	insert := make(map[int][]chainEntry)
	calls := make(map[string]string) // a call's uuid to its reply
	for _, e := range c.entries {
		if e.kind != "assistant" || e.sidechain {
			continue
		}
		calls[e.uuid] = group(e)
		if at, ok := last[group(e)]; ok && !on[e.uuid] {
			on[e.uuid] = true
			insert[at] = append(insert[at], e)
		}
	}
	siblings := make(map[int]int)
	for at, es := range insert {
		siblings[at] = len(es)
	}
	for _, e := range c.entries {
		if e.kind != "user" || !e.toolResult || e.sidechain || on[e.uuid] {
			continue
		}
		if at, ok := last[calls[e.parent]]; ok {
			on[e.uuid] = true
			insert[at] = append(insert[at], e)
		}
	}
	if len(insert) == 0 {
		return path
	}
	whole := make([]chainEntry, 0, len(path)+len(insert))
	for i, e := range path {
		whole = append(whole, e)
		added := insert[i]
		byTime := func(a, b chainEntry) int {
			if a.timestamp < b.timestamp {
				return -1
			}
			if a.timestamp > b.timestamp {
				return 1
			}
			return 0
		}
		slices.SortStableFunc(added[:siblings[i]], byTime)
		slices.SortStableFunc(added[siblings[i]:], byTime)
		whole = append(whole, added...)
	}
	return whole
}
