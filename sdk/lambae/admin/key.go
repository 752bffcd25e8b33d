package admin

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/lambae/lambae/sdk/lambae"
	"github.com/lambae/lambae/sdk/lambae/internal/rest"
)

// Key is a client key without its secret.
type Key struct {
	sent
	ID         string     `json:"id"`
	Name       string     `json:"name"`
	Prefix     string     `json:"prefix"` // first 8 characters of the secret
	ProfileID  string     `json:"profile_id"`
	CreatedAt  time.Time  `json:"created_at"`
	LastUsedAt *time.Time `json:"last_used_at"` // nil for never
}

// CreatedKey is a new client key.
type CreatedKey struct {
	sent
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Key       string    `json:"key"` // the secret, bae_…; shown only here
	Prefix    string    `json:"prefix"`
	ProfileID string    `json:"profile_id"`
	CreatedAt time.Time `json:"created_at"`
}

// CreateKey makes a client key for a profile. Its secret is shown only now.
func (c *Client) CreateKey(ctx context.Context, name, profileID string) (*CreatedKey, error) {
	body := map[string]string{"name": name, "profile_id": profileID}
	return ask[CreatedKey](ctx, c, "create key", rest.Request{Method: http.MethodPost, Path: "keys"}, body)
}

// KeysPage reads one page of the active client keys, oldest first.
func (c *Client) KeysPage(ctx context.Context, cursor string, limit int) (*lambae.Page[Key], error) {
	return page[Key](ctx, c, "list keys", "keys", lambae.PageQuery(cursor, limit))
}

// Keys yields all active client keys, oldest first. An error is yielded last.
func (c *Client) Keys(ctx context.Context) iter.Seq2[Key, error] {
	return pages(func(cursor string, limit int) (*lambae.Page[Key], error) {
		return c.KeysPage(ctx, cursor, limit)
	})
}

// RevokeKey ends a client key for good, and with it its session keys; sessions
// that no other key drives are closed.
func (c *Client) RevokeKey(ctx context.Context, id string) error {
	return c.remove(ctx, "revoke key "+id, at("keys", id))
}
