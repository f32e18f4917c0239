package sqliteindex

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/rag"
)

// write runs one transaction.
func (s *Store) write(ctx context.Context, doing string, run func(tx *sql.Tx) error) error {
	db, err := s.writing(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := run(tx); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// Begin implements rag.Keeper.
func (s *Store) Begin(ctx context.Context, want rag.Index) (has rag.Index, err error) {
	err = s.write(ctx, "begin index "+want.Name, func(tx *sql.Tx) error {
		if err := makeWords(ctx, tx, want.Org); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO indexes (org, name, repo, root, embedder, dimension, updated_us)
			VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (org, name) DO NOTHING`,
			want.Org, want.Name, want.Repo, want.Root, want.Embedder, want.Dimension, time.Now().UnixMicro())
		if err != nil {
			return err
		}
		row := tx.QueryRowContext(ctx, `SELECT id, root, embedder, dimension FROM indexes WHERE org = ? AND name = ?`, want.Org, want.Name)
		has = want
		if err := row.Scan(&has.ID, &has.Root, &has.Embedder, &has.Dimension); err != nil {
			return err
		}
		if err := has.Fits(want); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `UPDATE indexes SET repo = ? WHERE org = ? AND id = ?`, want.Repo, want.Org, has.ID)
		return err
	})
	return has, err
}

// makeWords makes the full-text table of an organisation. The words are ours, so the
// tokenizer has only to part them at blanks and to take English endings off; their
// text is in chunks already.
func makeWords(ctx context.Context, tx *sql.Tx, org agent.OrgID) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO orgs (org) VALUES (?) ON CONFLICT DO NOTHING`, org); err != nil {
		return err
	}
	words, err := wordsOf(ctx, tx, org)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `CREATE VIRTUAL TABLE IF NOT EXISTS `+words+` USING fts5
		(path, text, content='', contentless_delete=1, tokenize='porter unicode61')`)
	return err
}

// querier is a database or a transaction.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// wordsOf returns the name of an organisation's full-text table, made of our number for
// it and nothing else; "" when it has none.
func wordsOf(ctx context.Context, q querier, org agent.OrgID) (string, error) {
	var number int64
	err := q.QueryRowContext(ctx, `SELECT number FROM orgs WHERE org = ?`, org).Scan(&number)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the organisation: %w", err)
	}
	return fmt.Sprintf("words_%d", number), nil
}

// Put implements rag.Keeper.
func (s *Store) Put(ctx context.Context, x rag.Index, docs []rag.Document) error {
	return s.write(ctx, "write index "+x.Name, func(tx *sql.Tx) error {
		words, err := wordsOf(ctx, tx, x.Org)
		if err != nil {
			return err
		}
		for _, d := range docs {
			if err := drop(ctx, tx, words, x, d.Path); err != nil {
				return err
			}
			if err := put(ctx, tx, words, x, d); err != nil {
				return fmt.Errorf("%s: %w", d.Path, err)
			}
		}
		return touch(ctx, tx, x)
	})
}

func touch(ctx context.Context, tx *sql.Tx, x rag.Index) error {
	_, err := tx.ExecContext(ctx, `UPDATE indexes SET updated_us = ? WHERE org = ? AND id = ?`, time.Now().UnixMicro(), x.Org, x.ID)
	return err
}

func put(ctx context.Context, tx *sql.Tx, words string, x rag.Index, d rag.Document) error {
	// The index may have been removed meanwhile, and another one have its name.
	res, err := tx.ExecContext(ctx, `INSERT INTO files (org, index_id, path, sha256, language)
		SELECT org, id, ?, ?, ? FROM indexes WHERE org = ? AND id = ?`, d.Path, d.SHA256, d.Language, x.Org, x.ID)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n != 1 {
		return errors.Join(rag.ErrNoIndex, err)
	}
	file, err := res.LastInsertId()
	if err != nil {
		return err
	}
	path := strings.Join(rag.Words(d.Path), " ")
	for _, p := range d.Passages {
		res, err := tx.ExecContext(ctx, `INSERT INTO chunks (org, file_id, first_line, last_line, text) VALUES (?, ?, ?, ?, ?)`,
			x.Org, file, p.First, p.Last, p.Text)
		if err != nil {
			return err
		}
		chunk, err := res.LastInsertId()
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO `+words+` (rowid, path, text) VALUES (?, ?, ?)`, chunk, path, strings.Join(rag.Words(p.Text), " "))
		if err != nil {
			return err
		}
		if x.Dimension == 0 {
			continue
		}
		if len(p.Vector) != x.Dimension {
			return &rag.MismatchError{What: "dimension", Has: fmt.Sprint(x.Dimension), Wants: fmt.Sprint(len(p.Vector)), Index: x.Name}
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO vectors (org, index_id, file_id, chunk_id, embedding) VALUES (?, ?, ?, ?, vec_quantize_int8(?, 'unit'))`,
			x.Org, x.ID, file, chunk, blob(p.Vector))
		if err != nil {
			return err
		}
	}
	return nil
}

// blob is a vector as sqlite-vec reads it.
func blob(vector []float32) []byte {
	out := make([]byte, 0, 4*len(vector))
	for _, f := range vector {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
	}
	return out
}

// Drop implements rag.Keeper.
func (s *Store) Drop(ctx context.Context, x rag.Index, paths []string) error {
	return s.write(ctx, "write index "+x.Name, func(tx *sql.Tx) error {
		words, err := wordsOf(ctx, tx, x.Org)
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := drop(ctx, tx, words, x, path); err != nil {
				return err
			}
		}
		return touch(ctx, tx, x)
	})
}

// drop takes a file out, if it is there. Its words go first: their table has no
// reference to it.
func drop(ctx context.Context, tx *sql.Tx, words string, x rag.Index, path string) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM `+words+` WHERE rowid IN (SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id
		WHERE f.org = ? AND f.index_id = ? AND f.path = ?)`, x.Org, x.ID, path)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM files WHERE org = ? AND index_id = ? AND path = ?`, x.Org, x.ID, path)
	return err
}

// Remove implements rag.Keeper.
func (s *Store) Remove(ctx context.Context, org agent.OrgID, name string) error {
	return s.write(ctx, "remove index "+name, func(tx *sql.Tx) error {
		words, err := wordsOf(ctx, tx, org)
		if err != nil {
			return err
		}
		if words == "" {
			return rag.ErrNoIndex
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM `+words+` WHERE rowid IN (SELECT c.id FROM chunks c JOIN files f ON f.id = c.file_id
			JOIN indexes i ON i.id = f.index_id WHERE i.org = ? AND i.name = ?)`, org, name)
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `DELETE FROM indexes WHERE org = ? AND name = ?`, org, name)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(rag.ErrNoIndex, err)
		}
		return nil
	})
}

// RemoveAll implements rag.Keeper. Nothing of the organisation is left, its number
// neither.
func (s *Store) RemoveAll(ctx context.Context, org agent.OrgID) (removed int, err error) {
	db, err := s.reading(ctx)
	if err != nil || db == nil {
		return 0, err
	}
	err = s.write(ctx, "remove the indexes of "+string(org), func(tx *sql.Tx) error {
		words, err := wordsOf(ctx, tx, org)
		if err != nil || words == "" {
			return err
		}
		res, err := tx.ExecContext(ctx, `DELETE FROM indexes WHERE org = ?`, org)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		if err != nil {
			return err
		}
		removed = int(n)
		if _, err := tx.ExecContext(ctx, `DELETE FROM orgs WHERE org = ?`, org); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DROP TABLE `+words)
		return err
	})
	return removed, err
}
