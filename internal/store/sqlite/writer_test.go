package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/sqlite/db"
)

// occupy keeps the writer busy until release is called.
func occupy(t *testing.T, s *Store) (release func() error) {
	t.Helper()
	begun, end, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.write(context.Background(), "occupy", func(ctx context.Context, q *db.Queries) error {
			close(begun)
			<-end
			return s.insertSession(ctx, q, newSession("occupied"), agent.Origin{})
		})
	}()
	<-begun
	return func() error {
		close(end)
		return <-done
	}
}

func hasSession(t *testing.T, s *Store, id agent.SessionID) bool {
	t.Helper()
	_, err := s.Session(t.Context(), "acme", id)
	if err != nil && agent.KindOf(err) != agent.KindNotFound {
		t.Fatal(err)
	}
	return err == nil
}

func TestWriter_CallerMayGiveUpWhileItWaits(t *testing.T) {
	s := temporary(t)
	release := occupy(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.CreateSession(ctx, newSession("s1")) }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if hasSession(t, s, "s1") {
		t.Error("the write that was given up has been done")
	}
}

func TestWriter_FinishesWhatHasBegun(t *testing.T) {
	s := temporary(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := s.write(ctx, "cancelled in the middle", func(ctx context.Context, q *db.Queries) error {
		cancel()
		return s.insertSession(ctx, q, newSession("s1"), agent.Origin{})
	})
	if err != nil || !hasSession(t, s, "s1") {
		t.Errorf("got %v, want the session", err)
	}
}

func TestWriter_ReadersDoNotWait(t *testing.T) {
	s := temporary(t)
	if err := s.CreateSession(t.Context(), newSession("s1")); err != nil {
		t.Fatal(err)
	}
	release := occupy(t, s)
	if !hasSession(t, s, "s1") || hasSession(t, s, "occupied") {
		t.Error("a reader sees something else than what is committed")
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	if !hasSession(t, s, "occupied") {
		t.Error("a reader does not see a write that has returned")
	}
}

func TestWriter_CloseFinishesTheWriteUnderWay(t *testing.T) {
	s := temporary(t)
	path := s.path
	release := occupy(t, s)
	closed := make(chan error)
	go func() { closed <- s.Close() }()
	// Only Close can answer this one while the writer is occupied.
	if err := s.CreateSession(t.Context(), newSession("s1")); !errors.Is(err, errClosed) {
		t.Errorf("a write that waits: got %v, want errClosed", err)
	}
	if err := release(); err != nil {
		t.Errorf("the write under way: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("close: %v", err)
	}
	again := open(t, path)
	defer closeStore(t, again)
	if !hasSession(t, again, "occupied") || hasSession(t, again, "s1") {
		t.Error("the file does not hold what the callers were told")
	}
}

func member(i int) agent.SessionID { return agent.SessionID(fmt.Sprint("member", i)) }

// group makes jobs that insert a session each, except that those of fail return
// its error after they have inserted theirs.
func group(s *Store, n int, fail map[int]error) []*job {
	var jobs []*job
	for i := range n {
		jobs = append(jobs, &job{ctx: context.Background(), run: func(ctx context.Context, q *db.Queries) error {
			if err := s.insertSession(ctx, q, newSession(member(i)), agent.Origin{}); err != nil {
				return err
			}
			return fail[i]
		}})
	}
	return jobs
}

func TestWriter_UnitsOfAGroupFailAlone(t *testing.T) {
	s := temporary(t)
	broken := errors.New("broken")
	jobs := group(s, 5, map[int]error{1: broken, 4: broken})
	if err := s.writer.together(jobs); err != nil {
		t.Fatal(err)
	}
	for i, j := range jobs {
		if want := i == 1 || i == 4; errors.Is(j.err, broken) != want || hasSession(t, s, member(i)) == want {
			t.Errorf("unit %d: got %v", i, j.err)
		}
	}
}

func TestWriter_UnitsOfABrokenGroupRunAgain(t *testing.T) {
	s := temporary(t)
	jobs := group(s, 3, nil)
	// The second unit takes the transaction away under the group, as SQLite does
	// by itself on some errors of the disk.
	runs := 0
	execute(t, s, "CREATE TRIGGER broken BEFORE INSERT ON sessions WHEN new.session_id = 'member1' BEGIN SELECT raise(ROLLBACK, 'broken'); END")
	insert := jobs[1].run
	jobs[1].run = func(ctx context.Context, q *db.Queries) error {
		runs++
		return insert(ctx, q)
	}
	s.writer.commit(jobs)
	for i, j := range jobs {
		if (j.err != nil) != (i == 1) {
			t.Errorf("unit %d: got %v", i, j.err)
		}
		if got := hasSession(t, s, member(i)); got != (i != 1) {
			t.Errorf("unit %d: session stored %v", i, got)
		}
	}
	if runs != 2 {
		t.Errorf("the unit ran %d times, want once in the group and once alone", runs)
	}
}

// A unit that panics is rolled back, and what comes after it is not held up.
func TestWriter_GoesOnAfterAPanic(t *testing.T) {
	s := temporary(t)
	release := occupy(t, s)
	panicked := make(chan any)
	go func() {
		defer func() { panicked <- recover() }()
		_ = s.write(t.Context(), "panic", func(ctx context.Context, q *db.Queries) error {
			if err := s.insertSession(ctx, q, newSession("s1"), agent.Origin{}); err != nil {
				return err
			}
			panic("inside")
		})
	}()
	for waiting := false; !waiting; time.Sleep(time.Millisecond) {
		s.writer.mu.Lock()
		waiting = len(s.writer.queue) == 1
		s.writer.mu.Unlock()
	}
	joined := make(chan error)
	go func() { joined <- s.CreateSession(t.Context(), newSession("s2")) }()
	if err := release(); err != nil {
		t.Error(err)
	}
	if got := <-panicked; got != "inside" {
		t.Errorf("recovered %v", got)
	}
	if err := <-joined; err != nil && !errors.Is(err, errPanicked) {
		t.Errorf("the write beside it: %v", err)
	}
	if err := s.CreateSession(t.Context(), newSession("s3")); err != nil {
		t.Errorf("the write after it: %v", err)
	}
	if hasSession(t, s, "s1") || !hasSession(t, s, "s3") {
		t.Error("the file does not hold what it should")
	}
}

// Large groups do not have the log folded more often: each fold costs two syncs.
func TestWriter_FoldsAfterManyCommitsOfManyUnits(t *testing.T) {
	for _, tt := range []struct{ foldAfter, units, commits int }{
		{512, 1, 512}, {512, 8, 64}, {512, 512, 64}, {512, 7, 74}, {64, 1, 64},
	} {
		w := &writer{foldAfter: tt.foldAfter}
		for range 2 { // the second time as the first
			n := 1
			for ; n < 1000 && !w.fills(tt.units); n++ {
			}
			if n != tt.commits {
				t.Errorf("after %d, with %d units each: folded at commit %d, want %d", tt.foldAfter, tt.units, n, tt.commits)
			}
		}
	}
	if never := (&writer{}); never.fills(1000) {
		t.Error("0 is not never")
	}
}

// What pauses the writer shares no transaction with those that wait beside it.
func TestWriter_PausesBetweenTransactions(t *testing.T) {
	s := temporary(t)
	release := occupy(t, s)
	results := make(chan error, 3)
	waiting := func(n int) {
		for queued := 0; queued < n; time.Sleep(time.Millisecond) {
			s.writer.mu.Lock()
			queued = len(s.writer.queue)
			s.writer.mu.Unlock()
		}
	}
	go func() { results <- s.CreateSession(t.Context(), newSession("s1")) }()
	waiting(1)
	go func() {
		results <- s.writer.pause(t.Context(), func() error {
			if !hasSession(t, s, "s1") || hasSession(t, s, "s2") {
				t.Error("it does not stand where it came")
			}
			_, err := s.writer.conn.ExecContext(t.Context(), "BEGIN; ROLLBACK") // fails within a transaction
			return err
		})
	}()
	waiting(2)
	go func() { results <- s.CreateSession(t.Context(), newSession("s2")) }()
	waiting(3)
	if err := release(); err != nil {
		t.Error(err)
	}
	for range 3 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if !hasSession(t, s, "s2") {
		t.Error("the write after it is not there")
	}
}

// A full disk gives its own kind, leaves nothing behind, lets readers read, and is
// over when there is room again.
func TestWriter_FullDisk(t *testing.T) {
	s := temporary(t)
	if err := s.OpenTurn(t.Context(), newTurn("s1", "t1", 0)); err != nil {
		t.Fatal(err)
	}
	var pages int
	if err := s.writer.conn.QueryRowContext(t.Context(), "PRAGMA page_count").Scan(&pages); err != nil {
		t.Fatal(err)
	}
	execute(t, s, fmt.Sprintf("PRAGMA max_page_count = %d", pages+2))

	k := agent.TurnKey{Org: "acme", Session: "s1", Turn: "t1"}
	settled := store.Append{Key: k, State: agent.TurnCompleted, Response: []byte(strings.Repeat("x", 1<<20)),
		Steps: []agent.Step{{N: 2, Kind: agent.StepSettled, Settled: &agent.Settled{State: agent.TurnCompleted}}}}
	for range 3 {
		err := s.AppendSteps(t.Context(), settled)
		if agent.KindOf(err) != agent.KindStorageFull {
			t.Fatalf("got %v, want storage_full", err)
		}
		turn, err := s.Turn(t.Context(), k)
		if err != nil || turn.State != agent.TurnAccepted || turn.Response != nil {
			t.Errorf("got state %s (error %v), want accepted", turn.State, err)
		}
	}
	// In a group it fails alone too.
	jobs := group(s, 2, nil)
	jobs[0].run = func(ctx context.Context, q *db.Queries) error {
		return insertBlobs(ctx, q, k, []agent.Blob{{SHA256: "h", Data: settled.Response}}, 1)
	}
	s.writer.commit(jobs)
	if err := explain("", jobs[0].err); agent.KindOf(err) != agent.KindStorageFull {
		t.Errorf("got %v, want storage_full", err)
	}
	if err := jobs[1].err; err != nil {
		t.Errorf("the other unit of the group: %v", err)
	}

	execute(t, s, "PRAGMA max_page_count = 1000000")
	if err := s.AppendSteps(t.Context(), settled); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
