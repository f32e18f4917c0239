package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/postgres/db"
)

// write is a way to write, for tests that break it off. Each is done to a session of its
// own.
type write struct {
	name string
	// prepare makes what is written to.
	prepare func(t *testing.T, s *Store, id agent.SessionID)
	do      func(ctx context.Context, s *Store, id agent.SessionID) error
	// times says how often it has happened.
	times func(t *testing.T, s *Store, id agent.SessionID) int
}

func writes() []write {
	create := func(t *testing.T, s *Store, id agent.SessionID) {
		if err := s.CreateSession(t.Context(), newSession(id)); err != nil {
			t.Fatal(err)
		}
	}
	opened := func(t *testing.T, s *Store, id agent.SessionID) {
		if err := s.OpenTurn(t.Context(), newTurn(id, "t1", 0)); err != nil {
			t.Fatal(err)
		}
	}
	turns := func(t *testing.T, s *Store, id agent.SessionID) int {
		sess, err := s.Session(t.Context(), "acme", id)
		if agent.KindOf(err) == agent.KindNotFound {
			return 0
		}
		list, _, lerr := s.Turns(t.Context(), "acme", id, store.Page{})
		if err != nil || lerr != nil || int64(len(list)) != sess.Turns {
			t.Fatalf("%d turns of %d, %v, %v", len(list), sess.Turns, err, lerr)
		}
		for _, turn := range list {
			if steps, err := s.Steps(t.Context(), turn.Key); err != nil || len(steps) != 1 {
				t.Fatalf("%d steps, %v", len(steps), err)
			}
		}
		return len(list)
	}
	version := func(t *testing.T, s *Store, id agent.SessionID) int {
		sess, err := s.Session(t.Context(), "acme", id)
		if err != nil {
			t.Fatal(err)
		}
		changes, _, err := s.ModeHistory(t.Context(), "acme", id, store.Page{})
		if err != nil || len(changes) > 0 && int64(len(changes)) != sess.Version-1 {
			t.Fatalf("%d changes, version %d, %v", len(changes), sess.Version, err)
		}
		return int(sess.Version) - 1
	}
	change := func(call agent.CallID) func(context.Context, *Store, agent.SessionID) error {
		return func(ctx context.Context, s *Store, id agent.SessionID) error {
			ch := agent.ModeChange{Org: "acme", Session: id, Mode: "ddr_authoring", Reason: "r", Actor: agent.ActorUser, Turn: "t1", Call: call}
			sess, _, stands, err := s.ChangeMode(ctx, ch)
			if err == nil && (!stands || sess.Mode != "ddr_authoring" || sess.Version != 2) {
				return fmt.Errorf("the change stands: %t; the session is in %s at version %d", stands, sess.Mode, sess.Version)
			}
			return err
		}
	}
	response := "resp_1"
	return []write{
		{"create a session", func(*testing.T, *Store, agent.SessionID) {},
			func(ctx context.Context, s *Store, id agent.SessionID) error {
				return s.CreateSession(ctx, newSession(id))
			},
			func(t *testing.T, s *Store, id agent.SessionID) int {
				if _, err := s.Session(t.Context(), "acme", id); err != nil {
					return 0
				}
				return 1
			}},
		{"open a first turn", func(*testing.T, *Store, agent.SessionID) {},
			func(ctx context.Context, s *Store, id agent.SessionID) error {
				return s.OpenTurn(ctx, newTurn(id, "t1", 0))
			}, turns},
		{"open a turn with a content", create,
			func(ctx context.Context, s *Store, id agent.SessionID) error {
				n := newTurn(id, "t1", 1)
				n.Blobs = []agent.Blob{{SHA256: "h1", Data: []byte("x")}, {SHA256: "h2", Data: []byte("y")}}
				return s.OpenTurn(ctx, n)
			}, turns},
		{"append to a turn", opened,
			func(ctx context.Context, s *Store, id agent.SessionID) error {
				return s.AppendSteps(ctx, store.Append{Key: key(id, "t1"), State: agent.TurnRunning, Steps: []agent.Step{resumed(2), resumed(3)}})
			},
			func(t *testing.T, s *Store, id agent.SessionID) int { return (stepsOf(t, s, id) - 1) / 2 }},
		{"settle a turn", opened,
			func(ctx context.Context, s *Store, id agent.SessionID) error {
				return s.AppendSteps(ctx, store.Append{Key: key(id, "t1"), State: agent.TurnCompleted, LastResponseID: &response, Steps: []agent.Step{
					{N: 2, Kind: agent.StepSettled, At: time.Now(), Settled: &agent.Settled{State: agent.TurnCompleted}}}})
			},
			func(t *testing.T, s *Store, id agent.SessionID) int {
				var sess agent.Session
				var turn agent.Turn
				var err, terr error
				n := between(t, s, id, func() {
					sess, err = s.Session(t.Context(), "acme", id)
					turn, terr = s.Turn(t.Context(), key(id, "t1"))
				})
				if err != nil || terr != nil || (n == 1) != (sess.LastResponseID == response) || (n == 1) != turn.State.Terminal() {
					t.Fatalf("%d steps, last response %q, %s, %v, %v", n, sess.LastResponseID, turn.State, err, terr)
				}
				return n
			}},
		{"claim a turn", opened,
			func(ctx context.Context, s *Store, id agent.SessionID) error {
				return s.AppendSteps(ctx, store.Append{Key: key(id, "t1"), State: agent.TurnRunning, Steps: []agent.Step{resumed(2)},
					Lease: store.Lease{Owner: "a", For: lease}})
			},
			func(t *testing.T, s *Store, id agent.SessionID) int {
				var turn agent.Turn
				var err error
				if n := between(t, s, id, func() { turn, err = s.Turn(t.Context(), key(id, "t1")) }); err != nil || int64(n) != turn.Epoch {
					t.Fatalf("%d steps, epoch %d, %v", n, turn.Epoch, err)
				}
				return int(turn.Epoch)
			}},
		{"move a turn without a step", opened,
			func(ctx context.Context, s *Store, id agent.SessionID) error {
				return s.AppendSteps(ctx, store.Append{Key: key(id, "t1"), State: agent.TurnFailed})
			},
			func(t *testing.T, s *Store, id agent.SessionID) int {
				turn, err := s.Turn(t.Context(), key(id, "t1"))
				if err != nil {
					t.Fatal(err)
				}
				if turn.State == agent.TurnFailed {
					return 1
				}
				return 0
			}},
		{"set tools", create,
			func(ctx context.Context, s *Store, id agent.SessionID) error {
				return s.SetTools(ctx, "acme", id, []byte(`[]`))
			}, version},
		{"change the mode by a call", create, change("call_1"), version},
		{"change the mode by hand", create, change(""), version},
		{"erase a session", opened,
			func(ctx context.Context, s *Store, id agent.SessionID) error { return s.DeleteSession(ctx, "acme", id) },
			func(t *testing.T, s *Store, id agent.SessionID) int {
				if _, err := s.Session(t.Context(), "acme", id); err == nil {
					return 0
				}
				return 1
			}},
	}
}

func resumed(n int) agent.Step {
	return agent.Step{N: n, Kind: agent.StepResumed, At: time.Now(), Resumed: &agent.Resumed{ReplaceFrom: int64(n)}}
}

func stepsOf(t *testing.T, s *Store, id agent.SessionID) int {
	t.Helper()
	steps, err := s.Steps(t.Context(), key(id, "t1"))
	if err != nil {
		t.Fatal(err)
	}
	return len(steps)
}

// between reads what goes with the steps behind the first, whose number it returns. A commit
// that its writer does not wait for any more may come meanwhile: then it reads again.
func between(t *testing.T, s *Store, id agent.SessionID, read func()) int {
	t.Helper()
	for {
		n := stepsOf(t, s, id)
		if read(); stepsOf(t, s, id) == n {
			return n - 1
		}
	}
}

// Wherever the connection breaks, the write has happened once when the call returns, and
// the call says so.
func TestWrite_ConnectionBreaksAtEachStep(t *testing.T) {
	database := cluster.Database(t)
	direct := another(t, database)
	p := newProxy(t)
	s := another(t, p.through(database))
	for i, w := range writes() {
		t.Run(w.name, func(t *testing.T) {
			for _, from := range []side{client, server} {
				for n := 0; ; n++ {
					id := agent.SessionID(fmt.Sprintf("s%d_%s_%d", i, from, n))
					w.prepare(t, direct, id)
					p.arm(from, n, false)
					err := w.do(t.Context(), s, id)
					cut := p.disarm()
					if times := w.times(t, direct, id); err != nil || times != 1 {
						t.Errorf("cut at message %d of the %s: done %d times, error %v", n, from, times, err)
					}
					if !cut {
						t.Logf("%d messages of the %s", n, from)
						break
					}
				}
			}
		})
	}
}

// When the server does not come back in time, the call says that it failed only if the
// write has not happened, and else that the outcome is unknown.
func TestWrite_ConnectionBreaksForGood(t *testing.T) {
	var happened, failed atomic.Int64
	t.Run("writes", func(t *testing.T) {
		for _, w := range writes() {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				database := cluster.Database(t)
				direct := another(t, database)
				p := newProxy(t)
				s := another(t, p.through(database))
				s.lookTime = 20 * time.Millisecond
				for _, from := range []side{client, server} {
					for n := 0; ; n++ {
						id := agent.SessionID(fmt.Sprintf("%s_%d", from, n))
						w.prepare(t, direct, id)
						if err := s.Ping(t.Context()); err != nil {
							t.Fatal(err)
						}
						p.arm(from, n, true)
						ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
						err := w.do(ctx, s, id)
						cancel()
						cut := p.disarm()
						times := w.times(t, direct, id)
						switch {
						case times > 1, err == nil && times != 1, err != nil && times != 0 && !errors.Is(err, store.ErrUnknown):
							t.Errorf("cut at message %d of the %s: done %d times, error %v", n, from, times, err)
						case times == 1 && err != nil:
							happened.Add(1)
						case err != nil:
							failed.Add(1)
						}
						if !cut {
							break
						}
					}
				}
			})
		}
	})
	if happened.Load() == 0 || failed.Load() == 0 {
		t.Errorf("%d writes happened untold and %d did not; the test needs both", happened.Load(), failed.Load())
	}
}

// A server may go on with a write whose client is gone. When the write is tried again
// meanwhile, it is still done once.
func TestWrite_LostOneIsStillUnderWay(t *testing.T) {
	database := cluster.Database(t)
	direct := another(t, database)
	p := newProxy(t)
	s := another(t, p.through(database))
	for i, w := range writes() {
		if w.name == "create a session" || w.name == "open a first turn" {
			continue // there is nothing yet that could hold them up
		}
		t.Run(w.name, func(t *testing.T) {
			id := agent.SessionID(fmt.Sprint("s", i))
			w.prepare(t, direct, id)
			conn, err := pgx.Connect(t.Context(), database)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close(context.Background())
			tx, err := conn.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range []string{"sessions", "turns"} {
				if _, err := tx.Exec(t.Context(), "SELECT FROM "+table+" WHERE session_id = $1 FOR UPDATE", string(id)); err != nil {
					t.Fatal(err)
				}
			}
			done := make(chan error, 1)
			go func() { done <- w.do(context.WithoutCancel(t.Context()), s, id) }()
			waitForLocks(t, direct, 1)
			p.breakAll()
			waitForLocks(t, direct, 2) // the lost one, and behind it the next try
			if err := tx.Commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := <-done; err != nil {
				t.Error(err)
			}
			if times := w.times(t, direct, id); times != 1 {
				t.Errorf("done %d times", times)
			}
		})
	}
}

// A server that is gone without a word is found out in time for another one.
func TestWrite_ConnectionLeadsNowhere(t *testing.T) {
	database := cluster.Database(t)
	direct := another(t, database)
	p := newProxy(t)
	s := another(t, p.through(database))
	s.attemptTime = 200 * time.Millisecond
	for i, w := range writes() {
		id := agent.SessionID(fmt.Sprint("s", i))
		w.prepare(t, direct, id)
		p.deafen()
		if err := w.do(t.Context(), s, id); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		if times := w.times(t, direct, id); times != 1 {
			t.Errorf("%s: done %d times", w.name, times)
		}
	}
	p.deafen()
	if _, err := s.Session(t.Context(), "acme", "s1"); err != nil {
		t.Errorf("a read: %v", err)
	}
}

// waitForLocks returns when so many statements wait for a lock in the database.
func waitForLocks(t *testing.T, s *Store, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		var n int
		err := s.pool.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity, pg_sleep(0.01)
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil {
			t.Fatalf("%d wait for a lock, want %d: %v", n, want, err)
		}
		if n >= want {
			return
		}
	}
}

// breakWrites makes the next writes to turns fail with a code of the server's.
func breakWrites(t *testing.T, s *Store, code string, times int) {
	t.Helper()
	for _, statement := range []string{
		"CREATE SEQUENCE IF NOT EXISTS failures",
		"ALTER SEQUENCE failures RESTART",
		fmt.Sprintf(`CREATE OR REPLACE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
			BEGIN IF nextval('failures') <= %d THEN RAISE EXCEPTION 'broken' USING ERRCODE = '%s'; END IF; RETURN NEW; END $$`, times, code),
		"CREATE OR REPLACE TRIGGER broken BEFORE INSERT OR UPDATE ON turns FOR EACH ROW EXECUTE FUNCTION fail()",
	} {
		if _, err := s.pool.Exec(t.Context(), statement, pgx.QueryExecModeExec); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func TestWrite_TriesAgain(t *testing.T) {
	s := temporary(t)
	for _, code := range []string{codeSerialization, codeDeadlock, codeReadOnly, codeCannotConnect} {
		t.Run(code, func(t *testing.T) {
			breakWrites(t, s, code, 3)
			id := agent.SessionID("s" + code)
			if err := s.OpenTurn(t.Context(), newTurn(id, "t1", 0)); err != nil {
				t.Errorf("open: %v", err)
			}
			breakWrites(t, s, code, 3)
			if err := s.AppendSteps(t.Context(), store.Append{Key: key(id, "t1"), Steps: []agent.Step{resumed(2)}}); err != nil {
				t.Errorf("append: %v", err)
			}
			if got := stepsOf(t, s, id); got != 2 {
				t.Errorf("%d steps, want 2", got)
			}
		})
	}
}

func TestWrite_GivesUp(t *testing.T) {
	s := temporary(t)
	breakWrites(t, s, codeSerialization, 1000)
	if err := s.OpenTurn(t.Context(), newTurn("s1", "t1", 0)); !isCode(err, codeSerialization) {
		t.Errorf("got %v, want the conflict", err)
	}
	breakWrites(t, s, codeCannotConnect, 1000)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.OpenTurn(ctx, newTurn("s1", "t1", 0)); !isCode(err, codeCannotConnect) {
		t.Errorf("got %v, want what the server said", err)
	}
	// Any other fault is told at once.
	breakWrites(t, s, "XX000", 1)
	if err := s.OpenTurn(t.Context(), newTurn("s1", "t1", 0)); !isCode(err, "XX000") {
		t.Errorf("got %v, want the fault", err)
	}
}

func TestWrite_DiskIsFull(t *testing.T) {
	s := temporary(t)
	if err := s.OpenTurn(t.Context(), newTurn("s1", "t1", 0)); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.now = func() time.Time { return now }
	breakWrites(t, s, codeDiskFull, 1)
	full := func(what string, err error) {
		t.Helper()
		if agent.KindOf(err) != agent.KindStorageFull {
			t.Errorf("%s: got %v, want storage_full", what, err)
		}
	}
	full("the write that meets it", s.AppendSteps(t.Context(), store.Append{Key: key("s1", "t1"), Steps: []agent.Step{resumed(2)}}))
	full("room", s.Room())
	full("something new", s.OpenTurn(t.Context(), newTurn("s2", "t1", 0)))
	if err := s.AppendSteps(t.Context(), store.Append{Key: key("s1", "t1"), Steps: []agent.Step{resumed(2)}}); err != nil {
		t.Errorf("what is under way: %v", err)
	}
	now = now.Add(fullTime)
	if err := s.Room(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	if err := s.OpenTurn(t.Context(), newTurn("s2", "t1", 0)); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A real deadlock, in which the store is the one that the server breaks off.
func TestWrite_Deadlock(t *testing.T) {
	database := cluster.Database(t)
	s := another(t, database)
	if err := s.OpenTurn(t.Context(), newTurn("s1", "t1", 0)); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	run := func(statement string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	run("SET deadlock_timeout = '10s'") // so that it is the store's server that looks first
	run("BEGIN")
	run("SELECT FROM turns FOR UPDATE")
	response := "resp_1"
	done := make(chan error, 1)
	go func() {
		done <- s.AppendSteps(context.WithoutCancel(t.Context()), store.Append{Key: key("s1", "t1"), State: agent.TurnCompleted, LastResponseID: &response,
			Steps: []agent.Step{{N: 2, Kind: agent.StepSettled, Settled: &agent.Settled{State: agent.TurnCompleted}}}})
	}()
	waitForLocks(t, s, 1)
	run("SELECT FROM sessions FOR UPDATE")
	run("COMMIT")
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := stepsOf(t, s, "s1"); got != 2 {
		t.Errorf("%d steps, want 2", got)
	}
}

// A change of the mode that nobody was told of may land after it was looked for, and others
// may follow it before it is tried again. It is made once all the same.
func TestChangeMode_LandedLateAndFollowed(t *testing.T) {
	s := another(t, cluster.Database(t))
	openLeased(t, s, leased("s1", "a"))
	change := func(mode agent.ModeKey, at int64) (recorded agent.ModeChange, stands bool) {
		t.Helper()
		ch := agent.ModeChange{Org: "acme", Session: "s1", Mode: mode, Reason: "r", User: "ann", Actor: agent.ActorUser}
		err := s.with(t.Context(), func(ctx context.Context, c *pgxpool.Conn) error {
			return transact(ctx, c, func(q *db.Queries) (err error) {
				_, recorded, stands, err = s.changeMode(ctx, q, ch, at)
				return err
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		return recorded, stands
	}
	first, _ := change("another", 1000)
	change("third", 2000)
	again, stands := change("another", 1000)
	if !stands || again.Sequence != first.Sequence {
		t.Errorf("tried again it is change %d (%v), want %d", again.Sequence, stands, first.Sequence)
	}
	history, _, err := s.ModeHistory(t.Context(), "acme", "s1", store.Page{})
	if err != nil || len(history) != 2 {
		t.Errorf("%d changes (%v), want 2: %v", len(history), err, history)
	}
}
