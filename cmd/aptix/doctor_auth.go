package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/node"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/store/postgres"
	"github.com/aptixhq/aptix/internal/store/sqlite"
)

// authChecks look at who is let in, and by which way.
func authChecks(cfg config.Config) []check {
	checks := []check{
		{"address", probeTime, func(ctx context.Context) (string, error) { return checkAddress(ctx, cfg) }},
		{"authentication", probeTime, func(ctx context.Context) (string, error) { return checkKeys(ctx, cfg) }},
	}
	if cfg.TLS.Configured() {
		checks = append(checks, check{"TLS", probeTime, func(context.Context) (string, error) { return checkTLS(cfg) }})
	}
	if cfg.Auth.OIDC.Configured() {
		checks = append(checks, check{"issuer", probeTime, func(ctx context.Context) (string, error) { return checkIssuer(ctx, cfg) }})
	}
	return checks
}

func checkAddress(ctx context.Context, cfg config.Config) (string, error) {
	on := cfg.Auth.OIDC.Configured()
	if !on && !node.OnlyHere(cfg) {
		var err error
		if on, err = anyKey(ctx, cfg); errors.Is(err, sqlite.ErrLocked) {
			on = true // by the server, which has looked itself
		}
	}
	if err := server.CheckListen(cfg.Listen, on); err != nil {
		return "", err
	}
	if !node.OnlyHere(cfg) && !cfg.TLS.Configured() {
		return cfg.Listen + ", without TLS: keys can be read on the way unless a proxy beside it speaks TLS", nil
	}
	return cfg.Listen, nil
}

// checkKeys says what callers authenticate with.
func checkKeys(ctx context.Context, cfg config.Config) (string, error) {
	found, err := anyKey(ctx, cfg)
	switch {
	case errors.Is(err, sqlite.ErrLocked):
		return "a server has the keys; 'aptix keys list' shows them", nil
	case err != nil:
		return "", err
	case cfg.Auth.OIDC.Configured():
		return "on: API keys, and tokens of " + cfg.Auth.OIDC.Issuer, nil
	case found:
		return "on: API keys", nil
	}
	return "off: only this machine is answered; the first 'aptix keys create' turns it on", nil
}

// anyKey reports whether there is a key in the store. It makes and migrates none.
func anyKey(ctx context.Context, cfg config.Config) (found bool, err error) {
	if connection, ok := cfg.PostgreSQL(); ok {
		if has, wants, err := postgres.Schema(ctx, connection); err != nil || has != wants {
			return false, err
		}
	} else if _, err := os.Stat(cfg.DatabasePath()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	store, err := node.OpenStore(ctx, cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return store.AnyKey(ctx)
}

func checkTLS(cfg config.Config) (string, error) {
	c, err := readCertificate(cfg.TLS, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	leaf := c.now.Load().Leaf
	return fmt.Sprintf("%s, for %v until %s", cfg.TLS.Cert, leaf.DNSNames, when(leaf.NotAfter)), nil
}

func checkIssuer(ctx context.Context, cfg config.Config) (string, error) {
	issued, err := node.Tokens(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	if err := issued.Reach(ctx); err != nil {
		return "", fmt.Errorf("%s: %w", cfg.Auth.OIDC.Issuer, err)
	}
	return cfg.Auth.OIDC.Issuer + " answers", nil
}
