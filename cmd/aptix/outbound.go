package main

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/config"
)

// outboundPolicy says where a server with this configuration may connect to over HTTP.
func outboundPolicy(cfg config.Config) string {
	var addresses []string
	if cfg.Provider == config.ProviderOpenAI {
		addresses = append(addresses, cfg.OpenAI.BaseURL)
	}
	if cfg.Embeddings.Model != "" {
		addresses = append(addresses, cfg.Embeddings.BaseURL)
	}
	for _, s := range cfg.MCP.Servers {
		addresses = append(addresses, s.URL)
	}
	var hosts []string
	for _, a := range addresses {
		if u, err := url.Parse(a); err == nil && u.Host != "" && !slices.Contains(hosts, u.Host) {
			hosts = append(hosts, u.Host)
		}
	}
	others := "public addresses over https"
	if len(cfg.Outbound.Allow) > 0 {
		others += ", and " + strings.Join(cfg.Outbound.Allow, ", ")
	}
	return "as configured: " + cmp.Or(strings.Join(hosts, ", "), "nothing") + "; for URLs that came over the API: " + others
}
