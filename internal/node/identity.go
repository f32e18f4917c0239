package node

import (
	"log/slog"
	"net/http"

	"github.com/aptixhq/aptix/internal/auth"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/outbound"
	"github.com/aptixhq/aptix/internal/server"
)

// identity is how a node finds out who its callers are.
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
	issued, err := Tokens(cfg, log)
	if err != nil {
		return identity{}, err
	}
	authenticator, err := auth.New(keys, issued)
	return identity{keys, authenticator}, err
}

// Tokens returns the tokens of the configured issuer, nil without one.
func Tokens(cfg config.Config, log *slog.Logger) (*auth.Tokens, error) {
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

// OnlyHere reports whether only this machine can reach the address that is configured.
func OnlyHere(cfg config.Config) bool { return server.CheckListen(cfg.Listen, false) == nil }
