package contract

import (
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// CreateKey is the body of POST /v1/keys.
type CreateKey struct {
	// Org is the caller's own when empty.
	Org  agent.OrgID  `json:"org,omitempty"`
	User agent.UserID `json:"user"`
	// Role is user when empty.
	Role agent.Role `json:"role,omitempty"`
	Name string     `json:"name,omitempty"`
	// ExpiresAt is nil for never.
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
}

// DecodeCreateKey reads the body of POST /v1/keys.
func DecodeCreateKey(body []byte, lim Limits) (CreateKey, error) {
	return decode(body, lim, func(o *object) CreateKey {
		k := CreateKey{
			Org:  agent.OrgID(o.get("org").id(ruleIDs)),
			User: agent.UserID(o.need("user", ruleRequired).id(ruleIDs)),
			Role: agent.Role(o.get("role").oneOf(ruleType, string(agent.RoleUser), string(agent.RoleOperator), string(agent.RoleAdmin))),
			Name: o.get("name").str(ruleType),
		}
		v := o.get("expiresAt")
		if text, ok := v.text(ruleType); ok {
			at, err := time.Parse(time.RFC3339, text)
			if err != nil {
				v.fault(ruleType, "is %s; write a time as 2030-01-31T12:00:00Z, or leave it out for a key without an end.", quote(text))
			}
			k.ExpiresAt = &at
		}
		o.done("a new key")
		return k
	})
}
