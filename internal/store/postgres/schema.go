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

	"github.com/aptixhq/aptix/internal/secret"
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

// Schema returns the version of a database's schema, 0 when it has none, and the one that
// this program wants. It changes nothing.
func Schema(ctx context.Context, connection secret.Text) (has, wants int64, err error) {
	config, err := configure(connection)
	if err != nil {
		return 0, 0, err
	}
	name := nameOf(config.ConnConfig)
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return 0, 0, fmt.Errorf("connect to %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	var there bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", versionTable).Scan(&there); err != nil {
		return 0, 0, fmt.Errorf("read %s: %w", name, err)
	}
	if there {
		if err := conn.QueryRow(ctx, "SELECT coalesce(max(version_id), 0) FROM "+versionTable+" WHERE is_applied").Scan(&has); err != nil {
			return 0, 0, fmt.Errorf("read the schema's version of %s: %w", name, err)
		}
	}
	wants, err = newestMigration()
	return has, wants, err
}

// newestMigration returns the number of the last of our migrations.
func newestMigration() (int64, error) {
	files, err := migrations.ReadDir("migrations")
	if err != nil {
		return 0, err
	}
	return goose.NumericComponent(files[len(files)-1].Name())
}

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
