package claude

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
)

// SessionMessage is a message of a session that was.
type SessionMessage struct {
	Type      string          `json:"type"` // "user", "assistant" or "system"
	UUID      string          `json:"uuid"`
	SessionID string          `json:"session_id"`
	Message   json.RawMessage `json:"message"` // in the shape of the Messages API
	// ParentAgentID is the subagent that started this one, if another did.
	ParentAgentID string `json:"parent_agent_id"`
	Timestamp     string `json:"timestamp,omitempty"`
}

// Text returns the message's text.
func (m SessionMessage) Text() string {
	return Content(gjson.GetBytes(m.Message, "content").Raw).Text()
}

// MessagesOptions say which messages to return.
type MessagesOptions struct {
	SessionOptions
	Limit, Offset int // a limit of 0 is none
	// IncludeSystem returns claude's own notes, such as compactions, as well.
	IncludeSystem bool
}

// GetSessionMessages returns the conversation of a session in order, as it
// stands: without abandoned branches, side chains, and what a compaction
// replaced. There are none for a session that does not exist.
func GetSessionMessages(ctx context.Context, id string, opts *MessagesOptions) ([]SessionMessage, error) {
	if opts == nil {
		opts = &MessagesOptions{}
	}
	if !isUUID(id) {
		return nil, nil
	}
	lines, err := transcriptLines(ctx, id, &opts.SessionOptions)
	if err != nil {
		return nil, err
	}
	var messages []SessionMessage
	for _, e := range newChain(lines).conversation() {
		if e.meta || e.team || e.sidechain || e.kind == "system" && !opts.IncludeSystem {
			continue
		}
		if m, ok := e.message(""); ok {
			messages = append(messages, m)
		}
	}
	return page(messages, opts.Limit, opts.Offset), nil
}

func (e chainEntry) message(parentAgent string) (SessionMessage, bool) {
	if e.kind != "user" && e.kind != "assistant" && e.kind != "system" {
		return SessionMessage{}, false
	}
	root := gjson.ParseBytes(e.raw)
	m := SessionMessage{
		Type: e.kind, UUID: e.uuid, SessionID: root.Get("sessionId").Str, Timestamp: e.timestamp, ParentAgentID: parentAgent,
	}
	if message := root.Get("message"); message.Exists() {
		m.Message = json.RawMessage(message.Raw)
	}
	return m, true
}

// transcriptLines reads a session's transcript, nothing if there is none.
func transcriptLines(ctx context.Context, id string, opts *SessionOptions) (iter.Seq[[]byte], error) {
	if opts.Store != nil {
		key, err := opts.key(id)
		if err != nil {
			return nil, err
		}
		return storedLines(ctx, opts.Store, key)
	}
	path, _, err := opts.find(ctx, id)
	if errors.Is(err, ErrSessionNotFound) {
		return jsonLines(nil), nil
	}
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read session %s: %w", id, err)
	}
	return jsonLines(data), nil
}

func storedLines(ctx context.Context, store SessionStore, key SessionKey) (iter.Seq[[]byte], error) {
	entries, err := store.Load(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("load session %s from the store: %w", key, err)
	}
	return func(yield func([]byte) bool) {
		for _, e := range entries {
			if !yield(e) {
				return
			}
		}
	}, nil
}

// jsonLines yields the lines that are JSON; a transcript may end in the middle
// of one, and others may be damaged.
func jsonLines(data []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(data) {
			line = bytes.TrimSpace(line)
			if len(line) > 0 && gjson.ValidBytes(line) && !yield(line) {
				return
			}
		}
	}
}

// ListSubagents returns the ids of the subagents of a session, sorted. A store
// needs [SubkeyLister].
func ListSubagents(ctx context.Context, id string, opts *SessionOptions) ([]string, error) {
	opts = opts.orDefault()
	if !isUUID(id) {
		return nil, nil
	}
	found, err := subagents(ctx, id, opts)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, a := range found {
		ids = append(ids, a.id)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// GetSubagentMessages returns a subagent's conversation: the messages of its
// user and of the model. There are none for a subagent that does not exist.
func GetSubagentMessages(ctx context.Context, id, agentID string, opts *MessagesOptions) ([]SessionMessage, error) {
	if opts == nil {
		opts = &MessagesOptions{}
	}
	if !isUUID(id) || agentID == "" {
		return nil, nil
	}
	found, err := subagents(ctx, id, &opts.SessionOptions)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(found, func(a subagent) bool { return a.id == agentID })
	if i < 0 {
		return nil, nil
	}
	lines, meta, err := found[i].read(ctx)
	if err != nil {
		return nil, err
	}
	parent := gjson.GetBytes(meta, "parentAgentId").Str
	var messages []SessionMessage
	for _, e := range subagentConversation(lines) {
		if e.kind != "user" && e.kind != "assistant" {
			continue
		}
		if m, ok := e.message(parent); ok {
			messages = append(messages, m)
		}
	}
	return page(messages, opts.Limit, opts.Offset), nil
}

// subagent is a subagent's transcript and the way to read it.
type subagent struct {
	id   string
	read func(context.Context) (lines iter.Seq[[]byte], meta []byte, err error)
}

func subagents(ctx context.Context, id string, opts *SessionOptions) ([]subagent, error) {
	if opts.Store != nil {
		return storedSubagents(ctx, id, opts)
	}
	path, _, err := opts.find(ctx, id)
	if errors.Is(err, ErrSessionNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []subagent
	err = walkSubagents(strings.TrimSuffix(path, ".jsonl"), func(path, _ string) error {
		if agent, ok := agentIDOf(path); ok {
			found = append(found, subagent{id: agent, read: func(context.Context) (iter.Seq[[]byte], []byte, error) {
				data, err := os.ReadFile(path)
				if err != nil {
					return nil, nil, fmt.Errorf("read subagent %s: %w", agent, err)
				}
				meta, _ := os.ReadFile(strings.TrimSuffix(path, ".jsonl") + ".meta.json") // absent for old ones
				return jsonLines(data), meta, nil
			}})
		}
		return nil
	})
	return found, err
}

func agentIDOf(path string) (string, bool) {
	name, ok := strings.CutSuffix(filepath.Base(path), ".jsonl")
	if !ok {
		return "", false
	}
	return strings.CutPrefix(name, "agent-")
}

// walkSubagents calls visit for every transcript under a session's folder of
// subagents, with its subpath. Links are not followed: they could lead
// anywhere.
func walkSubagents(session string, visit func(path, subpath string) error) error {
	root := filepath.Join(session, "subagents")
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path == root && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return fmt.Errorf("list subagents: %w", err)
		}
		if !d.Type().IsRegular() || !strings.HasSuffix(path, ".jsonl") {
			return nil
		}
		rel, err := filepath.Rel(session, strings.TrimSuffix(path, ".jsonl"))
		if err != nil {
			return err
		}
		return visit(path, filepath.ToSlash(rel))
	})
}

func storedSubagents(ctx context.Context, id string, opts *SessionOptions) ([]subagent, error) {
	lister, ok := opts.Store.(SubkeyLister)
	if !ok {
		return nil, unsupported("list subagents", "ListSubkeys")
	}
	key, err := opts.key(id)
	if err != nil {
		return nil, err
	}
	subpaths, err := lister.ListSubkeys(ctx, key.ProjectKey, id)
	if err != nil {
		return nil, fmt.Errorf("list subagents of session %s in the store: %w", key, err)
	}
	var found []subagent
	for _, subpath := range subpaths {
		agent, ok := agentIDOf(subpath + ".jsonl")
		if !ok || !strings.HasPrefix(subpath, "subagents/") {
			continue
		}
		key := key
		key.Subpath = subpath
		found = append(found, subagent{id: agent, read: func(ctx context.Context) (iter.Seq[[]byte], []byte, error) {
			entries, err := opts.Store.Load(ctx, key)
			if err != nil {
				return nil, nil, fmt.Errorf("load subagent %s from the store: %w", key, err)
			}
			transcript, meta := splitAgentMetadata(entries)
			return slices.Values(asBytes(transcript)), meta, nil
		}})
	}
	return found, nil
}

func asBytes(entries []Entry) [][]byte {
	out := make([][]byte, len(entries))
	for i, e := range entries {
		out[i] = e
	}
	return out
}
