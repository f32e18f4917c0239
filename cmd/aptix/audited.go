package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mode"
)

// auditTime bounds an entry about the server itself.
const auditTime = 10 * time.Second

// auditLog is where what the server does by itself is recorded.
type auditLog struct {
	cfg   config.Config
	store journal
	log   *slog.Logger
}

// loaded records with which configuration and modes the server runs, by their hashes. A
// server that cannot say so does not begin, but one that runs goes on.
func (a auditLog) loaded(ctx context.Context, action agent.AuditAction, catalog *mode.Catalog) error {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	return a.store.WriteAudit(ctx, agent.AuditEntry{
		Org: a.cfg.Audit.Organisation, Action: action, By: agent.OriginOf(ctx),
		Details: map[string]string{"settingsSha256": a.cfg.SHA256(), "modesSha256": catalog.Hash(), "version": version()},
	})
}

// reload reads the modes anew and records it when they are others then.
func (p *parts) reload(ctx context.Context) {
	before := p.modes.live.Current().Hash()
	p.modes.reload()
	now := p.modes.live.Current()
	if now.Hash() == before {
		return
	}
	if err := p.audit.loaded(ctx, agent.AuditConfigReloaded, now); err != nil {
		p.audit.log.Error("record the reload in the audit log", "error", err)
	}
}
