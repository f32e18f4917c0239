package node

import (
	"context"
	"log/slog"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/auth"
	"github.com/aptixhq/aptix/internal/budget"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/server"
	"github.com/aptixhq/aptix/internal/session"
	"github.com/aptixhq/aptix/internal/store/postgres"
	"github.com/aptixhq/aptix/internal/store/sqlite"
	"github.com/aptixhq/aptix/internal/webhook"
)

// Journal is the store of a node, with all that its parts use of it.
type Journal interface {
	pipeline.Store
	session.Store
	reasoner.Sessions
	auth.Store
	budget.Ledger
	server.AuditLog
	webhook.Registry
	webhook.Queue
	WriteAudit(context.Context, agent.AuditEntry) error
	Ping(context.Context) error
	Queued(context.Context) (int64, error)
	OnCommit(tell func(took time.Duration, units int))
	Close() error
}

// OpenStore opens the store that is configured: the one file, unless it is a database
// that several nodes share.
func OpenStore(ctx context.Context, cfg config.Config, log *slog.Logger) (Journal, error) {
	if connection, ok := cfg.PostgreSQL(); ok {
		return postgres.Open(ctx, connection, log)
	}
	return sqlite.Open(ctx, cfg.DatabasePath(), log)
}
