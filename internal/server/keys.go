package server

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/auth"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/store"
)

// Keys is what the edge needs to manage API keys. A key of another organisation is
// agent.KindNotFound.
type Keys interface {
	// Create makes a key and returns it with its text.
	Create(ctx context.Context, by agent.Caller, n auth.NewKey) (k agent.APIKey, text string, err error)
	// List pages through the keys of the caller's organisation, oldest first.
	List(ctx context.Context, by agent.Caller, p store.Page) ([]agent.APIKey, string, error)
	// Revoke takes a key back, the last admin key only when force says so.
	Revoke(ctx context.Context, by agent.Caller, id agent.KeyID, force bool) (agent.APIKey, error)
}

// APIKey is a key as admins see it: never its text.
type APIKey struct {
	KeyID      agent.KeyID  `json:"keyId"`
	Org        agent.OrgID  `json:"org"`
	User       agent.UserID `json:"user"`
	Role       agent.Role   `json:"role" enum:"user,operator,admin"`
	Name       string       `json:"name,omitempty"`
	CreatedAt  time.Time    `json:"createdAt"`
	CreatedBy  agent.UserID `json:"createdBy"`
	ExpiresAt  *time.Time   `json:"expiresAt,omitempty" doc:"Absent for a key without an end."`
	RevokedAt  *time.Time   `json:"revokedAt,omitempty" doc:"When it was revoked, which is for good."`
	LastUsedAt *time.Time   `json:"lastUsedAt,omitempty" doc:"Right to the hour."`
}

// NewAPIKey is a key in the answer that makes it.
type NewAPIKey struct {
	APIKey
	Key string `json:"key" doc:"The key itself, which is shown this once."`
}

func keyView(k agent.APIKey) APIKey {
	optional := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		t = t.UTC()
		return &t
	}
	return APIKey{
		KeyID: k.ID, Org: k.Org, User: k.User, Role: k.Role, Name: k.Name, CreatedAt: k.CreatedAt.UTC(), CreatedBy: k.CreatedBy,
		ExpiresAt: optional(k.ExpiresAt), RevokedAt: optional(k.RevokedAt), LastUsedAt: optional(k.LastUsedAt),
	}
}

// keyring returns the keys, if this server has any.
func (s *Server) keyring() (Keys, error) {
	if s.keys == nil {
		return nil, errNoRoute()
	}
	return s.keys, nil
}

func (s *Server) createKey(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.keyring()
	if err != nil {
		return err
	}
	body, err := s.readBody(w, r)
	if err != nil {
		return err
	}
	c, err := contract.DecodeCreateKey(body, s.limits)
	if err != nil {
		return err
	}
	by := callerOf(r)
	n := auth.NewKey{Org: c.Org, User: c.User, Role: c.Role, Name: c.Name}
	if n.Org == "" {
		n.Org = by.Org
	}
	if c.ExpiresAt != nil {
		n.ExpiresAt = *c.ExpiresAt
	}
	k, text, err := keys.Create(r.Context(), by, n)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/v1/keys/"+url.PathEscape(string(k.ID)))
	return writeJSON(w, http.StatusCreated, NewAPIKey{keyView(k), text})
}

func (s *Server) listKeys(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.keyring()
	if err != nil {
		return err
	}
	page, err := pageOf(r)
	if err != nil {
		return err
	}
	all, next, err := keys.List(r.Context(), callerOf(r), page)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, listOf(all, next, keyView))
}

func (s *Server) revokeKey(w http.ResponseWriter, r *http.Request) error {
	keys, err := s.keyring()
	if err != nil {
		return err
	}
	force := false
	switch r.URL.Query().Get("force") {
	case "", "false":
	case "true":
		force = true
	default:
		return agent.Errorf(agent.KindInvalidRequest, "force is true or false.")
	}
	k, err := keys.Revoke(r.Context(), callerOf(r), agent.KeyID(r.PathValue("keyId")), force)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, keyView(k))
}
