package sqliteindex

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"sync"

	_ "modernc.org/sqlite"     // the driver
	_ "modernc.org/sqlite/vec" // sqlite-vec, for every connection of the process
)

//go:embed schema.sql
var schema string

// applicationID marks the file as an index of ours ("Aptr"), and version is that of its
// schema and of the way in which text becomes words.
const (
	applicationID = 0x41707472
	version       = 1
)

// Store is the index file at a path, which need not be there: then there are no indexes.
// It is opened when it is first needed and again when another file is in its place, so
// that a running server finds what 'aptix index' made meanwhile. Its methods may be
// called from many goroutines.
type Store struct {
	path string

	mu   sync.Mutex // guards what follows
	db   *sql.DB    // nil when it is not open
	file os.FileInfo
	// replaced are the databases of files that another one stands in the place of, until Close:
	// somebody may still read them.
	replaced []*sql.DB
}

// New returns the store of an index file. It opens nothing yet.
func New(path string) *Store { return &Store{path: path} }

// Close closes the file.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, db := range s.replaced {
		errs = append(errs, db.Close())
	}
	if s.db != nil {
		errs = append(errs, s.db.Close())
	}
	s.db, s.replaced = nil, nil
	return errors.Join(errs...)
}

// reading returns the open file, nil when there is none.
func (s *Store) reading(ctx context.Context) (*sql.DB, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	file, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		s.putAside()
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("index file: %w", err)
	}
	if s.db != nil && os.SameFile(file, s.file) {
		return s.db, nil
	}
	s.putAside()
	db, err := open(ctx, s.path)
	if err != nil {
		return nil, err
	}
	s.db, s.file = db, file
	return db, nil
}

// putAside gives up the open file, which is no longer the one at the path.
func (s *Store) putAside() {
	if s.db != nil {
		s.replaced = append(s.replaced, s.db)
		s.db = nil
	}
}

// writing is reading, and makes the file when it is not there.
func (s *Store) writing(ctx context.Context) (*sql.DB, error) {
	if err := s.create(); err != nil {
		return nil, fmt.Errorf("make the index file: %w", err)
	}
	return s.reading(ctx)
}

// create makes an empty file, for the owner only, and its folder. The log of one that was
// deleted is no danger to it: SQLite removes what lies beside an empty file.
func (s *Store) create() error {
	if _, err := os.Stat(s.path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(s.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// connections is how many a store has at most; a retrieval needs one at a time.
const connections = 4

// open opens a file and gives it its tables when it is empty.
func open(ctx context.Context, path string) (_ *sql.DB, err error) {
	db, err := sql.Open("sqlite", dsn(path))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("open the index file %s: %w", path, err), db.Close())
		}
	}()
	db.SetMaxOpenConns(connections)
	return db, prepare(ctx, db)
}

// prepare makes sure that the file is ours and of this version.
func prepare(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	var id, has, tables int64
	for pragma, to := range map[string]*int64{"application_id": &id, "user_version": &has} {
		if err := tx.QueryRowContext(ctx, "PRAGMA "+pragma).Scan(to); err != nil {
			return err
		}
	}
	if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return err
	}
	switch {
	case id == applicationID && has == version:
		return nil
	case id == applicationID:
		return fmt.Errorf("another version of aptix has made it (%d, this one reads %d); remove it with its -wal and -shm files, and index again", has, version)
	case tables > 0 || id != 0:
		return errors.New("it is a database of another program; name another data folder")
	}
	for _, statement := range []string{schema, fmt.Sprintf("PRAGMA application_id = %d", applicationID), fmt.Sprintf("PRAGMA user_version = %d", version)} {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// dsn names the file to the driver, with the pragmas of every connection.
func dsn(path string) string {
	q := url.Values{
		"_dqs": {"0"}, "_defensive": {"1"},
		// A transaction that begins as a reader cannot always become a writer.
		"_txlock": {"immediate"},
		"_pragma": {
			"page_size(8192)",     // a vector fits into a page
			"busy_timeout(10000)", // another 'aptix index' may write
			"auto_vacuum(FULL)",   // what is removed gives its space back
			"journal_mode(WAL)",   // a server reads while it is written
			"synchronous(NORMAL)", // what a power cut takes is indexed again
			"foreign_keys(1)",
			"trusted_schema(0)",
		},
	}
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	return "file:" + file.EscapedPath() + "?" + q.Encode()
}
