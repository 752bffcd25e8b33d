package claude

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
)

// MCPServerStatus is the state of one MCP server. Status is "connected",
// "failed", "needs-auth", "pending" or "disabled".
type MCPServerStatus struct {
	Name       string          `json:"name"`
	Status     string          `json:"status"`
	Error      string          `json:"error"`
	Scope      string          `json:"scope"`
	Source     string          `json:"source"`
	ServerInfo json.RawMessage `json:"serverInfo"`
	Tools      []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	} `json:"tools"`
}

// MCPServerStatus returns the state of every MCP server.
func (st *Stream) MCPServerStatus(ctx context.Context) ([]MCPServerStatus, error) {
	var answer struct{ McpServers []MCPServerStatus }
	err := st.ask(ctx, &answer, map[string]any{"subtype": "mcp_status"})
	return answer.McpServers, err
}

// ReconnectMCPServer connects to a server again.
func (st *Stream) ReconnectMCPServer(ctx context.Context, name string) error {
	return st.ask(ctx, nil, map[string]any{"subtype": "mcp_reconnect", "serverName": name})
}

// ToggleMCPServer turns a server on or off.
func (st *Stream) ToggleMCPServer(ctx context.Context, name string, enabled bool) error {
	return st.ask(ctx, nil, map[string]any{"subtype": "mcp_toggle", "serverName": name, "enabled": enabled})
}

// MCPServersChange is what SetMCPServers did.
type MCPServersChange struct {
	Added   []string          `json:"added"`
	Removed []string          `json:"removed"`
	Errors  map[string]string `json:"errors"` // by server, for those that did not connect
}

// SetMCPServers replaces the servers in this program and those that an earlier
// call added. Servers from settings files and plugins stay.
func (st *Stream) SetMCPServers(ctx context.Context, servers map[string]MCPServer) (MCPServersChange, error) {
	defer runtime.KeepAlive(st)
	wire := make(map[string]any, len(servers))
	for name, server := range servers {
		wire[name] = server
		if local, ok := server.(*LocalMCPServer); ok {
			wire[name] = map[string]any{"type": "sdk", "name": name, "timeout": local.Timeout.Milliseconds()}
		}
	}
	if err := st.s.ready(ctx); err != nil {
		return MCPServersChange{}, err
	}
	st.s.callbacks.mcp.replace(servers)
	var change MCPServersChange
	err := st.ask(ctx, &change, map[string]any{"subtype": "mcp_set_servers", "servers": wire})
	return change, err
}

// ContextUsage asks how the context window is filled. The answer's shape is
// claude's own and grows with its versions.
func (st *Stream) ContextUsage(ctx context.Context) (json.RawMessage, error) {
	return st.Control(ctx, map[string]any{"subtype": "get_context_usage"})
}

// BackgroundTasks moves running foreground work into the background: the task
// of one tool call, or all of it when toolUseID is empty.
func (st *Stream) BackgroundTasks(ctx context.Context, toolUseID string) error {
	request := map[string]any{"subtype": "background_tasks"}
	if toolUseID != "" {
		request["tool_use_id"] = toolUseID
	}
	return st.ask(ctx, nil, request)
}

// Settings asks claude for the settings it runs with: the merged ones and
// those of every source.
func (st *Stream) Settings(ctx context.Context) (json.RawMessage, error) {
	body, err := st.Control(ctx, map[string]any{"subtype": "get_settings"})
	if err == nil && len(body) == 0 {
		err = errors.New("claude answered get_settings with nothing")
	}
	return body, err
}
