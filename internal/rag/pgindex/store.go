package pgindex

import (
	"context"
	_ "embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/secret"
)

//go:embed schema.sql
var schema string

// version is that of the schema and of the way in which text becomes words. There are no
// migrations: an index can be made again.
const version = 1

// schemaLock keeps nodes that start together from making the tables at the same time.
const schemaLock = 0x41707472

// Store keeps indexes in a database. Its methods may be called from many goroutines.
type Store struct{ pool *pgxpool.Pool }

// Open connects to the database that the connection string names, and makes the tables
// when they are not there.
func Open(ctx context.Context, connection secret.Text) (_ *Store, err error) {
	pool, err := pgxpool.New(ctx, connection.Reveal())
	if err != nil {
		// Not a word of it: what cannot be read may be a password anywhere.
		return nil, errors.New("open the indexes: the connection string cannot be read")
	}
	s := &Store{pool: pool}
	if err := s.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("open the indexes: %w", err), s.Close())
	}
	return s, nil
}

// prepare makes the tables, once for all nodes.
func (s *Store) prepare(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock($1)`, schemaLock); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `CREATE TABLE IF NOT EXISTS rag_version (version integer NOT NULL)`); err != nil {
			return err
		}
		var has int
		err := tx.QueryRow(ctx, `SELECT version FROM rag_version`).Scan(&has)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			if _, err := tx.Exec(ctx, schema); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO rag_version VALUES ($1)`, version)
			return err
		case err != nil:
			return err
		case has != version:
			return fmt.Errorf("another version of aptix has made their tables (%d, this one reads %d); drop the tables rag_*, and index again", has, version)
		}
		return nil
	})
}

// Close closes the connections.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}
