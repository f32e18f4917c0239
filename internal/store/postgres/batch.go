package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// batch runs queries as one transaction in one round trip: those that only have to be
// run are kept back, and go out together with the one that returns a row. The server runs
// what comes before the end of a batch as one transaction and commits it there. It serves
// for one row.
type batch struct {
	ctx  context.Context
	conn *pgxpool.Conn
	held pgx.Batch
}

// batched returns queries of which the first with a row sends all of them.
func batched(ctx context.Context, c *pgxpool.Conn) *db.Queries {
	return db.New(&batch{ctx: ctx, conn: c})
}

// Exec keeps a statement back. What it fails with is the failure of the row.
func (b *batch) Exec(_ context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	b.held.Queue(sql, args...)
	return pgconn.CommandTag{}, nil
}

// Query is not for batches: its rows would be read before the commit.
func (b *batch) Query(context.Context, string, ...any) (pgx.Rows, error) {
	panic("postgres: a batch ends with one row")
}

// QueryRow sends all there is.
func (b *batch) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	b.held.Queue(sql, args...)
	return &lastRow{results: b.conn.SendBatch(ctx, &b.held), before: b.held.Len() - 1}
}

// lastRow is the row that ends a batch.
type lastRow struct {
	results pgx.BatchResults
	before  int // how many statements come before it
}

// Scan returns when the batch is committed.
func (r *lastRow) Scan(dest ...any) error {
	var err error
	for range r.before {
		if _, err = r.results.Exec(); err != nil {
			break
		}
	}
	if err == nil {
		err = r.results.QueryRow().Scan(dest...)
	}
	// The commit comes with the end of the batch; without it, a row is worth nothing. An
	// earlier error is the reason for this one.
	if end := r.results.Close(); err == nil || err == pgx.ErrNoRows && end != nil {
		err = end
	}
	return err
}
