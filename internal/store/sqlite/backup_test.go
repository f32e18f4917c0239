package sqlite

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// A backup that is taken while turns are written has everything that was acknowledged
// before it began, and a server goes on with it.
func TestBackup_WhileTurnsAreWritten(t *testing.T) {
	dir := t.TempDir()
	path, dest := filepath.Join(dir, "aptix.db"), filepath.Join(dir, "copy.db")
	s := open(t, path)
	written := make(chan agent.TurnKey, 1000)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			turn := newTurn("s1", agent.TurnID(fmt.Sprint("t", n)), min(int64(n), 1))
			if err := s.OpenTurn(t.Context(), turn); err != nil {
				t.Error(err)
				return
			}
			if err := s.AppendSteps(t.Context(), store.Append{Key: turn.Turn.Key, State: agent.TurnCompleted}); err != nil {
				t.Error(err)
				return
			}
			select {
			case written <- turn.Turn.Key:
			default:
			}
		}
	}()
	var before []agent.TurnKey
	for len(before) < 20 {
		before = append(before, <-written)
	}
	for range 3 { // again over the one before
		size, err := Backup(t.Context(), path, dest, true)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(dest); err != nil || info.Size() != size || info.Mode().Perm() != 0o600 {
			t.Errorf("the copy: %v (%v), want %d bytes for the owner only", info, err, size)
		}
	}
	close(stop)
	<-stopped
	closeStore(t, s)

	c := open(t, dest)
	for _, k := range before {
		if turn, err := c.Turn(t.Context(), k); err != nil || turn.State != agent.TurnCompleted {
			t.Errorf("turn %s in the copy: %s (%v)", k, turn.State, err)
		}
	}
	if err := c.OpenTurn(t.Context(), newTurn("s2", "t1", 0)); err != nil {
		t.Errorf("the copy takes no turn: %v", err)
	}
	closeStore(t, c)
	if left, err := filepath.Glob(filepath.Join(dir, ".aptix-backup-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v (%v)", left, err)
	}
}

func TestBackup_Refuses(t *testing.T) {
	dir := t.TempDir()
	path, there := filepath.Join(dir, "aptix.db"), filepath.Join(dir, "there")
	closeStore(t, open(t, path))
	if err := os.WriteFile(there, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Backup(t.Context(), path, there, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v, want ErrExist", err)
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "mine" {
		t.Errorf("the file that was there has %q (%v)", text, err)
	}
	if _, err := Backup(t.Context(), filepath.Join(dir, "missing.db"), filepath.Join(dir, "copy"), false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of nothing: %v, want ErrNotExist", err)
	}
	if _, err := Backup(t.Context(), there, filepath.Join(dir, "copy"), false); err == nil {
		t.Error("of a file that is none of ours: no error")
	}
	if _, err := Backup(t.Context(), path, filepath.Join(dir, "no", "folder"), false); err == nil {
		t.Error("into a folder that is not there: no error")
	}
}
