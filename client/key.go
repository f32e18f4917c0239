package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// NewKey describes an API key to be made.
type NewKey struct {
	// Org is the caller's own when empty. Only the first key of a server may be of another.
	Org  string `json:"org,omitempty"`
	User string `json:"user"`
	// Role is "user", which it is when empty, "operator" or "admin".
	Role string `json:"role,omitempty"`
	Name string `json:"name,omitempty"`
	// ExpiresAt is nil for never.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// Key is an API key without its text.
type Key struct {
	KeyID     string     `json:"keyId"`
	Org       string     `json:"org"`
	User      string     `json:"user"`
	Role      string     `json:"role"`
	Name      string     `json:"name,omitempty"`
	CreatedAt time.Time  `json:"createdAt"`
	CreatedBy string     `json:"createdBy"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	RevokedAt *time.Time `json:"revokedAt,omitempty"`
	// LastUsedAt is right to the hour.
	LastUsedAt *time.Time `json:"lastUsedAt,omitempty"`
}

// CreatedKey is a key with its text, which is told this once.
type CreatedKey struct {
	Key
	Secret string `json:"key"`
}

// CreateKey makes an API key. It needs one of role admin, except on a server that has none
// yet. It is not repeated when the connection is lost: a key of which nobody has the text
// may then be in the list.
func (c *Client) CreateKey(ctx context.Context, k NewKey) (*CreatedKey, error) {
	var out CreatedKey
	err := c.call(ctx, request{method: http.MethodPost, path: at("v1", "keys"), body: k}, &out)
	return orNil(&out, err)
}

// Keys lists the API keys of the caller's organisation, oldest first.
func (c *Client) Keys(ctx context.Context, p Page) (List[Key], error) {
	var out List[Key]
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "keys"), query: p.query(), repeat: true}, &out)
	return out, err
}

// RevokeKey takes a key back for good; the last one of role admin only with force.
func (c *Client) RevokeKey(ctx context.Context, id string, force bool) (*Key, error) {
	r := request{method: http.MethodDelete, path: at("v1", "keys", id), repeat: true}
	if force {
		r.query = url.Values{"force": {"true"}}
	}
	var out Key
	err := c.call(ctx, r, &out)
	return orNil(&out, err)
}
