package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/storetest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(crashFile); path != "" {
		writeUntilKilled(path)
		return
	}
	goleak.VerifyTestMain(m)
}

// TestStore holds rows S-7 and S-8 of docs/security.md.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() storetest.Store {
		path := filepath.Join(t.TempDir(), "aptix.db")
		return func() storetest.Store { return open(t, path) }
	})
}

// open opens a store whose closing is the caller's business.
func open(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// temporary opens a store on a new file that goes with the test.
func temporary(t testing.TB) *Store {
	t.Helper()
	s := open(t, filepath.Join(t.TempDir(), "aptix.db"))
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// A store that is closed has nothing open any more.
func TestClose_LeavesNoFileOpen(t *testing.T) {
	files := func() int {
		open, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("this system does not tell which files are open")
		}
		return len(open)
	}
	before := 0
	for i := range 20 {
		s := open(t, filepath.Join(t.TempDir(), "aptix.db"))
		if err := s.OpenTurn(t.Context(), newTurn("s1", "t1", 0)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Turn(t.Context(), agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}); err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		if i == 0 {
			before = files()
		}
	}
	if now := files(); now > before+5 {
		t.Errorf("%d files are open, %d after the first store", now, before)
	}
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func newSession(id agent.SessionID) agent.Session {
	return agent.Session{Org: "acme", ID: id, CreatedBy: "ann", Mode: agent.ModeGeneral, Concurrency: agent.ConcurrencyReject}
}

func newTurn(session agent.SessionID, turn agent.TurnID, version int64) store.NewTurn {
	n := store.NewTurn{
		SessionVersion: version,
		Turn:           agent.Turn{Key: agent.TurnKey{Org: "acme", Session: session, Turn: turn}, Mode: agent.ModeGeneral},
		Steps:          []agent.Step{{N: 1, Kind: agent.StepAccepted, FirstEvent: 1}},
	}
	if version == 0 {
		sess := newSession(session)
		n.Session = &sess
	}
	return n
}

// execute changes the file behind the store's back.
func execute(t testing.TB, s *Store, statement string) {
	t.Helper()
	if _, err := s.writer.conn.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func TestOpen_FileIsForItsOwnerOnly(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new", "data")
	s := open(t, filepath.Join(folder, "aptix.db"))
	defer closeStore(t, s)
	if err := s.CreateSession(t.Context(), newSession("s1")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(folder)
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o700 {
		t.Errorf("the folder has mode %o, want 700", got)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("%s has mode %o, want 600", f.Name(), got)
		}
	}
	if len(files) < 3 {
		t.Errorf("got %d files, want at least data, log and lock", len(files))
	}
}

// There is nothing to tidy up in a new file, so nothing of that falls into its first turns.
func TestOpen_NewFileHasNoFreePages(t *testing.T) {
	s := temporary(t)
	if got := list(t, s, "PRAGMA freelist_count"); got != "0\n" || s.upkeep.erase.Load() {
		t.Errorf("a new file has %s free pages", got)
	}
}

func TestOpen_PathMayHoldAnything(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a b?c#d%41&e=", "aptix.db")
	closeStore(t, open(t, path))
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
}

func TestOpen_OneServerPerFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aptix.db")
	s := open(t, path)
	if _, err := Open(t.Context(), path, nil); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("second open: got %v, want ErrLocked with the path", err)
	}
	if err := s.CreateSession(t.Context(), newSession("s1")); err != nil {
		t.Errorf("the first suffers from the second: %v", err)
	}
	closeStore(t, s)
	closeStore(t, open(t, path))
}

func TestOpen_RefusesForeignFiles(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, string){
		"a database of another program": func(t *testing.T, path string) {
			s := open(t, path)
			execute(t, s, "PRAGMA application_id = 7")
			closeStore(t, s)
		},
		"a database without a mark": func(t *testing.T, path string) {
			s := open(t, path)
			execute(t, s, "PRAGMA application_id = 0")
			closeStore(t, s)
		},
		"no database at all": func(t *testing.T, path string) {
			if err := os.WriteFile(path, []byte(strings.Repeat("not a database. ", 64)), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "aptix.db")
			prepare(t, path)
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if s, err := Open(t.Context(), path, nil); err == nil {
				closeStore(t, s)
				t.Fatal("it was opened")
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(before) != string(after) {
				t.Error("it was changed")
			}
		})
	}
}

func TestOpen_RefusesNewerSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aptix.db")
	s := open(t, path)
	execute(t, s, "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
	closeStore(t, s)
	s, err := Open(t.Context(), path, nil)
	if err == nil {
		closeStore(t, s)
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), "newer aptix") {
		t.Errorf("got %v, want an error that says why", err)
	}
}

func TestOpen_SetsWhatDurabilityNeeds(t *testing.T) {
	s := temporary(t)
	for _, tt := range []struct{ pragma, writing, reading string }{
		{"journal_mode", "wal", "wal"},
		{"synchronous", "2", "2"},
		{"foreign_keys", "1", "1"},
		{"query_only", "0", "1"},
		{"trusted_schema", "0", "0"},
		{"busy_timeout", "10000", "10000"},
		{"secure_delete", "2", "2"}, // FAST
		{"auto_vacuum", "2", "2"},   // INCREMENTAL
	} {
		var writing, reading string
		if err := s.writer.conn.QueryRowContext(t.Context(), "PRAGMA "+tt.pragma).Scan(&writing); err != nil {
			t.Fatal(err)
		}
		if err := s.pool.QueryRowContext(t.Context(), "PRAGMA "+tt.pragma).Scan(&reading); err != nil {
			t.Fatal(err)
		}
		if writing != tt.writing || reading != tt.reading {
			t.Errorf("%s: got %s and %s, want %s and %s", tt.pragma, writing, reading, tt.writing, tt.reading)
		}
	}
	if _, err := s.pool.ExecContext(t.Context(), "DELETE FROM sessions"); err == nil {
		t.Error("a reader has written")
	}
}

func TestClose_FoldsTheLogAndIsFinal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aptix.db")
	s := open(t, path)
	if err := s.OpenTurn(t.Context(), newTurn("s1", "t1", 0)); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	closeStore(t, s)
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() != 0 {
		t.Errorf("the log still has %d bytes", info.Size())
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := s.CreateSession(t.Context(), newSession("s2")); !errors.Is(err, errClosed) {
		t.Errorf("write after close: got %v, want errClosed", err)
	}
	if _, err := s.Session(t.Context(), "acme", "s1"); err == nil || agent.KindOf(err) != agent.KindInternal {
		t.Errorf("read after close: got %v, want a plain error", err)
	}
	if err := s.Ping(context.Background()); err == nil {
		t.Error("ping after close succeeds")
	}
	if at, err := s.Standing(t.Context(), agent.TurnKey{Org: "acme", Session: "s1", Turn: "new"}); err == nil {
		t.Errorf("what a turn meets after close: got %+v, want an error", at)
	}
}

// The rule is the database's, not only the code's.
func TestSchema_OneActiveTurnPerSession(t *testing.T) {
	s := temporary(t)
	if err := s.OpenTurn(t.Context(), newTurn("s1", "t1", 0)); err != nil {
		t.Fatal(err)
	}
	_, err := s.writer.conn.ExecContext(t.Context(), `INSERT INTO turns SELECT NULL, org, session_id, 't2', 2, user_id, 'waiting', request,
		body_sha256, mode, tools, stream, response, fault, continuation_sha256, deadline, created_at, updated_at, 0, NULL FROM turns`)
	if err == nil || !strings.Contains(err.Error(), "UNIQUE") {
		t.Errorf("got %v, want a broken unique rule", err)
	}
}

// A mode change whose second half fails leaves no first half.
func TestChangeMode_IsAtomic(t *testing.T) {
	prove.Rule(t, "AGN011-5.7-a", "AGN011-3.2-a")
	for name, trigger := range map[string]string{
		"history fails": "BEFORE INSERT ON mode_changes",
		"session fails": "BEFORE UPDATE OF mode ON sessions",
	} {
		t.Run(name, func(t *testing.T) {
			s := temporary(t)
			if err := s.CreateSession(t.Context(), newSession("s1")); err != nil {
				t.Fatal(err)
			}
			execute(t, s, "CREATE TRIGGER broken "+trigger+" BEGIN SELECT raise(ABORT, 'broken'); END")
			ch := agent.ModeChange{Org: "acme", Session: "s1", Mode: "ddr_authoring", Reason: "r", Turn: "t1", Call: "c1"}
			if _, _, _, err := s.ChangeMode(t.Context(), ch); err == nil {
				t.Fatal("it succeeded")
			}
			sess, err := s.Session(t.Context(), "acme", "s1")
			if err != nil {
				t.Fatal(err)
			}
			rows, _, err := s.ModeHistory(t.Context(), "acme", "s1", store.Page{})
			if err != nil {
				t.Fatal(err)
			}
			if sess.Mode != agent.ModeGeneral || sess.Version != 1 || len(rows) != 0 {
				t.Errorf("got mode %s at version %d with %d rows, want nothing changed", sess.Mode, sess.Version, len(rows))
			}

			// The same call succeeds once what broke it is gone.
			execute(t, s, "DROP TRIGGER broken")
			if _, _, stands, err := s.ChangeMode(t.Context(), ch); err != nil || !stands {
				t.Errorf("stands %v, error %v", stands, err)
			}
		})
	}
}

func TestDSN_NamesTheFile(t *testing.T) {
	const path = "/a b/c?d#e%41.db"
	u, err := url.Parse(dsn(path, forReading))
	if err != nil {
		t.Fatal(err)
	}
	if u.Path != path {
		t.Errorf("got %q, want %q", u.Path, path)
	}
}

// rawFile opens a file without the store around it.
func rawFile(t testing.TB, path string) *sql.DB {
	t.Helper()
	raw, err := sql.Open("sqlite", dsn(path, forWriting))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Close() }) // most tests have closed it by then
	return raw
}
