package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
)

// onDisk returns all that the file and its log hold at this moment.
func onDisk(t testing.TB, s *Store) []byte {
	t.Helper()
	var all []byte
	for _, name := range []string{s.path, s.path + "-wal"} {
		data, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		all = append(all, data...)
	}
	return all
}

// eventually waits for something that is done by itself, normally within seconds.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%s did not happen", what)
		}
	}
}

// secretTurns opens completed turns that hold a word, in a text that is cut out and in
// the rows themselves.
func secretTurns(t *testing.T, s *Store, session, turns int, word string) {
	t.Helper()
	for i := range turns {
		n := contentTurn(key(session, i), int64(min(i, 1)), 20<<10, true)
		n.Blobs[0].Data = append(n.Blobs[0].Data, word...)
		n.Turn.State, n.Turn.Request = agent.TurnCompleted, []byte(`"`+word+`"`)
		n.Steps[1].Asked.Canonical += word
		if err := s.OpenTurn(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
}

// What is erased leaves the files, its space included, while others write and read.
func TestErase_LeavesNothingAndShrinksTheFile(t *testing.T) {
	s := temporary(t)
	secretTurns(t, s, 1, 40, "the-secret")
	secretTurns(t, s, 2, 3, "the-other")
	secretTurns(t, s, 3, 40, "the-secret")
	if err := s.upkeep.checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := onDisk(t, s)
	if !bytes.Contains(before, []byte("the-secret")) {
		t.Fatal("the word was never there")
	}
	for _, id := range []agent.SessionID{"s1", "s3"} {
		if err := s.DeleteSession(t.Context(), "acme", id); err != nil {
			t.Fatal(err)
		}
	}
	i := 3
	eventually(t, "the file became smaller", func() bool {
		if err := benchTurn(s, key(2, i), 1, t); err != nil {
			t.Fatal(err)
		}
		i++
		info, err := os.Stat(s.path)
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size()) < len(before)/2
	})
	eventually(t, "the word's disappearance", func() bool { return !bytes.Contains(onDisk(t, s), []byte("the-secret")) })
	if !bytes.Contains(onDisk(t, s), []byte("the-other")) {
		t.Error("the other session has lost its word")
	}
	var verdict string
	if err := s.pool.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
		t.Errorf("integrity check says %q (error %v)", verdict, err)
	}
	turn, err := s.Turn(t.Context(), key(2, 1))
	if err != nil || turn.State != agent.TurnCompleted {
		t.Errorf("the other session's turn is %s (error %v)", turn.State, err)
	}
}

// A file that was made without room for it does not shrink; what is erased is
// overwritten all the same.
func TestErase_OldFileIsOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "aptix.db")
	writeFirstSchema(t, path)
	s := open(t, path)
	defer func() { closeStore(t, s) }()
	secretTurns(t, s, 5, 10, "the-secret")
	if err := s.DeleteSession(t.Context(), "acme", "s5"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the word's disappearance", func() bool { return !bytes.Contains(onDisk(t, s), []byte("the-secret")) })
}

// A process that stopped before the file was made smaller leaves that to the next one.
func TestErase_IsFinishedAtTheNextStart(t *testing.T) {
	s := temporary(t)
	secretTurns(t, s, 1, 40, "the-secret")
	if err := s.DeleteSession(t.Context(), "acme", "s1"); err != nil {
		t.Fatal(err)
	}
	// What a process leaves that dies here.
	path := filepath.Join(t.TempDir(), "aptix.db")
	before := 0
	for _, name := range []string{"", "-wal"} {
		data, err := os.ReadFile(s.path + name)
		if err != nil {
			t.Fatal(err)
		}
		before += len(data)
		if err := os.WriteFile(path+name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	next := open(t, path)
	defer func() { closeStore(t, next) }()
	eventually(t, "the file became smaller", func() bool { return len(onDisk(t, next)) < before/4 })
	if bytes.Contains(onDisk(t, next), []byte("the-secret")) {
		t.Error("the word is still there")
	}
}

// A store that closes, and an organisation that is erased, leave nothing to the next
// start.
func TestErase_IsFinishedBefore(t *testing.T) {
	for name, erase := range map[string]func(*testing.T, *Store){
		"closing": func(t *testing.T, s *Store) {
			if err := s.DeleteSession(t.Context(), "acme", "s1"); err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
		},
		"the organisation's end": func(t *testing.T, s *Store) {
			if n, err := s.EraseOrg(t.Context(), "acme"); n != 1 || err != nil {
				t.Fatal(n, err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := temporary(t)
			secretTurns(t, s, 1, 10, "the-secret")
			if !bytes.Contains(onDisk(t, s), []byte("the-secret")) {
				t.Fatal("the word was never there")
			}
			erase(t, s)
			if bytes.Contains(onDisk(t, s), []byte("the-secret")) {
				t.Error("the word is still there")
			}
		})
	}
}

// BenchmarkErase erases sessions of 500 turns: for that long other writers wait.
func BenchmarkErase(b *testing.B) {
	s := temporary(b)
	for i := 0; b.Loop(); i++ {
		b.StopTimer()
		for turn := range 500 {
			if err := benchTurn(s, key(fmt.Sprint("e", i), turn), int64(min(turn, 1)), b); err != nil {
				b.Fatal(err)
			}
		}
		b.StartTimer()
		if err := s.DeleteSession(b.Context(), "acme", key(fmt.Sprint("e", i), 0).Session); err != nil {
			b.Fatal(err)
		}
	}
}
