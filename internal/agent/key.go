package agent

import "time"

// KeyID names an API key. It is no secret, and begins with when the key was made, so that
// ids in order are keys in order.
type KeyID string

// APIKey is a credential of a user, without its secret.
type APIKey struct {
	ID   KeyID
	Org  OrgID
	User UserID
	Role Role
	// Name is what people call it; may be empty.
	Name      string
	CreatedAt time.Time
	CreatedBy UserID
	// ExpiresAt and RevokedAt are zero for never.
	ExpiresAt time.Time
	RevokedAt time.Time
	// LastUsedAt is right to the hour; zero for a key that nobody has used.
	LastUsedAt time.Time
}

// Expired reports whether the key's time is over.
func (k APIKey) Expired(now time.Time) bool { return !k.ExpiresAt.IsZero() && !now.Before(k.ExpiresAt) }

// Revoked reports whether somebody took the key back.
func (k APIKey) Revoked() bool { return !k.RevokedAt.IsZero() }

// Usable reports whether the key opens anything.
func (k APIKey) Usable(now time.Time) bool { return !k.Revoked() && !k.Expired(now) }
