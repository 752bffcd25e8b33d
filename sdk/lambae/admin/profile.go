package admin

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// ProfileSpec is what an administrator sets of a profile. Name and
// PrimaryProvider are required; the lists hold names of registries, of tools
// and of images.
type ProfileSpec struct {
	Name               string   `json:"name"`
	PrimaryProvider    string   `json:"primary_provider"`
	FallbackProviders  []string `json:"fallback_providers"`
	MCPServers         []string `json:"mcp_servers"`
	AllowedTools       []string `json:"allowed_tools"`
	AvailableSandboxes []string `json:"available_sandboxes"`
	SystemPrompt       string   `json:"system_prompt,omitempty"`
	EventTTLDays       int      `json:"event_ttl_days,omitempty"`       // 0 keeps events for ever
	SandboxIdleMinutes int      `json:"sandbox_idle_minutes,omitempty"` // until an unused sandbox stops; 0 is the server's default, 30
}

// Profile is a profile as it is stored.
type Profile struct {
	sent
	ID string `json:"id"`
	ProfileSpec
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// CreatedProfile is the answer to [Client.CreateProfile].
type CreatedProfile struct {
	sent
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	CreatedAt time.Time `json:"created_at"`
}

// CreateProfile makes a profile.
func (c *Client) CreateProfile(ctx context.Context, spec ProfileSpec) (*CreatedProfile, error) {
	request := rest.Request{Method: http.MethodPost, Path: "profiles"}
	return ask[CreatedProfile](ctx, c, "create profile", request, spec.complete())
}

// Profile reads one profile.
func (c *Client) Profile(ctx context.Context, id string) (*Profile, error) {
	return get[Profile](ctx, c, "read profile "+id, at("profiles", id), nil)
}

// ProfilesPage reads one page of the profiles, oldest first.
func (c *Client) ProfilesPage(ctx context.Context, cursor string, limit int) (*lambae.Page[Profile], error) {
	return page[Profile](ctx, c, "list profiles", "profiles", lambae.PageQuery(cursor, limit))
}

// Profiles yields all profiles, oldest first. An error is yielded last.
func (c *Client) Profiles(ctx context.Context) iter.Seq2[Profile, error] {
	return pages(func(cursor string, limit int) (*lambae.Page[Profile], error) {
		return c.ProfilesPage(ctx, cursor, limit)
	})
}

// ReplaceProfile sets everything of a profile; what spec leaves out is reset.
func (c *Client) ReplaceProfile(ctx context.Context, id string, spec ProfileSpec) (*Profile, error) {
	request := rest.Request{Method: http.MethodPut, Path: at("profiles", id)}
	return ask[Profile](ctx, c, "replace profile "+id, request, spec.complete())
}

// DeleteProfile deletes a profile that no active key uses.
func (c *Client) DeleteProfile(ctx context.Context, id string) error {
	return c.remove(ctx, "delete profile "+id, at("profiles", id))
}

// complete makes nil lists empty ones, which is what the API calls "none".
func (s ProfileSpec) complete() ProfileSpec {
	for _, list := range []*[]string{&s.FallbackProviders, &s.MCPServers, &s.AllowedTools, &s.AvailableSandboxes} {
		if *list == nil {
			*list = []string{}
		}
	}
	return s
}
