package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
)

// ErrLocked says that another process has the data file open as its server.
var ErrLocked = errors.New("the data file is in use by another aptix process; stop it, or give this one its own data folder")

// claim makes the file and its folder, for the owner only, and takes the lock on
// it. It returns the file's absolute path.
func claim(path string) (string, *fileLock, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", nil, err
	}
	// The lock has a file of its own: closing any handle of the data file would
	// drop the locks that SQLite holds on it.
	lock, err := takeLock(path + ".lock")
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", path, err)
	}
	// SQLite gives the log and the index the permissions of the data file, so
	// that has to be there first.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, errors.Join(err, lock.release())
	}
	if err := f.Close(); err != nil {
		return "", nil, errors.Join(err, lock.release())
	}
	return path, lock, nil
}

// fileLock is held as long as its file is open; the system drops it with the
// process, so a crash leaves nothing to clean up.
type fileLock struct{ f *os.File }

func takeLock(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &fileLock{f: f}, nil
}

func (l *fileLock) release() error { return l.f.Close() }

// use says what a connection is for.
type use int

const (
	forWriting use = iota
	forReading
	forCopying
	forUpkeep
	forMaking     // writing, to a file that is still empty
	forWritingOld // writing, to a file that cannot give its free pages back
)

// writingTo returns how the file has to be written to. It must not be open.
func writingTo(path string) (use, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	header := make([]byte, 100)
	n, err := io.ReadFull(f, header)
	if err := errors.Join(err, f.Close()); n == 0 && errors.Is(err, io.EOF) {
		return forMaking, nil
	} else if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, err
	}
	// The file format has the mark of incremental vacuum here.
	if binary.BigEndian.Uint32(header[64:]) == 0 {
		return forWritingOld, nil
	}
	return forWriting, nil
}

// dsn names the file to the driver, with the pragmas of every connection.
func dsn(path string, u use) string {
	wait := "busy_timeout(10000)" // upkeep and backups may hold the file for a moment
	if u == forUpkeep {
		wait = "busy_timeout(100)"
	}
	pragmas := []string{
		wait,
		"journal_mode(WAL)",
		"synchronous(FULL)", // an acknowledged write survives a power cut
		"foreign_keys(1)",
		"trusted_schema(0)",
		"journal_size_limit(67108864)",
		"wal_autocheckpoint(8000)", // pages; upkeep is quicker, unless somebody holds it up
	}
	// What is erased is overwritten, but for whole pages: they are given back, and where
	// that is not possible overwritten too.
	erase := "secure_delete(FAST)"
	if u == forWritingOld {
		erase = "secure_delete(ON)"
	}
	pragmas = append(pragmas, erase)
	if u == forMaking {
		// So that free pages can be given back. It must come first: later it would
		// have no effect.
		pragmas = append([]string{"auto_vacuum(INCREMENTAL)"}, pragmas...)
	}
	q := url.Values{"_dqs": {"0"}, "_defensive": {"1"}}
	switch u {
	case forReading:
		pragmas = append(pragmas, "query_only(1)")
	case forCopying: // query_only would forbid the copy, too
	default:
		// A transaction that begins as a reader cannot always become a writer.
		q.Set("_txlock", "immediate")
	}
	q["_pragma"] = pragmas
	file := url.URL{Scheme: "file", Path: filepath.ToSlash(path)}
	return "file:" + file.EscapedPath() + "?" + q.Encode()
}
