package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
)

// AuditEntry is one line of the audit log. It has ids and never contents.
type AuditEntry struct {
	ID     string    `json:"id"`
	At     time.Time `json:"at"`
	Action string    `json:"action"`
	User   string    `json:"user,omitempty"`
	// Role is the caller's, or "server" for what the server did by itself.
	Role         string            `json:"role"`
	CredentialID string            `json:"credentialId,omitempty"`
	SessionID    string            `json:"sessionId,omitempty"`
	TurnID       string            `json:"turnId,omitempty"`
	Subject      string            `json:"subject,omitempty"`
	RequestID    string            `json:"requestId,omitempty"`
	Address      string            `json:"address,omitempty"`
	Details      map[string]string `json:"details,omitempty"`
}

// AuditFilter narrows the audit log; what is empty says nothing.
type AuditFilter struct {
	Session, User, Action string
	// Since is the earliest time, Until the first that is too late.
	Since, Until time.Time
}

// Audit lists who did what, newest first.
func (c *Client) Audit(ctx context.Context, f AuditFilter, p Page) (List[AuditEntry], error) {
	q := p.query()
	for name, value := range map[string]string{"session": f.Session, "user": f.User, "action": f.Action, "since": stamp(f.Since), "until": stamp(f.Until)} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var out List[AuditEntry]
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "audit"), query: q, repeat: true}, &out)
	return out, err
}

func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Erasure is the erasing of a user, or of the organisation.
type Erasure struct {
	ErasureID string `json:"erasureId"`
	// User is empty when it is the organisation.
	User string `json:"user,omitempty"`
	// State is "running" or "finished".
	State      string     `json:"state"`
	Sessions   int64      `json:"sessions"`
	AcceptedAt time.Time  `json:"acceptedAt"`
	FinishedAt *time.Time `json:"finishedAt,omitempty"`
}

// EraseUser has every session of a user erased, and his name elsewhere. The server does it
// in pieces; Erasure tells how far it is.
func (c *Client) EraseUser(ctx context.Context, userID string) (*Erasure, error) {
	var out Erasure
	err := c.call(ctx, request{method: http.MethodDelete, path: at("v1", "users", userID), repeat: true}, &out)
	return orNil(&out, err)
}

// EraseOrganisation has everything erased that the caller's organisation has; confirm is
// its id.
func (c *Client) EraseOrganisation(ctx context.Context, confirm string) (*Erasure, error) {
	var out Erasure
	err := c.call(ctx, request{method: http.MethodDelete, path: at("v1", "organisation"), query: url.Values{"confirm": {confirm}}, repeat: true}, &out)
	return orNil(&out, err)
}

// Erasure returns how far an erasure is.
func (c *Client) Erasure(ctx context.Context, erasureID string) (*Erasure, error) {
	var out Erasure
	err := c.call(ctx, request{method: http.MethodGet, path: at("v1", "erasures", erasureID), repeat: true}, &out)
	return orNil(&out, err)
}
