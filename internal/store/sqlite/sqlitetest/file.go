// Package sqlitetest gives tests data files that have their tables already. To migrate a
// file costs more than most tests do with it; what migrations do is tested beside them, in
// package sqlite. In a turn the package has no part.
package sqlitetest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/aptixhq/aptix/internal/store/sqlite"
)

// File makes a data file that was migrated and holds nothing, in a folder that goes with
// the test, and returns its path.
func File(t testing.TB) string {
	t.Helper()
	data, err := migrated()
	path := filepath.Join(t.TempDir(), "aptix.db")
	if err = errors.Join(err, os.WriteFile(path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	return path
}

// migrated is such a file, made once for a binary.
var migrated = sync.OnceValues(func() (data []byte, err error) {
	dir, err := os.MkdirTemp("", "aptix-migrated")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "aptix.db")
	s, err := sqlite.Open(context.Background(), path, nil)
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil { // which folds the log into the file
		return nil, err
	}
	return os.ReadFile(path)
})
