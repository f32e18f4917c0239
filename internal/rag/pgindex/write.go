package pgindex

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/rag"
)

// write runs one transaction.
func (s *Store) write(ctx context.Context, doing string, run func(tx pgx.Tx) error) error {
	if err := pgx.BeginFunc(ctx, s.pool, run); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// Begin implements rag.Keeper. An index that is to have vectors is refused.
func (s *Store) Begin(ctx context.Context, want rag.Index) (has rag.Index, err error) {
	if want.Embedder != "" {
		return rag.Index{}, rag.ErrNoVectors
	}
	err = s.write(ctx, "begin index "+want.Name, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `INSERT INTO rag_indexes (org, name, repo, root, updated_at) VALUES ($1, $2, $3, $4, now())
			ON CONFLICT (org, name) DO NOTHING`, want.Org, want.Name, want.Repo, want.Root)
		if err != nil {
			return err
		}
		has = want
		row := tx.QueryRow(ctx, `SELECT id, root FROM rag_indexes WHERE org = $1 AND name = $2 FOR UPDATE`, want.Org, want.Name)
		if err := row.Scan(&has.ID, &has.Root); err != nil {
			return err
		}
		if err := has.Fits(want); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `UPDATE rag_indexes SET repo = $1 WHERE org = $2 AND id = $3`, want.Repo, want.Org, has.ID)
		return err
	})
	return has, err
}

// Put implements rag.Keeper.
func (s *Store) Put(ctx context.Context, x rag.Index, docs []rag.Document) error {
	return s.write(ctx, "write index "+x.Name, func(tx pgx.Tx) error {
		if err := touch(ctx, tx, x); err != nil {
			return err
		}
		for _, d := range docs {
			if err := put(ctx, tx, x, d); err != nil {
				return fmt.Errorf("%s: %w", d.Path, err)
			}
		}
		return nil
	})
}

// touch notes the change, and holds the index: it may have been removed meanwhile.
func touch(ctx context.Context, tx pgx.Tx, x rag.Index) error {
	tag, err := tx.Exec(ctx, `UPDATE rag_indexes SET updated_at = now() WHERE org = $1 AND id = $2`, x.Org, x.ID)
	if err == nil && tag.RowsAffected() == 0 {
		err = rag.ErrNoIndex
	}
	return err
}

func put(ctx context.Context, tx pgx.Tx, x rag.Index, d rag.Document) error {
	if _, err := tx.Exec(ctx, `DELETE FROM rag_files WHERE org = $1 AND index_id = $2 AND path = $3`, x.Org, x.ID, d.Path); err != nil {
		return err
	}
	var file int64
	err := tx.QueryRow(ctx, `INSERT INTO rag_files (org, index_id, path, sha256, language) VALUES ($1, $2, $3, $4, $5) RETURNING id`,
		x.Org, x.ID, d.Path, d.SHA256, d.Language).Scan(&file)
	if err != nil {
		return err
	}
	path := strings.Join(rag.Words(d.Path), " ")
	var batch pgx.Batch
	for _, p := range d.Passages {
		// A word in the path weighs more than one in the text.
		batch.Queue(`INSERT INTO rag_chunks (org, file_id, first_line, last_line, text, words) VALUES ($1, $2, $3, $4, $5,
			setweight(to_tsvector('english', $6), 'C') || to_tsvector('english', $7))`,
			x.Org, file, p.First, p.Last, p.Text, path, strings.Join(rag.Words(p.Text), " "))
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// Drop implements rag.Keeper.
func (s *Store) Drop(ctx context.Context, x rag.Index, paths []string) error {
	return s.write(ctx, "write index "+x.Name, func(tx pgx.Tx) error {
		if err := touch(ctx, tx, x); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `DELETE FROM rag_files WHERE org = $1 AND index_id = $2 AND path = ANY ($3)`, x.Org, x.ID, paths)
		return err
	})
}

// Remove implements rag.Keeper.
func (s *Store) Remove(ctx context.Context, org agent.OrgID, name string) error {
	tag, err := s.pool.Exec(ctx, `DELETE FROM rag_indexes WHERE org = $1 AND name = $2`, org, name)
	if err == nil && tag.RowsAffected() == 0 {
		err = rag.ErrNoIndex
	}
	if err != nil {
		return fmt.Errorf("remove index %s: %w", name, err)
	}
	return nil
}

// RemoveAll implements rag.Keeper.
func (s *Store) RemoveAll(ctx context.Context, org agent.OrgID) (int, error) {
	tag, err := s.pool.Exec(ctx, `DELETE FROM rag_indexes WHERE org = $1`, org)
	if err != nil {
		return 0, fmt.Errorf("remove the indexes of %s: %w", org, err)
	}
	return int(tag.RowsAffected()), nil
}
