package main

import (
	"log/slog"
	"net/http"

	"github.com/aptixhq/aptix/internal/auth"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/server"
)

// identity is how a server finds out who its callers are.
type identity struct {
	keys          *auth.Keyring
	authenticator *auth.Authenticator
}

// openIdentity puts the parts together. The keyring has to be closed before the store.
func openIdentity(cfg config.Config, store auth.Store, log *slog.Logger) (identity, error) {
	keys, err := auth.NewKeyring(store, cfg.Auth.OIDC.Configured(), log)
	if err != nil {
		return identity{}, err
	}
	issued, err := tokens(cfg, log)
	if err != nil {
		return identity{}, err
	}
	authenticator, err := auth.New(keys, issued)
	return identity{keys, authenticator}, err
}

// tokens returns the tokens of the configured issuer, nil without one.
func tokens(cfg config.Config, log *slog.Logger) (*auth.Tokens, error) {
	o := cfg.Auth.OIDC
	if !o.Configured() {
		return nil, nil
	}
	client, err := issuerClient(cfg)
	if err != nil {
		return nil, err
	}
	return auth.NewTokens(auth.TokensConfig{
		Issuer: o.Issuer, Audience: o.Audience, Algorithms: o.Algorithms,
		OrgClaim: o.OrgClaim, UserClaim: o.UserClaim, RoleClaim: o.RoleClaim, Roles: o.Roles,
		Client: client, Log: log,
	}), nil
}

// issuerClient is the way to the issuer of tokens, and to where that says its keys are.
func issuerClient(cfg config.Config) (*http.Client, error) {
	allow, err := cfg.Outbound.Allowlist()
	return outbound.NewClient(outbound.Policy{Configured: []string{cfg.Auth.OIDC.Issuer}, Allow: allow}), err
}

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
	if on && !onlyHere(cfg) && !cfg.TLS.Configured() {
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

// onlyHere reports whether only this machine can reach a server.
func onlyHere(cfg config.Config) bool { return server.CheckListen(cfg.Listen, false) == nil }
