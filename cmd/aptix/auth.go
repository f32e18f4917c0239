package main

import (
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/node"
)

// security says in the banner who is let in, and what is missing.
func security(cfg config.Config, on bool) []string {
	var lines []string
	switch {
	case cfg.Auth.OIDC.Configured():
		lines = append(lines, "on: API keys, and tokens of "+cfg.Auth.OIDC.Issuer)
	case on:
		lines = append(lines, "on: API keys")
	default:
		lines = append(lines, "off, for this machine only; 'aptix keys create --org ORG --user USER --role admin' turns it on")
	}
	if on && !node.OnlyHere(cfg) && !cfg.TLS.Configured() {
		lines = append(lines, "WARNING: no TLS. Keys and conversations can be read on the way, unless a proxy in the same",
			"trusted network speaks TLS for it. Set tls.cert and tls.key, or --tls-cert and --tls-key.")
	}
	return lines
}

// scheme is how URLs of the server begin.
func scheme(cfg config.Config) string {
	if cfg.TLS.Configured() {
		return "https://"
	}
	return "http://"
}
