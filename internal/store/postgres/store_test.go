package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/pgtest"
	"github.com/aptixhq/aptix/internal/secret"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/store/storetest"
)

// cluster is the server of all tests; each has a database of its own, which is migrated.
var cluster = pgtest.Cluster{Prepare: func(connection string) error {
	s, err := Open(context.Background(), secret.New(connection), nil)
	if err != nil {
		return err
	}
	return s.Close()
}}

func TestMain(m *testing.M) { goleak.VerifyTestMain(cluster.Around(m)) }

// TestStore holds rows S-7 and S-8 of docs/security.md.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) func() storetest.Store {
		database := cluster.Database(t)
		return func() storetest.Store { return open(t, database) }
	})
}

// open opens a store whose closing is the caller's business.
func open(t testing.TB, database string) *Store {
	t.Helper()
	s, err := Open(t.Context(), secret.New(database), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// temporary opens a store on a new database that goes with the test.
func temporary(t testing.TB) *Store {
	t.Helper()
	return another(t, cluster.Database(t))
}

// another opens a store, as one more node would, that is closed with the test.
func another(t testing.TB, database string) *Store {
	t.Helper()
	s := open(t, database)
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

func key(session agent.SessionID, turn agent.TurnID) agent.TurnKey {
	return agent.TurnKey{Org: "acme", Session: session, Turn: turn}
}

func newSession(id agent.SessionID) agent.Session {
	return agent.Session{Org: "acme", ID: id, CreatedBy: "ann", Mode: agent.ModeGeneral, Concurrency: agent.ConcurrencyReject}
}

func newTurn(session agent.SessionID, turn agent.TurnID, version int64) store.NewTurn {
	n := store.NewTurn{
		SessionVersion: version,
		Turn:           agent.Turn{Key: key(session, turn), Mode: agent.ModeGeneral},
		Steps:          []agent.Step{{N: 1, Kind: agent.StepAccepted, FirstEvent: 1}},
	}
	if version == 0 {
		sess := newSession(session)
		n.Session = &sess
	}
	return n
}

// A write of a turn is one round trip once its statement is known to the connection, and
// no statement has a name that a pooler would lose.
func TestWrite_IsOneRoundTrip(t *testing.T) {
	p := newProxy(t)
	s := another(t, p.through(cluster.Database(t)))
	text, response := "a Go module", "resp_1"
	for i := range 2 {
		first := agent.SessionID(fmt.Sprint("s", i))
		next := newTurn(first, "t2", 1)
		next.SolutionContext = &text
		next.Blobs = []agent.Blob{{SHA256: "h1", Data: []byte("x")}}
		for _, w := range []struct {
			name string
			do   func() error
		}{
			{"a first turn", func() error { return s.OpenTurn(t.Context(), newTurn(first, "t1", 0)) }},
			{"steps", func() error {
				return s.AppendSteps(t.Context(), store.Append{Key: key(first, "t1"), State: agent.TurnRunning, Steps: []agent.Step{resumed(2), resumed(3)}})
			}},
			{"the end", func() error {
				return s.AppendSteps(t.Context(), store.Append{Key: key(first, "t1"), State: agent.TurnCompleted, LastResponseID: &response,
					Steps: []agent.Step{{N: 4, Kind: agent.StepSettled, Settled: &agent.Settled{State: agent.TurnCompleted}}}})
			}},
			{"a next turn", func() error { return s.OpenTurn(t.Context(), next) }},
			{"what it meets", func() error {
				_, err := s.Standing(t.Context(), next.Turn.Key)
				return err
			}},
		} {
			p.counted()
			if err := w.do(); err != nil {
				t.Fatalf("%s: %v", w.name, err)
			}
			trips, named := p.counted()
			if named != 0 {
				t.Errorf("%s: %d statements have a name", w.name, named)
			}
			if i > 0 && trips != 1 {
				t.Errorf("%s: %d round trips", w.name, trips)
			}
		}
	}
}

// Nodes that start at the same time on an empty database get one schema.
func TestOpen_ManyAtOnce(t *testing.T) {
	database := cluster.Empty(t)
	var work sync.WaitGroup
	for range 5 {
		work.Go(func() {
			s, err := Open(t.Context(), secret.New(database), nil)
			if err != nil {
				t.Error(err)
				return
			}
			closeStore(t, s)
		})
	}
	work.Wait()
}

func TestOpen_RefusesNewerSchema(t *testing.T) {
	database := cluster.Database(t)
	s := open(t, database)
	_, err := s.pool.Exec(t.Context(), "INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (9999, true)")
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	s, err = Open(t.Context(), secret.New(database), nil)
	if err == nil {
		closeStore(t, s)
		t.Fatal("it was opened")
	}
	if !strings.Contains(err.Error(), "newer aptix") {
		t.Errorf("got %v, want an error that says why", err)
	}
}

func TestOpen_ErrorHidesThePassword(t *testing.T) {
	for _, connection := range []string{
		"postgres://ann:s3cret@127.0.0.1:1/x?connect_timeout=1",
		"postgres://ann:s3cret@127.0.0.1:1/x?sslmode=nonsense",
		"host=127.0.0.1 port=1 password=s3cret dbname=x connect_timeout=1",
	} {
		s, err := Open(t.Context(), secret.New(connection), nil)
		if err == nil {
			closeStore(t, s)
			t.Fatal("it was opened")
		}
		if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error has the password in it: %v", err)
		}
	}
}

// The primary alone is read from and written to.
func TestOpen_RefusesStandby(t *testing.T) {
	database := cluster.Database(t)
	closeStore(t, open(t, database))
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	s, err := Open(ctx, secret.New(database+" default_transaction_read_only=on"), nil)
	if err == nil {
		closeStore(t, s)
		t.Fatal("it was opened")
	}
}

// A key that PostgreSQL cannot hold is the key of nothing.
func TestRead_KeyThatCannotBe(t *testing.T) {
	s := temporary(t)
	for _, id := range []agent.SessionID{"a\x00b", "\xff"} {
		if _, err := s.Session(t.Context(), "acme", id); agent.KindOf(err) != agent.KindNotFound {
			t.Errorf("session: got %v, want not_found", err)
		}
		if _, err := s.Turn(t.Context(), key(id, "t1")); agent.KindOf(err) != agent.KindNotFound {
			t.Errorf("turn: got %v, want not_found", err)
		}
		if _, err := s.Steps(t.Context(), key(id, "t1")); agent.KindOf(err) != agent.KindNotFound {
			t.Errorf("steps: got %v, want not_found", err)
		}
		if at, err := s.Standing(t.Context(), key(id, "t1")); err != nil || at.Session != nil {
			t.Errorf("standing: %+v, %v", at, err)
		}
		if err := s.AppendSteps(t.Context(), store.Append{Key: key(id, "t1"), State: agent.TurnRunning}); agent.KindOf(err) != agent.KindNotFound {
			t.Errorf("append: got %v, want not_found", err)
		}
		if err := s.DeleteSession(t.Context(), "acme", id); agent.KindOf(err) != agent.KindNotFound {
			t.Errorf("erase: got %v, want not_found", err)
		}
	}
}

// A call whose context has no deadline ends by itself.
func TestCall_HasADeadline(t *testing.T) {
	for _, give := range []func(context.Context) (context.Context, context.CancelFunc){bounded, finishing} {
		ctx, cancel := give(context.Background())
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > callTime {
			t.Errorf("the deadline is %v, %t", at, ok)
		}
		cancel()
		own, done := context.WithTimeout(context.Background(), time.Hour)
		ctx, cancel = give(own)
		want, _ := own.Deadline()
		if at, ok := ctx.Deadline(); !ok || !at.Equal(want) {
			t.Errorf("the caller's deadline %v became %v", want, at)
		}
		cancel()
		done()
	}
}

// A content goes with the last session that uses it, also when others take it up in the
// same moment.
func TestErase_ContentThatIsTakenUp(t *testing.T) {
	database := cluster.Database(t)
	nodes := []*Store{another(t, database), another(t, database)}
	for i := range 30 {
		hash := fmt.Sprint("h", i)
		old, fresh := agent.SessionID(fmt.Sprint("old", i)), agent.SessionID(fmt.Sprint("new", i))
		with := func(id agent.SessionID) store.NewTurn {
			n := newTurn(id, "t1", 0)
			n.Blobs = []agent.Blob{{SHA256: hash, Data: []byte("x")}}
			return n
		}
		if err := nodes[0].OpenTurn(t.Context(), with(old)); err != nil {
			t.Fatal(err)
		}
		var work sync.WaitGroup
		work.Go(func() {
			if err := nodes[0].DeleteSession(t.Context(), "acme", old); err != nil {
				t.Error(err)
			}
		})
		work.Go(func() {
			if err := nodes[1].OpenTurn(t.Context(), with(fresh)); err != nil {
				t.Error(err)
			}
		})
		work.Wait()
		if _, err := nodes[0].Blob(t.Context(), "acme", hash); err != nil {
			t.Errorf("the content of %s: %v", fresh, err)
		}
	}
}
