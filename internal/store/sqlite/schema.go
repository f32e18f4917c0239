package sqlite

import (
	"context"
	"embed"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
)

// Our migrations, in the order of their numbers. Those that a release has shipped
// are never changed.
//
//go:embed migrations/*.sql
var migrations embed.FS

// applicationID marks the file as ours ("Aptx"), for us and for file(1).
const applicationID = 0x41707478

// identify makes sure that the file is ours before anything is changed in it.
func (s *Store) identify(ctx context.Context) error {
	var id, tables int64
	if err := s.writing.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if err := s.writing.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	switch {
	case id == applicationID:
		return nil
	case id != 0 || tables != 0:
		return fmt.Errorf("it is a database of another program; name another file")
	}
	_, err := s.writing.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	return err
}

// migrate brings the schema up to date. A file that a newer program has written is
// left alone: this one does not know what it would break.
func (s *Store) migrate(ctx context.Context) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.writing, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	have, know, err := p.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", err)
	}
	if have > know {
		return fmt.Errorf("a newer aptix has written it (schema %d, this one knows %d); use that one or a later one", have, know)
	}
	done, err := p.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate the schema from %d to %d: %w", have, know, err)
	}
	if have == 0 {
		// The tables that later migrations replace were empty, but had pages.
		if err := vacuum(ctx, s.writing); err != nil {
			return fmt.Errorf("give back what the migrations left free: %w", err)
		}
	}
	if len(done) > 0 {
		s.log.InfoContext(ctx, "schema migrated", "file", s.path, "from", have, "to", know)
	}
	return nil
}
