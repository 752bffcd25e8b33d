package claude

import (
	"encoding/json"
	"fmt"
)

// SystemMessage is news about the session. Subtype says which; Init and
// MirrorError decode the two that most callers want, Decode any other.
type SystemMessage struct{ Envelope }

// The subtypes of a [SystemMessage] that this package gives a shape.
const (
	SystemInit        = "init"
	SystemMirrorError = "mirror_error"
)

// Init is the first message of a session: what claude runs with.
type Init struct {
	SessionID         string          `json:"session_id"`
	ClaudeCodeVersion string          `json:"claude_code_version"`
	APIKeySource      string          `json:"apiKeySource"`
	Cwd               string          `json:"cwd"`
	Model             string          `json:"model"`
	PermissionMode    PermissionMode  `json:"permissionMode"`
	OutputStyle       string          `json:"output_style"`
	Tools             []string        `json:"tools"`
	Agents            []string        `json:"agents"`
	Skills            []string        `json:"skills"`
	SlashCommands     []string        `json:"slash_commands"`
	Capabilities      []string        `json:"capabilities"`
	MCPServers        []MCPServerInit `json:"mcp_servers"`
}

// MCPServerInit is the state of one MCP server at the start of a session.
type MCPServerInit struct {
	Name   string `json:"name"`
	Status string `json:"status"`
	Source string `json:"source"`
}

// Init decodes an init message; ok is false for any other subtype.
func (m *SystemMessage) Init() (init Init, ok bool) {
	if m.Subtype != SystemInit {
		return Init{}, false
	}
	return init, m.Decode(&init) == nil
}

// MirrorError says that entries did not reach the session store. They are in
// the local transcript still; see [Options.SessionStore].
type MirrorError struct {
	Error string     `json:"error"`
	Key   SessionKey `json:"key"`
}

// MirrorError decodes a mirror_error message; ok is false for any other
// subtype.
func (m *SystemMessage) MirrorError() (failure MirrorError, ok bool) {
	if m.Subtype != SystemMirrorError {
		return MirrorError{}, false
	}
	return failure, m.Decode(&failure) == nil
}

func newMirrorError(id string, key SessionKey, cause error) (Message, error) {
	raw, err := json.Marshal(map[string]any{
		"type": "system", "subtype": SystemMirrorError, "error": cause.Error(),
		"key": key, "uuid": id, "session_id": key.SessionID,
	})
	if err != nil {
		return nil, fmt.Errorf("encode mirror error: %w", err)
	}
	return decodeMessage(raw)
}
