package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// crashFile is the environment variable that turns the test binary into a process
// that writes to the named file until it is killed.
const crashFile = "APTIX_TEST_CRASH_FILE"

// writeUntilKilled runs turns in several sessions and prints a line for each write
// that was acknowledged: session, turn and newest step.
func writeUntilKilled(path string) {
	s, err := Open(context.Background(), path, nil)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	failed := make(chan error)
	for i := range 4 {
		id := agent.SessionID(fmt.Sprintf("p%d_s%d", os.Getpid(), i))
		go func() { failed <- writeTurns(s, id) }()
	}
	fmt.Println(<-failed)
	os.Exit(1)
}

func writeTurns(s *Store, id agent.SessionID) error {
	for t := 0; ; t++ {
		n := newTurn(id, agent.TurnID(fmt.Sprint("t", t)), min(int64(t), 1))
		if err := s.OpenTurn(context.Background(), n); err != nil {
			return err
		}
		fmt.Println(id, n.Turn.Key.Turn, 1)
		for step := 2; step <= 4; step++ {
			a := store.Append{Key: n.Turn.Key, State: agent.TurnRunning, Steps: []agent.Step{
				{N: step, Kind: agent.StepResumed, Resumed: &agent.Resumed{}}}}
			if step == 4 {
				a.State = agent.TurnCompleted
			}
			if err := s.AppendSteps(context.Background(), a); err != nil {
				return err
			}
			fmt.Println(id, n.Turn.Key.Turn, step)
		}
	}
}

// A process that is killed loses nothing that it has acknowledged. This is the
// short form of the campaign; each cycle ends when so many writes were seen.
func TestCrash_AcknowledgedWritesSurvive(t *testing.T) {
	cycles := 5
	if testing.Short() {
		cycles = 1
	}
	path := filepath.Join(t.TempDir(), "aptix.db")
	acknowledged := map[agent.TurnKey]int{}
	for cycle := range cycles {
		killed(t, path, 20+37*cycle, acknowledged)

		s := open(t, path)
		for k, want := range acknowledged {
			steps, err := s.Steps(t.Context(), k)
			if err != nil || len(steps) < want {
				t.Errorf("cycle %d: %s has %d steps (error %v), %d were acknowledged", cycle, k, len(steps), err, want)
			}
		}
		var verdict string
		if err := s.pool.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
			t.Errorf("cycle %d: integrity check says %q (error %v)", cycle, verdict, err)
		}
		closeStore(t, s)
	}
	t.Logf("%d cycles of kill -9, %d acknowledged turns", cycles, len(acknowledged))
}

// killed runs the writing process, kills it after so many acknowledged writes, and
// notes all that it has acknowledged.
func killed(t *testing.T, path string, writes int, acknowledged map[agent.TurnKey]int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), crashFile+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	seen := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		k := agent.TurnKey{Org: "acme"}
		var step int
		if _, err := fmt.Sscan(lines.Text(), &k.Session, &k.Turn, &step); err != nil {
			t.Errorf("the writing process says %q", lines.Text())
			break
		}
		acknowledged[k] = max(acknowledged[k], step)
		if seen++; seen == writes {
			if err := cmd.Process.Kill(); err != nil {
				t.Errorf("kill the writing process: %v", err)
				break
			}
		}
	}
	if seen < writes {
		t.Errorf("the writing process has acknowledged %d writes, want %d", seen, writes)
		_ = cmd.Process.Kill() // it may be gone already
	}
	_ = cmd.Wait() // it was killed, which Wait reports as an error
}
