package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/auth"
	"github.com/aptixhq/aptix/internal/node"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite"
)

// keyPlace finds out who manages the keys: a server, or this command itself.
type keyPlace struct {
	remote remote
	data   dataFile
	direct bool
}

func (p *keyPlace) flags(cmd *cobra.Command) {
	p.remote.flags(cmd)
	p.data.flags(cmd)
	cmd.Flags().BoolVar(&p.direct, "direct", false, "ask no server: work on the data file or the database itself")
}

// keyStore manages keys.
type keyStore interface {
	create(ctx context.Context, k client.NewKey) (*client.CreatedKey, error)
	list(ctx context.Context, org string, p client.Page) (client.List[client.Key], error)
	revoke(ctx context.Context, id string, force bool) (*client.Key, error)
	// where names who does it.
	where() string
	close() error
}

// open returns the server when one runs or was named, and else the store itself, which it
// makes when make says so.
func (p *keyPlace) open(cmd *cobra.Command, make bool) (keyStore, error) {
	if p.direct {
		return p.openDirect(cmd, make)
	}
	c, err := p.remote.client(cmd)
	if err != nil {
		return nil, err
	}
	named := p.remote.url != "" || os.Getenv("APTIX_URL") != ""
	ctx, stop := context.WithTimeout(cmd.Context(), probeTime)
	defer stop()
	if err := c.Ready(ctx); named || !errors.Is(err, client.ErrUnreachable) {
		return serverKeys{c}, nil // what is wrong with it, the call says
	}
	say(cmd.ErrOrStderr(), "No server runs at %s.", c.URL())
	return p.openDirect(cmd, make)
}

// serverKeys are the keys of a server.
type serverKeys struct{ c *client.Client }

func (s serverKeys) create(ctx context.Context, k client.NewKey) (*client.CreatedKey, error) {
	return s.c.CreateKey(ctx, k)
}

func (s serverKeys) list(ctx context.Context, org string, p client.Page) (client.List[client.Key], error) {
	l, err := s.c.Keys(ctx, p)
	if err == nil && org != "" && len(l.Data) > 0 && l.Data[0].Org != org {
		err = fmt.Errorf("the server lists the keys of the caller's organisation, %s", l.Data[0].Org)
	}
	return l, err
}

func (s serverKeys) revoke(ctx context.Context, id string, force bool) (*client.Key, error) {
	return s.c.RevokeKey(ctx, id, force)
}

func (s serverKeys) where() string { return "the server at " + s.c.URL() }
func (s serverKeys) close() error  { return nil }

// storedKeys are the keys of a store that this command has opened.
type storedKeys struct {
	name  string
	store node.Journal
	keys  *auth.Keyring
}

func (p *keyPlace) openDirect(cmd *cobra.Command, make bool) (keyStore, error) {
	cfg, err := p.data.config(cmd)
	if err != nil {
		return nil, err
	}
	if _, shared := cfg.PostgreSQL(); !shared && !make {
		if _, err := os.Stat(cfg.DatabasePath()); err != nil {
			return nil, err
		}
	}
	silent := slog.New(slog.DiscardHandler)
	opened, err := node.OpenStore(cmd.Context(), cfg, silent)
	if errors.Is(err, sqlite.ErrLocked) {
		return nil, fmt.Errorf("%w; name the address of that server with --url", err)
	}
	if err != nil {
		return nil, err
	}
	keys, err := auth.NewKeyring(opened, cfg.Auth.OIDC.Configured(), silent)
	if err != nil {
		return nil, errors.Join(err, opened.Close())
	}
	return storedKeys{cfg.Store(), opened, keys}, nil
}

// holder is who has the store itself, and so may do everything.
var holder = agent.Caller{User: "local"}

func (s storedKeys) create(ctx context.Context, k client.NewKey) (*client.CreatedKey, error) {
	if k.Org == "" {
		return nil, errors.New("name the organisation of the key with --org")
	}
	n := auth.NewKey{Org: agent.OrgID(k.Org), User: agent.UserID(k.User), Role: agent.Role(k.Role), Name: k.Name}
	if k.ExpiresAt != nil {
		n.ExpiresAt = *k.ExpiresAt
	}
	created, text, err := s.keys.Create(ctx, holder, n)
	if err != nil {
		return nil, err
	}
	return &client.CreatedKey{Key: shownKey(created), Secret: text}, nil
}

func (s storedKeys) list(ctx context.Context, org string, p client.Page) (client.List[client.Key], error) {
	by := holder
	by.Org = agent.OrgID(org)
	keys, next, err := s.keys.List(ctx, by, store.Page{Limit: p.Limit, Cursor: p.Cursor})
	l := client.List[client.Key]{HasMore: next != "", NextCursor: next}
	for _, k := range keys {
		l.Data = append(l.Data, shownKey(k))
	}
	return l, err
}

func (s storedKeys) revoke(ctx context.Context, id string, force bool) (*client.Key, error) {
	k, err := s.keys.Revoke(ctx, holder, agent.KeyID(id), force)
	if err != nil {
		return nil, err
	}
	shown := shownKey(k)
	return &shown, nil
}

func (s storedKeys) where() string { return "this command in " + s.name }

func (s storedKeys) close() error {
	s.keys.Close()
	return s.store.Close()
}

// shownKey is a key as a server shows it.
func shownKey(k agent.APIKey) client.Key {
	optional := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	return client.Key{
		KeyID: string(k.ID), Org: string(k.Org), User: string(k.User), Role: string(k.Role), Name: k.Name,
		CreatedAt: k.CreatedAt, CreatedBy: string(k.CreatedBy),
		ExpiresAt: optional(k.ExpiresAt), RevokedAt: optional(k.RevokedAt), LastUsedAt: optional(k.LastUsedAt),
	}
}
