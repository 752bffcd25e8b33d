package claude

import (
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/tidwall/gjson"
)

func ignoreSignals() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT) }

// playAsk asks the parent one request of every kind and reports the answers.
func playAsk(c *child) {
	answers := map[string]json.RawMessage{}
	ask := func(name string, request any) gjson.Result {
		answer := c.ask(name, request)
		answers[name] = json.RawMessage(answer.Raw)
		return answer
	}
	mcp := func(id any, method string, params any) map[string]any {
		message := map[string]any{"jsonrpc": "2.0", "method": method}
		if id != nil {
			message["id"] = id
		}
		if params != nil {
			message["params"] = params
		}
		return map[string]any{"subtype": "mcp_message", "server_name": "calc", "message": message}
	}
	ask("tool", map[string]any{"subtype": "can_use_tool", "tool_name": "Bash", "tool_use_id": "t1",
		"input": map[string]any{"command": "ls"}, "title": "List files", "novel": 1})
	ask("denied", map[string]any{"subtype": "can_use_tool", "tool_name": "Write", "tool_use_id": "t2", "input": map[string]any{}})
	ask("failed", map[string]any{"subtype": "can_use_tool", "tool_name": "Fail", "tool_use_id": "t3", "input": map[string]any{}})
	ask("hook", map[string]any{"subtype": "hook_callback", "callback_id": "hook_0", "tool_use_id": "t1",
		"input": map[string]any{"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": map[string]any{"command": "ls"}}})
	ask("stop", map[string]any{"subtype": "hook_callback", "callback_id": "hook_1", "input": map[string]any{"hook_event_name": "Stop"}})
	ask("nohook", map[string]any{"subtype": "hook_callback", "callback_id": "hook_99", "input": map[string]any{}})
	ask("initialize", mcp(1, "initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]any{"name": "claude", "version": "1"}}))
	ask("initialized", mcp(nil, "notifications/initialized", nil))
	ask("tools", mcp(2, "tools/list", nil))
	ask("add", mcp(3, "tools/call", map[string]any{"name": "add", "arguments": map[string]any{"a": 2, "b": 40}}))
	ask("image", mcp("four", "tools/call", map[string]any{"name": "image", "arguments": map[string]any{}}))
	ask("broken", mcp(5, "tools/call", map[string]any{"name": "broken", "arguments": map[string]any{}}))
	ask("bad", mcp(6, "tools/call", map[string]any{"name": "add", "arguments": map[string]any{"a": "two"}}))
	ask("noserver", map[string]any{"subtype": "mcp_message", "server_name": "other", "message": map[string]any{"jsonrpc": "2.0", "id": 1, "method": "ping"}})
	ask("elicit", map[string]any{"subtype": "elicitation", "mcp_server_name": "calc", "message": "sure?"})
	if os.Getenv("CHILD_DIALOG") != "" { // nobody answers unless somebody shows it
		ask("dialog", map[string]any{"subtype": "request_user_dialog", "dialog_kind": "colour", "payload": map[string]any{"of": "sky"}})
	}
	ask("unknown", map[string]any{"subtype": "teleport"})
	report, _ := json.Marshal(answers)
	c.result(string(report))
}

// playMirror writes a transcript as claude does, and sends it to the parent:
// one entry per message, and one more as it ends.
func playMirror(c *child) {
	config := os.Getenv("CLAUDE_CONFIG_DIR")
	if config == "" {
		config = filepath.Join(os.Getenv("HOME"), ".claude")
	}
	cwd, _ := os.Getwd()
	session := "11111111-2222-4333-8444-555555555555"
	for i, arg := range c.args {
		if id, ok := cutFlag(arg, "--resume"); ok {
			session = id
			_ = i
		}
	}
	path := filepath.Join(config, "projects", sanitizePath(cwd), session+".jsonl")
	existing, _ := os.ReadFile(path)
	frame := func(path string, entries ...any) {
		c.write(map[string]any{"type": "transcript_mirror", "filePath": path, "entries": entries})
	}
	c.handshake()
	c.write(map[string]any{"type": "system", "subtype": "init", "session_id": session, "cwd": string(existing), "model": config})
	for {
		m, ok := c.read()
		if !ok {
			break
		}
		if m.Get("type").Str != "user" {
			continue
		}
		text := m.Get("message.content.0.text").Str
		frame(path, map[string]any{"type": "user", "uuid": "u-" + text, "message": map[string]any{"content": text}})
		frame("/elsewhere/projects/p/"+session+".jsonl", map[string]any{"type": "user"})
		frame(path[:len(path)-len(".jsonl")]+"/subagents/agent-a.jsonl", map[string]any{"type": "user", "uuid": "s-" + text})
		c.result(text, "user_message_uuids", []string{m.Get("uuid").Str})
	}
	frame(path, map[string]any{"type": "cost-state", "sessionId": session})
}

func cutFlag(arg, name string) (string, bool) {
	if len(arg) > len(name) && arg[:len(name)+1] == name+"=" {
		return arg[len(name)+1:], true
	}
	return "", false
}
