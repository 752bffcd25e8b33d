package claude

import (
	"iter"
	"slices"

	"github.com/tidwall/gjson"
)

// chainEntry is one link of a conversation: an entry with a uuid, and what the
// order of the conversation depends on.
type chainEntry struct {
	kind, uuid, parent string
	sidechain, meta    bool
	team               bool     // belongs to a teammate's conversation
	messageID          string   // of the model's reply this is part of
	calls              []string // tools it calls, by the call's id
	answers            string   // the call it has the result of
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
		for _, id := range root.Get(`message.content.#(type=="tool_use")#.id`).Array() {
			e.calls = append(e.calls, id.Str)
		}
	case "user":
		e.answers = root.Get(`message.content.#(type=="tool_result").tool_use_id`).Str
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

// newChain reads a session's own transcript.
func newChain(lines iter.Seq[[]byte]) *chain {
	c := &chain{at: make(map[string]int)}
	progress := make(map[string]string) // notes of progress to what they are about
	for line := range lines {
		e, ok := parseChainEntry(line)
		if !ok {
			continue
		}
		if e.kind == "progress" { // old transcripts have them in the line of parents
			progress[e.uuid] = e.parent
			continue
		}
		c.add(e)
	}
	for i := range c.entries {
		e := &c.entries[i]
		for above, ok := progress[e.parent]; ok; above, ok = progress[e.parent] {
			e.parent = above
		}
	}
	c.relink()
	return c
}

func (c *chain) add(e chainEntry) {
	if i, twice := c.at[e.uuid]; twice {
		c.entries[i] = e
		return
	}
	c.at[e.uuid] = len(c.entries)
	c.entries = append(c.entries, e)
}

// subagentConversation returns a subagent's conversation. It has no branches:
// the last message is its end.
func subagentConversation(lines iter.Seq[[]byte]) []chainEntry {
	c := &chain{at: make(map[string]int)}
	leaf := -1
	for line := range lines {
		e, ok := parseChainEntry(line)
		if !ok || e.kind == "progress" || e.kind == "system" {
			continue
		}
		c.add(e)
		if e.kind != "attachment" {
			leaf = c.at[e.uuid]
		}
	}
	if leaf < 0 {
		return nil
	}
	path, _ := c.path(leaf)
	return path
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
	path, on := c.path(leaf)
	return c.withParallelResults(path, on)
}

// path follows the parents of an entry up, and returns them from the top.
func (c *chain) path(leaf int) (path []chainEntry, on map[string]bool) {
	on = make(map[string]bool)
	for i, ok := leaf, true; ok && !on[c.entries[i].uuid]; i, ok = c.up(i) {
		on[c.entries[i].uuid] = true
		path = append(path, c.entries[i])
	}
	slices.Reverse(path)
	return path, on
}

func (c *chain) up(i int) (int, bool) {
	j, ok := c.at[c.entries[i].parent]
	return j, ok
}

// leaf finds the message that the conversation ends with: the one at or above
// the end of the branch that was written last. Replies in side chains and to
// teammates do not lengthen a branch.
func (c *chain) leaf() (int, bool) {
	aside := func(e chainEntry) bool { return e.kind == "assistant" && !e.main() }
	parents := make(map[string]bool, len(c.entries))
	for _, e := range c.entries {
		if !aside(e) {
			parents[e.parent] = true
		}
	}
	for i := len(c.entries) - 1; i >= 0; i-- {
		if e := c.entries[i]; parents[e.uuid] || aside(e) {
			continue
		}
		if j, ok := c.nearestMessage(i); ok {
			return j, true
		}
	}
	return 0, false
}

// main reports whether an entry is a message of the conversation itself,
// rather than of a side chain, a teammate, or claude to the model.
func (e chainEntry) main() bool {
	return !e.sidechain && !e.team && (e.kind == "assistant" || e.kind == "user" && !e.meta)
}

// nearestMessage walks up from the end of a branch to a message of the
// conversation.
func (c *chain) nearestMessage(i int) (int, bool) {
	seen := make(map[int]bool)
	for ok := true; ok && !seen[i]; i, ok = c.up(i) {
		seen[i] = true
		if c.entries[i].main() {
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
	calls := make(map[string]string) // calls, by their id and by their entry's uuid, to the reply
	for _, e := range c.entries {
		if e.kind != "assistant" || e.sidechain {
			continue
		}
		for _, id := range append(e.calls, e.uuid) {
			calls[id] = group(e)
		}
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
		if e.kind != "user" || e.answers == "" || e.sidechain || on[e.uuid] {
			continue
		}
		at, ok := last[calls[e.parent]]
		if !ok {
			at, ok = last[calls[e.answers]]
		}
		if ok {
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
