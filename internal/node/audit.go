package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mode"
)

// auditTime bounds an entry about the node itself.
const auditTime = 10 * time.Second

// auditLog is where what the node does by itself is recorded.
type auditLog struct {
	cfg     config.Config
	version string
	store   Journal
	log     *slog.Logger
}

// loaded records with which configuration and modes the node runs, by their hashes. A
// node that cannot say so does not begin, but one that runs goes on.
func (a auditLog) loaded(ctx context.Context, action agent.AuditAction, catalog *mode.Catalog) error {
	ctx, cancel := context.WithTimeout(ctx, auditTime)
	defer cancel()
	return a.store.WriteAudit(ctx, agent.AuditEntry{
		Org: a.cfg.Audit.Organisation, Action: action, By: agent.OriginOf(ctx),
		Details: map[string]string{"settingsSha256": a.cfg.SHA256(), "modesSha256": catalog.Hash(), "version": a.version},
	})
}

// Reload reads the modes anew and records it when they are others then.
func (n *Node) Reload(ctx context.Context) {
	before := n.modes.live.Current().Hash()
	n.modes.reload()
	now := n.modes.live.Current()
	if now.Hash() == before {
		return
	}
	if err := n.audit.loaded(ctx, agent.AuditConfigReloaded, now); err != nil {
		n.audit.log.Error("record the reload in the audit log", "error", err)
	}
}
