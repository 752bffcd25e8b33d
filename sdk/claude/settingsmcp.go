package claude

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
)

// MCPServers returns the MCP servers a session in this place would have, by
// name: those of .mcp.json, of the user's and the project's entries in
// claude's state file, and of Options.MCPServers, which prevail in that order.
// Whether claude may use each is for its settings and the user to say.
func (r *ResolvedSettings) MCPServers() map[string]ResolvedMCPServer { return maps.Clone(r.servers) }

// ResolvedMCPServer is an MCP server's configuration and where it comes from.
type ResolvedMCPServer struct {
	// Scope is "project" (.mcp.json), "user", "local" or "dynamic" (Options).
	Scope  string
	Path   string // of the file
	Config json.RawMessage
}

func (r *ResolvedSettings) addMCPServers(opts *Options, dir string, env environ) error {
	r.servers = make(map[string]ResolvedMCPServer)
	var project struct {
		MCPServers map[string]json.RawMessage `json:"mcpServers"`
	}
	if !opts.StrictMCPConfig {
		path := filepath.Join(dir, ".mcp.json")
		r.readConfig(path, &project)
		r.addServers("project", path, project.MCPServers)

		var state struct {
			MCPServers map[string]json.RawMessage `json:"mcpServers"`
			Projects   map[string]struct {
				MCPServers map[string]json.RawMessage `json:"mcpServers"`
			} `json:"projects"`
		}
		path = env.stateFile()
		r.readConfig(path, &state)
		r.addServers("user", path, state.MCPServers)
		r.addServers("local", path, state.Projects[dir].MCPServers)
	}
	for name, server := range opts.MCPServers {
		config := json.RawMessage(`{"type":"sdk"}`)
		if _, local := server.(*LocalMCPServer); !local {
			encoded, err := json.Marshal(server)
			if err != nil {
				return fmt.Errorf("encode MCP server %q: %w", name, err)
			}
			config = encoded
		}
		r.servers[name] = ResolvedMCPServer{Scope: "dynamic", Config: config}
	}
	return nil
}

func (r *ResolvedSettings) addServers(scope, path string, servers map[string]json.RawMessage) {
	for name, config := range servers {
		r.servers[name] = ResolvedMCPServer{Scope: scope, Path: path, Config: config}
	}
}

func (r *ResolvedSettings) readConfig(path string, into any) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		r.Skipped = append(r.Skipped, fmt.Errorf("read MCP servers from %s: %w", path, err))
	}
}
