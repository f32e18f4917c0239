package sqliteindex_test

import (
	"context"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/ragtest"
	"github.com/aptixhq/aptix/internal/rag/sqliteindex"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t testing.TB, path string) *sqliteindex.Store {
	t.Helper()
	s := sqliteindex.New(path)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	ragtest.Suite(t, true, func(t *testing.T) rag.Keeper { return open(t, filepath.Join(t.TempDir(), "data", "index.db")) })
}

// fill makes an index with one file.
func fill(t *testing.T, s *sqliteindex.Store, text string) {
	t.Helper()
	x, err := s.Begin(t.Context(), rag.Index{Org: "local", Name: "docs", Root: "/docs"})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), x, []rag.Document{{Path: "a.md", SHA256: "1", Passages: []rag.Passage{{First: 1, Last: 1, Text: text}}}}); err != nil {
		t.Fatal(err)
	}
}

func found(t *testing.T, s *sqliteindex.Store, word string) int {
	t.Helper()
	hits, err := s.Lexical(t.Context(), rag.Search{Org: "local", Terms: []string{word}, Most: 5})
	if err != nil {
		t.Fatal(err)
	}
	return len(hits)
}

// A server that runs before the first index sees it come, change and be made anew.
func TestStore_FollowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "index.db")
	server := open(t, path)
	if list, err := server.Indexes(t.Context(), "local"); err != nil || list != nil {
		t.Fatalf("without a file: %v, %v", list, err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("reading made the file")
	}
	first := open(t, path)
	fill(t, first, "harbour")
	if found(t, server, "harbour") != 1 {
		t.Error("the server does not see the first index")
	}
	fill(t, first, "lighthouse")
	if found(t, server, "lighthouse") != 1 || found(t, server, "harbour") != 0 {
		t.Error("the server does not see the change")
	}
	if err := os.Remove(path); err != nil { // and leave its log behind, as people do
		t.Fatal(err)
	}
	if found(t, server, "lighthouse") != 0 {
		t.Error("the server still has what was deleted")
	}
	fill(t, open(t, path), "mountain")
	if found(t, server, "mountain") != 1 || found(t, server, "lighthouse") != 0 {
		t.Error("the server does not see the new file, or the log of the old one was taken for its own")
	}
}

func TestStore_RefusesOtherFiles(t *testing.T) {
	for name, tc := range map[string]struct{ statement, want string }{
		"another program's": {"CREATE TABLE t (a)", "another program"},
		"another version's": {"PRAGMA user_version = 99", "another version of aptix"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "index.db")
			if strings.Contains(tc.want, "version") {
				fill(t, open(t, path), "harbour")
			}
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(tc.statement); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := open(t, path).Indexes(t.Context(), "local"); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

// A search ends with its turn's patience.
func TestStore_HeedsItsContext(t *testing.T) {
	s := open(t, filepath.Join(t.TempDir(), "index.db"))
	fill(t, s, "harbour")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Lexical(ctx, rag.Search{Org: "local", Terms: []string{"harbour"}, Most: 5}); err == nil {
		t.Error("it searched for nobody")
	}
}
