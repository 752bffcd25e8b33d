package claude

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// MCPServer is a server claude can use: a [StdioMCPServer] it starts, a
// [RemoteMCPServer] it connects to, or a *[LocalMCPServer] in this program.
type MCPServer interface{ mcpServer() }

// StdioMCPServer is a command that claude starts.
type StdioMCPServer struct {
	Command    string
	Args       []string
	Env        map[string]string
	Timeout    time.Duration // of one tool call; 0 is claude's default
	AlwaysLoad bool          // never defer its tools behind tool search
}

// RemoteMCPServer is a server that claude connects to. Type is "http", the
// default, or "sse".
type RemoteMCPServer struct {
	Type       string
	URL        string
	Headers    map[string]string
	Timeout    time.Duration
	AlwaysLoad bool
}

func (StdioMCPServer) mcpServer()  {}
func (RemoteMCPServer) mcpServer() {}
func (*LocalMCPServer) mcpServer() {}

// MarshalJSON encodes the server as an entry of claude's MCP configuration.
func (s StdioMCPServer) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Command    string            `json:"command"`
		Args       []string          `json:"args,omitempty"`
		Env        map[string]string `json:"env,omitempty"`
		Timeout    int64             `json:"timeout,omitempty"`
		AlwaysLoad bool              `json:"alwaysLoad,omitempty"`
	}{s.Command, s.Args, s.Env, s.Timeout.Milliseconds(), s.AlwaysLoad})
}

// MarshalJSON encodes the server as an entry of claude's MCP configuration.
func (s RemoteMCPServer) MarshalJSON() ([]byte, error) {
	kind := s.Type
	if kind == "" {
		kind = "http"
	}
	return json.Marshal(struct {
		Type       string            `json:"type"`
		URL        string            `json:"url"`
		Headers    map[string]string `json:"headers,omitempty"`
		Timeout    int64             `json:"timeout,omitempty"`
		AlwaysLoad bool              `json:"alwaysLoad,omitempty"`
	}{kind, s.URL, s.Headers, s.Timeout.Milliseconds(), s.AlwaysLoad})
}

// LocalMCPServer runs in this program: its tools are Go functions. One server
// can serve many queries at once. Set the fields before the first of them.
type LocalMCPServer struct {
	Name, Version string
	Instructions  string        // told to the model
	Timeout       time.Duration // of one tool call; 0 is claude's default
	AlwaysLoad    bool          // never defer the tools behind tool search

	tools []ToolDef
	once  sync.Once
	srv   *mcp.Server
}

// NewMCPServer makes a server of tools; see [Tool]. It panics when a tool's Go
// types cannot be described by a JSON Schema, which is a mistake in the program.
func NewMCPServer(name, version string, tools ...ToolDef) *LocalMCPServer {
	s := &LocalMCPServer{Name: name, Version: version, tools: tools}
	probe := mcp.NewServer(&mcp.Implementation{Name: name, Version: version}, nil)
	for _, tool := range tools {
		tool.add(probe, false)
	}
	return s
}

// WrapMCPServer lets claude use a server built with the official MCP SDK, with
// resources, prompts and whatever else that offers.
func WrapMCPServer(server *mcp.Server) *LocalMCPServer {
	s := &LocalMCPServer{srv: server}
	s.once.Do(func() {})
	return s
}

// MCP returns the underlying server of the official MCP SDK.
func (s *LocalMCPServer) MCP() *mcp.Server {
	s.once.Do(func() {
		s.srv = mcp.NewServer(&mcp.Implementation{Name: s.Name, Version: s.Version},
			&mcp.ServerOptions{
				Instructions: s.Instructions,
				Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
			})
		for _, tool := range s.tools {
			tool.add(s.srv, s.AlwaysLoad)
		}
	})
	return s.srv
}

// ToolDef is a tool on its way into [NewMCPServer].
type ToolDef struct {
	// Tool has the name, the description and the annotations. A schema set here
	// replaces the one inferred from the Go type.
	Tool mcp.Tool
	// SearchHint helps tool search find the tool; AlwaysLoad keeps it from
	// being deferred.
	SearchHint string
	AlwaysLoad bool

	register func(*mcp.Server, *mcp.Tool)
}

func (d ToolDef) add(server *mcp.Server, alwaysLoad bool) {
	tool := d.Tool
	if d.SearchHint != "" || d.AlwaysLoad || alwaysLoad {
		meta := mcp.Meta{}
		for k, v := range tool.Meta {
			meta[k] = v
		}
		if d.SearchHint != "" {
			meta["anthropic/searchHint"] = d.SearchHint
		}
		if d.AlwaysLoad || alwaysLoad {
			meta["anthropic/alwaysLoad"] = true
		}
		tool.Meta = meta
	}
	d.register(server, &tool)
}

// ToolResult is what a tool returns when text or a struct will not do: images,
// several blocks, or an error with blocks.
type ToolResult struct {
	Content []mcp.Content
	IsError bool
}

// TextBlock is a text block of a [ToolResult].
func TextBlock(text string) mcp.Content { return &mcp.TextContent{Text: text} }

// ImageBlock is an image block of a [ToolResult].
func ImageBlock(mimeType string, data []byte) mcp.Content {
	return &mcp.ImageContent{MIMEType: mimeType, Data: data}
}

// Tool makes a tool of a Go function. The input schema comes from In, a struct
// (or map) whose json tags name the arguments and whose jsonschema tags
// describe them; input that does not match never reaches the function.
//
// Out is string for text, *[ToolResult] for anything the protocol can carry, or
// any other type, which goes out as JSON with a schema of its own. A returned
// error is shown to the model as a failed call, so that it can try again.
func Tool[In, Out any](name, description string, handler func(ctx context.Context, in In) (Out, error)) ToolDef {
	def := ToolDef{Tool: mcp.Tool{Name: name, Description: description}}
	switch any((*Out)(nil)).(type) {
	case *string, **ToolResult:
		def.register = func(server *mcp.Server, tool *mcp.Tool) {
			mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, any, error) {
				out, err := handler(ctx, in)
				if err != nil {
					return nil, nil, err
				}
				return unstructured(out), nil, nil
			})
		}
	default:
		def.register = func(server *mcp.Server, tool *mcp.Tool) {
			mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
				out, err := handler(ctx, in)
				return nil, out, err
			})
		}
	}
	return def
}

func unstructured(out any) *mcp.CallToolResult {
	switch out := out.(type) {
	case string:
		return &mcp.CallToolResult{Content: []mcp.Content{TextBlock(out)}}
	case *ToolResult:
		if out == nil {
			return &mcp.CallToolResult{Content: []mcp.Content{}}
		}
		return &mcp.CallToolResult{Content: out.Content, IsError: out.IsError}
	}
	panic(fmt.Sprintf("claude: tool returned %T", out)) // Tool admits no other type here
}
