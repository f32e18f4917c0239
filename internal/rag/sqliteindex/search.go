package sqliteindex

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/rag"
)

// rows runs a query and reads each row. Without a file there are no rows.
func (s *Store) rows(ctx context.Context, doing, query string, args []any, read func(scan func(...any) error) error) error {
	db, err := s.reading(ctx)
	if err != nil || db == nil {
		return err
	}
	got, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer func() { _ = got.Close() }() // Err has what matters
	for got.Next() {
		if err := read(got.Scan); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	if err := got.Err(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// Indexes implements rag.Store.
func (s *Store) Indexes(ctx context.Context, org agent.OrgID) (out []rag.Index, err error) {
	err = s.rows(ctx, "list the indexes", `SELECT id, name, repo, root, embedder, dimension, updated_us FROM indexes WHERE org = ? ORDER BY name`, []any{org}, func(scan func(...any) error) error {
		x := rag.Index{Org: org}
		var updated int64
		err := scan(&x.ID, &x.Name, &x.Repo, &x.Root, &x.Embedder, &x.Dimension, &updated)
		x.UpdatedAt = time.UnixMicro(updated).UTC()
		out = append(out, x)
		return err
	})
	return out, err
}

// Count implements rag.Keeper.
func (s *Store) Count(ctx context.Context, x rag.Index) (files, chunks int, err error) {
	err = s.rows(ctx, "count what is indexed", `SELECT count(DISTINCT f.id), count(c.id) FROM files f LEFT JOIN chunks c ON c.file_id = f.id
		WHERE f.org = ? AND f.index_id = ?`, []any{x.Org, x.ID}, func(scan func(...any) error) error { return scan(&files, &chunks) })
	return files, chunks, err
}

// Hashes implements rag.Keeper.
func (s *Store) Hashes(ctx context.Context, x rag.Index) (map[string]string, error) {
	out := map[string]string{}
	err := s.rows(ctx, "list the files", `SELECT path, sha256 FROM files WHERE org = ? AND index_id = ?`, []any{x.Org, x.ID},
		func(scan func(...any) error) error {
			var path, sha string
			err := scan(&path, &sha)
			out[path] = sha
			return err
		})
	return out, err
}

// Files implements rag.Store.
func (s *Store) Files(ctx context.Context, org agent.OrgID) (out []rag.File, err error) {
	err = s.rows(ctx, "list the files", `SELECT f.id, i.name, i.repo, f.path, f.language
		FROM files f JOIN indexes i ON i.id = f.index_id WHERE f.org = ? ORDER BY f.id`, []any{org}, func(scan func(...any) error) error {
		var f rag.File
		err := scan(&f.ID, &f.Index, &f.Repo, &f.Path, &f.Language)
		out = append(out, f)
		return err
	})
	return out, err
}

// pathWeight is what a word in the path counts against one in the text.
const pathWeight = 1

// Lexical implements rag.Store, by BM25.
func (s *Store) Lexical(ctx context.Context, q rag.Search) ([]rag.Hit, error) {
	db, err := s.reading(ctx)
	if err != nil || db == nil || len(q.Terms) == 0 {
		return nil, err
	}
	words, err := wordsOf(ctx, db, q.Org)
	if err != nil || words == "" {
		return nil, err
	}
	within, args := "", []any{anyOf(q.Terms)}
	if q.Within != nil {
		within = ` AND +rowid IN (SELECT id FROM chunks WHERE org = ? AND file_id IN (SELECT value FROM json_each(?)))`
		args = append(args, q.Org, ids(q.Within))
	}
	// The best are found before anything is joined to them.
	return s.hits(ctx, `WITH best AS MATERIALIZED (SELECT rowid AS id, bm25(`+words+`, ?, 1) AS score FROM `+words+`
			WHERE `+words+` MATCH ?`+within+` ORDER BY score, id LIMIT ?)
		SELECT best.id, i.name, f.path FROM best JOIN chunks c ON c.id = best.id AND c.org = ?
			JOIN files f ON f.id = c.file_id JOIN indexes i ON i.id = f.index_id ORDER BY best.score, best.id`,
		append(append([]any{pathWeight}, args...), q.Most, q.Org))
}

// anyOf is the FTS5 query for any of the terms. They are quoted, so that none is taken
// for an operator.
func anyOf(terms []string) string {
	quoted := make([]string, len(terms))
	for i, t := range terms {
		quoted[i] = `"` + strings.ReplaceAll(t, `"`, `""`) + `"`
	}
	return strings.Join(quoted, " OR ")
}

// Nearest implements rag.Store. It compares with every vector, so what it finds is exact.
func (s *Store) Nearest(ctx context.Context, q rag.Search) ([]rag.Hit, error) {
	within, args := "", []any{blob(q.Vector), q.Org, q.Org, q.Embedder, len(q.Vector)}
	if q.Within != nil {
		within = ` AND file_id IN (SELECT value FROM json_each(?))`
		args = append(args, ids(q.Within))
	}
	return s.hits(ctx, `WITH asked AS MATERIALIZED (SELECT vec_quantize_int8(?, 'unit') AS vector),
		best AS MATERIALIZED (SELECT chunk_id AS id, vec_distance_cosine(vec_int8(embedding), (SELECT vec_int8(vector) FROM asked)) AS distance
			FROM vectors WHERE org = ? AND index_id IN (SELECT id FROM indexes WHERE org = ? AND embedder = ? AND dimension = ?)`+within+`
			ORDER BY distance, id LIMIT ?)
		SELECT best.id, i.name, f.path FROM best JOIN chunks c ON c.id = best.id AND c.org = ?
			JOIN files f ON f.id = c.file_id JOIN indexes i ON i.id = f.index_id ORDER BY best.distance, best.id`,
		append(args, q.Most, q.Org))
}

func (s *Store) hits(ctx context.Context, query string, args []any) (out []rag.Hit, err error) {
	err = s.rows(ctx, "search the indexes", query, args, func(scan func(...any) error) error {
		var h rag.Hit
		err := scan(&h.ID, &h.Index, &h.Path)
		out = append(out, h)
		return err
	})
	return out, err
}

// ids renders ids for json_each.
func ids(list []int64) string {
	b, err := json.Marshal(list)
	if err != nil { // cannot happen: numbers only
		return "[]"
	}
	return string(b)
}

// Passages implements rag.Store.
func (s *Store) Passages(ctx context.Context, org agent.OrgID, wanted []int64) ([]rag.Found, error) {
	found := map[int64]rag.Found{}
	err := s.rows(ctx, "read passages", `SELECT c.id, i.name, f.path, f.language, c.first_line, c.last_line, c.text
		FROM chunks c JOIN files f ON f.id = c.file_id JOIN indexes i ON i.id = f.index_id
		WHERE c.org = ? AND c.id IN (SELECT value FROM json_each(?))`, []any{org, ids(wanted)}, func(scan func(...any) error) error {
		var p rag.Found
		err := scan(&p.ID, &p.Index, &p.Path, &p.Language, &p.First, &p.Last, &p.Text)
		found[p.ID] = p
		return err
	})
	var out []rag.Found
	for _, id := range wanted {
		if p, ok := found[id]; ok {
			out = append(out, p)
		}
	}
	return out, err
}

var (
	_ rag.Keeper = (*Store)(nil)
	_ querier    = (*sql.DB)(nil)
)
