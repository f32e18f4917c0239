package config

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// Audit configures the audit log.
type Audit struct {
	// Organisation is the one in whose log stands what the server does by itself, such as
	// reading its configuration.
	Organisation agent.OrgID `koanf:"organisation"`
}

// Webhooks configure how messages to webhooks are delivered.
type Webhooks struct {
	// Retry is for how long a message is tried.
	Retry time.Duration `koanf:"retry"`
}

// leastAuditRetention is what the store keeps in any case.
const leastAuditRetention = 48 * time.Hour

// auditProblems returns what is wrong with the settings of the audit log and of webhooks.
func (c Config) auditProblems() Problems {
	var p Problems
	if c.Audit.Organisation == "" {
		p = append(p, "audit.organisation: want the id of an organisation")
	}
	if r := c.Retention.Audit; r != 0 && r < leastAuditRetention {
		p = append(p, fmt.Sprintf("retention.audit: must be %s or more; 0 keeps the audit log for ever", leastAuditRetention))
	}
	if c.Webhooks.Retry <= 0 {
		p = append(p, "webhooks.retry: must be more than zero")
	}
	return p
}

// auditSettings are those of the audit log and of webhooks.
func auditSettings() []setting {
	return []setting{
		{key: "retention.audit", show: func(c Config) string { return keptFor(c.Retention.Audit) }},
		{key: "audit.organisation", show: func(c Config) string { return string(c.Audit.Organisation) }},
		{key: "webhooks.retry", show: func(c Config) string { return c.Webhooks.Retry.String() }},
	}
}

func keptFor(d time.Duration) string {
	if d == 0 {
		return "for ever"
	}
	return d.String()
}

// SHA256 is the hash of all settings as doctor shows them: with secrets masked, so that it
// tells nothing about them.
func (c Config) SHA256() string {
	h := sha256.New()
	for _, s := range c.Settings() {
		_, _ = fmt.Fprintf(h, "%s=%s\n", s.Key, s.Value)
	}
	return hex.EncodeToString(h.Sum(nil))
}
