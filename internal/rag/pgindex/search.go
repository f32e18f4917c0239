package pgindex

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/rag"
)

// collect runs a query and reads all rows.
func collect[T any](ctx context.Context, s *Store, doing string, read pgx.RowToFunc[T], query string, args ...any) ([]T, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	out, err := pgx.CollectRows(rows, read)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return out, nil
}

// Indexes implements rag.Store.
func (s *Store) Indexes(ctx context.Context, org agent.OrgID) ([]rag.Index, error) {
	return collect(ctx, s, "list the indexes", func(row pgx.CollectableRow) (rag.Index, error) {
		x := rag.Index{Org: org}
		err := row.Scan(&x.ID, &x.Name, &x.Repo, &x.Root, &x.UpdatedAt)
		x.UpdatedAt = x.UpdatedAt.UTC()
		return x, err
	}, `SELECT id, name, repo, root, updated_at FROM rag_indexes WHERE org = $1 ORDER BY name COLLATE "C"`, org)
}

// Count implements rag.Keeper.
func (s *Store) Count(ctx context.Context, x rag.Index) (files, chunks int, err error) {
	err = s.pool.QueryRow(ctx, `SELECT count(DISTINCT f.id), count(c.id) FROM rag_files f LEFT JOIN rag_chunks c ON c.org = f.org AND c.file_id = f.id
		WHERE f.org = $1 AND f.index_id = $2`, x.Org, x.ID).Scan(&files, &chunks)
	if err != nil {
		return 0, 0, fmt.Errorf("count what is indexed: %w", err)
	}
	return files, chunks, nil
}

// Hashes implements rag.Keeper.
func (s *Store) Hashes(ctx context.Context, x rag.Index) (map[string]string, error) {
	files, err := collect(ctx, s, "list the files", func(row pgx.CollectableRow) (out [2]string, err error) {
		err = row.Scan(&out[0], &out[1])
		return out, err
	}, `SELECT path, sha256 FROM rag_files WHERE org = $1 AND index_id = $2`, x.Org, x.ID)
	out := make(map[string]string, len(files))
	for _, f := range files {
		out[f[0]] = f[1]
	}
	return out, err
}

// Files implements rag.Store.
func (s *Store) Files(ctx context.Context, org agent.OrgID) ([]rag.File, error) {
	return collect(ctx, s, "list the files", func(row pgx.CollectableRow) (f rag.File, err error) {
		err = row.Scan(&f.ID, &f.Index, &f.Repo, &f.Path, &f.Language)
		return f, err
	}, `SELECT f.id, i.name, i.repo, f.path, f.language FROM rag_files f JOIN rag_indexes i ON i.org = f.org AND i.id = f.index_id
		WHERE f.org = $1 ORDER BY f.id`, org)
}

// Lexical implements rag.Store. A passage ranks by how often it has the terms and how many
// of them, against its length.
func (s *Store) Lexical(ctx context.Context, q rag.Search) ([]rag.Hit, error) {
	if len(q.Terms) == 0 {
		return nil, nil
	}
	return collect(ctx, s, "search the indexes", func(row pgx.CollectableRow) (h rag.Hit, err error) {
		err = row.Scan(&h.ID, &h.Index, &h.Path)
		return h, err
	}, `WITH asked AS (SELECT to_tsquery('english', $2) AS query),
		best AS MATERIALIZED (SELECT c.id, c.file_id, ts_rank(c.words, query, 1) AS score FROM rag_chunks c, asked
			WHERE c.org = $1 AND c.words @@ query AND ($3::bigint[] IS NULL OR c.file_id = ANY ($3)) ORDER BY score DESC, c.id LIMIT $4)
		SELECT best.id, i.name, f.path FROM best JOIN rag_files f ON f.org = $1 AND f.id = best.file_id
			JOIN rag_indexes i ON i.org = $1 AND i.id = f.index_id ORDER BY best.score DESC, best.id`,
		q.Org, anyOf(q.Terms), q.Within, q.Most)
}

// anyOf is the text query for any of the terms. They are quoted, so that none is taken for
// an operator.
func anyOf(terms []string) string {
	quote := strings.NewReplacer(`'`, `''`, `\`, `\\`)
	quoted := make([]string, len(terms))
	for i, t := range terms {
		quoted[i] = `'` + quote.Replace(t) + `'`
	}
	return strings.Join(quoted, " | ")
}

// Nearest implements rag.Store; there are no vectors.
func (s *Store) Nearest(context.Context, rag.Search) ([]rag.Hit, error) { return nil, rag.ErrNoVectors }

// Passages implements rag.Store.
func (s *Store) Passages(ctx context.Context, org agent.OrgID, ids []int64) ([]rag.Found, error) {
	return collect(ctx, s, "read passages", func(row pgx.CollectableRow) (p rag.Found, err error) {
		err = row.Scan(&p.ID, &p.Index, &p.Path, &p.Language, &p.First, &p.Last, &p.Text)
		return p, err
	}, `SELECT c.id, i.name, f.path, f.language, c.first_line, c.last_line, c.text
		FROM unnest($2::bigint[]) WITH ORDINALITY AS wanted (id, place) JOIN rag_chunks c ON c.org = $1 AND c.id = wanted.id
		JOIN rag_files f ON f.org = $1 AND f.id = c.file_id JOIN rag_indexes i ON i.org = $1 AND i.id = f.index_id
		ORDER BY wanted.place`, org, ids)
}

var _ rag.Keeper = (*Store)(nil)
