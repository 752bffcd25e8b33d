package lambae

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// Tool is a tool as a client declares it. Description and InputSchema (a JSON
// Schema) are optional.
type Tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema,omitempty"`
}

// SubagentTool declares a tool that launches command-line agents in the
// session's remote sandbox (seed, "Subagents").
type SubagentTool struct {
	Tool
	Image     string     `json:"image"`
	Subagents []Subagent `json:"subagents"`
}

// Subagent is one agent a [SubagentTool] can launch.
type Subagent struct {
	Harness         string `json:"harness"`
	CommandTemplate string `json:"command_template"`       // may hold {model}, and {prompt} when PromptVia is arg
	PromptVia       string `json:"prompt_via,omitempty"`   // stdin (the server's default) or arg
	TimeoutSecs     int    `json:"timeout_secs,omitempty"` // 0 for the server's default
}

// OpenRequest is what a client declares when it opens or joins a session. The
// names of Tools must be in the profile's allowed tools; the other lists are
// governed by the profile's sandbox images.
type OpenRequest struct {
	ClientVersion string
	Tools         []Tool         // run by this client
	SandboxTools  []Tool         // run by the server in the remote sandbox
	SubagentTools []SubagentTool // run by the server in the remote sandbox, detached
	// IdempotencyKey makes a repeated call give the first one's session. It is
	// made anew when empty; give one that is stored to survive a restart.
	IdempotencyKey string
}

// Profile is what a client may know of the profile its session runs on.
type Profile struct {
	ID           string   `json:"id"`
	Name         string   `json:"name"`
	AllowedTools []string `json:"allowed_tools"`
	MCPServers   []string `json:"mcp_servers"`
	Provider     struct {
		Provider string `json:"provider"`
		Model    string `json:"model"`
	} `json:"provider"`
}

// Open starts a new session. A nil request declares nothing.
func (c *Client) Open(ctx context.Context, request *OpenRequest) (*Session, error) {
	session, err := c.open(ctx, "/api/v1/sessions", request)
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	return session, nil
}

// Join enters the session id, which a client key of the same profile opened.
// The joiner gets a session key of its own and declares its own tools.
func (c *Client) Join(ctx context.Context, id string, request *OpenRequest) (*Session, error) {
	path, err := sessionPath(id, "/join")
	if err != nil {
		return nil, err
	}
	session, err := c.open(ctx, path, request)
	if err != nil {
		return nil, fmt.Errorf("join %s: %w", id, err)
	}
	return session, nil
}

func (c *Client) open(ctx context.Context, path string, request *OpenRequest) (*Session, error) {
	if request == nil {
		request = &OpenRequest{}
	}
	// Tools is always sent; the other lists only when used, for old servers.
	body, err := encode(struct {
		ClientVersion string         `json:"client_version,omitempty"`
		Tools         []Tool         `json:"tools"`
		SandboxTools  []Tool         `json:"sandbox_tools,omitempty"`
		SubagentTools []SubagentTool `json:"subagent_tools,omitempty"`
	}{request.ClientVersion, append([]Tool{}, request.Tools...), request.SandboxTools, request.SubagentTools})
	if err != nil {
		return nil, err
	}
	var answer struct {
		SessionID  string  `json:"session_id"`
		SessionKey string  `json:"session_key"`
		Profile    Profile `json:"profile"`
	}
	key := c.idempotencyKey(request.IdempotencyKey)
	if _, err := c.doJSON(ctx, rest.Request{
		Method: http.MethodPost, Path: path, Body: body, IdempotencyKey: key, Repeatable: key != "",
	}, &answer); err != nil {
		return nil, err
	}
	session, err := c.Session(answer.SessionID, answer.SessionKey)
	if err != nil {
		return nil, err
	}
	session.Profile = &answer.Profile
	session.setTools(request.Tools)
	return session, nil
}

// idempotencyKey is the given key or a fresh one, or none if the client is told
// to use none.
func (c *Client) idempotencyKey(given string) string {
	if !c.idempotent || given != "" {
		return given
	}
	return rand.Text()
}
