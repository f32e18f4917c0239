package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Our migrations, in the order of their numbers. Those that a release has shipped
// are never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// The tables beside the schema. They have names of their own, since other programs that
// migrate in the same way may share the database.
const (
	versionTable = "aptix_schema_version"
	lockTable    = "aptix_schema_lock"
)

// How often a node looks whether another one has finished with the schema, and how many
// times: five minutes in all.
const (
	lockEvery = 500 * time.Millisecond
	lockTries = 600
)

// migrate brings the schema up to date. A database that a newer program has migrated is
// left alone: this one does not know what it would break.
func (s *Store) migrate(ctx context.Context, config *pgx.ConnConfig) (err error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	// Migrations are statements that run once, and those that make tables cannot be
	// described before.
	config = config.Copy()
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, conn.Close()) }()
	// Nodes that start together wait for one of them, by a row in a table: a lock of the
	// server session's would not outlive a statement behind a pooler.
	locker, err := lock.NewPostgresTableLocker(lock.WithTableName(lockTable), lock.WithTableLockTimeout(lockEvery, lockTries))
	if err != nil {
		return fmt.Errorf("lock the schema: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, conn, files,
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(versionTable), goose.WithLocker(locker))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	have, know, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	switch {
	case have > know:
		return fmt.Errorf("a newer aptix has migrated it (schema %d, this one knows %d); use that one or a later one", have, know)
	case have == know:
		return nil // as on every start but the first; no lock is needed for it
	}
	done, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate the schema from %d to %d: %w", have, know, err)
	}
	if len(done) > 0 {
		s.log.InfoContext(ctx, "schema migrated", "database", config.Database, "from", have, "to", know)
	}
	return nil
}
