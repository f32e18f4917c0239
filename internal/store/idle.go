package store

import "github.com/aptixhq/aptix/internal/agent"

// SessionKey names a session among those of every organisation.
type SessionKey struct {
	Org     agent.OrgID
	Session agent.SessionID
}
