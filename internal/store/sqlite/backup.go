package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Backup copies the data file at path to dest as it is at one moment, while a server
// may go on writing to it, and returns the size of the copy in bytes. The copy is one
// file without a log, compact, checked and synced before it gets its name; a file that
// has this name already is kept unless replace is set. To restore, put the copy in the
// place of the data file while no server runs.
func Backup(ctx context.Context, path, dest string, replace bool) (size int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("back up %s to %s: %w", path, dest, err)
		}
	}()
	if _, err := os.Stat(path); err != nil {
		return 0, err // SQLite would make it
	}
	if _, err := os.Stat(dest); err == nil && !replace {
		return 0, fmt.Errorf("%w: choose another name, or let it be replaced", fs.ErrExist)
	}
	from, err := sql.Open("sqlite", dsn(path, forCopying))
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	from.SetMaxOpenConns(1)
	var id int64
	if err := from.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return 0, err
	}
	if id != applicationID {
		return 0, errors.New("it is not a data file of aptix")
	}
	// Beside the copy's place, so that it can be given its name at once.
	temporary, err := os.MkdirTemp(filepath.Dir(dest), ".aptix-backup-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temporary)) }()
	copied := filepath.Join(temporary, "copy.db")
	if _, err := from.ExecContext(ctx, "VACUUM INTO ?", copied); err != nil {
		return 0, explain("copy", err)
	}
	if err := checkCopy(ctx, copied); err != nil {
		return 0, err
	}
	if size, err = settleFile(copied); err != nil {
		return 0, err
	}
	if err := os.Rename(copied, dest); err != nil {
		return 0, err
	}
	return size, syncFolder(filepath.Dir(dest))
}

// checkCopy reads the whole copy.
func checkCopy(ctx context.Context, path string) (err error) {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(path)+"?mode=ro")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	var said string
	if err := db.QueryRowContext(ctx, "PRAGMA integrity_check(1)").Scan(&said); err != nil {
		return fmt.Errorf("check the copy: %w", err)
	}
	if said != "ok" {
		return fmt.Errorf("check the copy: %s", said)
	}
	return nil
}

// settleFile makes the copy the owner's and durable.
func settleFile(path string) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := f.Chmod(0o600); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), f.Sync()
}

// syncFolder makes a new name in a folder durable, where folders can be synced.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	_ = d.Sync() // some systems refuse it
	return d.Close()
}
