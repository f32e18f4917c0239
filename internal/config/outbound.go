package config

import (
	"strings"

	"github.com/aptixhq/aptix/internal/outbound"
)

// Outbound says where the server may connect to for others. What the operator configures
// himself, such as the address of the provider, need not stand here.
type Outbound struct {
	// Allow are networks, addresses and hosts that URLs which came over the API may lead to
	// although they are not public, or speak no https; see outbound.ParseAllowlist.
	Allow []string `koanf:"allow"`
}

// Allowlist returns the exceptions for URLs that came over the API.
func (o Outbound) Allowlist() (outbound.Allowlist, error) { return outbound.ParseAllowlist(o.Allow) }

func (o Outbound) problems() Problems {
	if _, err := o.Allowlist(); err != nil {
		return Problems{"outbound.allow: " + err.Error()}
	}
	return nil
}

func outboundSettings() []setting {
	return []setting{{key: "outbound.allow", show: func(c Config) string { return strings.Join(c.Outbound.Allow, ", ") }}}
}
