package admin

import (
	"context"
	"encoding/json"

	"github.com/lambae/lambae/sdk/lambae"
)

// Provider is a model provider of the server's configuration.
type Provider struct {
	Name     string `json:"name"`
	Provider string `json:"provider"` // wire format
	Model    string `json:"model"`
	BaseURL  string `json:"base_url"` // the effective one
}

// MCPServer is an MCP server of the server's configuration.
type MCPServer struct {
	Name      string `json:"name"`
	Transport string `json:"transport"`
}

// SandboxStatus is the state of a profile's sandbox images.
type SandboxStatus struct {
	ProfileID string                `json:"profile_id"`
	Images    []lambae.SandboxImage `json:"images"`
}

// Providers lists the configured model providers by name.
func (c *Client) Providers(ctx context.Context) ([]Provider, error) {
	return list[Provider](ctx, c, "list providers", "providers")
}

// MCPServers lists the configured MCP servers by name.
func (c *Client) MCPServers(ctx context.Context) ([]MCPServer, error) {
	return list[MCPServer](ctx, c, "list MCP servers", "mcp-servers")
}

// SandboxStatus lists the state of every profile's sandbox images.
func (c *Client) SandboxStatus(ctx context.Context) ([]SandboxStatus, error) {
	return list[SandboxStatus](ctx, c, "read sandbox status", "sandbox-status")
}

// Config is the server's configuration as JSON, with every secret masked.
func (c *Client) Config(ctx context.Context) (json.RawMessage, error) {
	config, err := get[json.RawMessage](ctx, c, "read configuration", "config", nil)
	if err != nil {
		return nil, err
	}
	return *config, nil
}

func list[T any](ctx context.Context, c *Client, doing, path string) ([]T, error) {
	all, err := page[T](ctx, c, doing, path, nil)
	if err != nil {
		return nil, err
	}
	return all.Items, nil
}
