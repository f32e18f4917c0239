package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

const lease = time.Minute

// leased is a first turn that its owner runs.
func leased(session agent.SessionID, owner string) store.NewTurn {
	n := newTurn(session, "t1", 0)
	n.Lease = store.Lease{Owner: owner, For: lease}
	return n
}

// expire lets all leases run out, as they do by the database's clock.
func expire(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.pool.Exec(t.Context(), "UPDATE turns SET lease_until = 1 WHERE lease_until > 0"); err != nil {
		t.Fatal(err)
	}
}

func openLeased(t *testing.T, s *Store, n store.NewTurn) {
	t.Helper()
	if err := s.OpenTurn(t.Context(), n); err != nil {
		t.Fatal(err)
	}
}

func takeover(t *testing.T, s *Store, owner string) []store.Claim {
	t.Helper()
	claims, err := s.Takeover(t.Context(), owner, lease, 100)
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

func wantOwner(t *testing.T, s *Store, k agent.TurnKey, owner string, epoch int64, live bool) {
	t.Helper()
	var gotOwner string
	var gotEpoch int64
	var gotLive bool
	err := s.pool.QueryRow(t.Context(), `SELECT owner, epoch, lease_until > (extract(epoch FROM now()) * 1000000)::bigint FROM turns
		WHERE org = $1 AND session_id = $2 AND turn_id = $3`, string(k.Org), string(k.Session), string(k.Turn)).Scan(&gotOwner, &gotEpoch, &gotLive)
	if err != nil {
		t.Fatal(err)
	}
	if gotOwner != owner || gotEpoch != epoch || gotLive != live {
		t.Errorf("turn %s: owner %q, epoch %d, lease holds: %t; want %q, %d, %t", k, gotOwner, gotEpoch, gotLive, owner, epoch, live)
	}
	if turn, err := s.Turn(t.Context(), k); err != nil || turn.Epoch != epoch {
		t.Errorf("turn %s is read with epoch %d, %v; want %d", k, turn.Epoch, err, epoch)
	}
}

func TestLease_PausedOwnerIsFenced(t *testing.T) {
	database := cluster.Database(t)
	a, b := another(t, database), another(t, database)
	k := key("s1", "t1")
	openLeased(t, a, leased("s1", "a"))
	wantOwner(t, a, k, "a", 1, true)
	if got := takeover(t, b, "b"); len(got) != 0 {
		t.Errorf("took %v over, whose lease holds", got)
	}
	if err := a.AppendSteps(t.Context(), store.Append{Key: k, Epoch: 1, State: agent.TurnRunning, Steps: []agent.Step{resumed(2)}}); err != nil {
		t.Fatal(err)
	}

	// a is paused for longer than its lease.
	expire(t, b)
	want := []store.Claim{{Key: k, Epoch: 2}}
	if diff := cmp.Diff(want, takeover(t, b, "b")); diff != "" {
		t.Fatalf("taken over (-want +got):\n%s", diff)
	}
	wantOwner(t, b, k, "b", 2, true)
	for name, late := range map[string]store.Append{
		"a step":         {Steps: []agent.Step{resumed(3)}},
		"an end":         {State: agent.TurnCompleted},
		"no epoch":       {Epoch: -1, State: agent.TurnRunning},
		"a claim":        {State: agent.TurnRunning, Lease: store.Lease{Owner: "a", For: lease}},
		"a wrong number": {Steps: []agent.Step{resumed(7)}},
	} {
		late.Key, late.Epoch = k, late.Epoch+1
		if err := a.AppendSteps(t.Context(), late); !errors.Is(err, store.ErrFenced) {
			t.Errorf("%s: got %v, want ErrFenced", name, err)
		}
	}
	lost, err := a.Renew(t.Context(), "a", []store.Claim{{Key: k, Epoch: 1}}, lease)
	if err != nil || !slices.Equal(lost, []agent.TurnKey{k}) {
		t.Errorf("renewal: lost %v, %v", lost, err)
	}
	if err := a.Release(t.Context(), "a", []store.Claim{{Key: k, Epoch: 1}}); err != nil {
		t.Error(err)
	}
	wantOwner(t, b, k, "b", 2, true)
	if err := b.AppendSteps(t.Context(), store.Append{Key: k, Epoch: 2, State: agent.TurnCompleted, Steps: []agent.Step{resumed(3)}}); err != nil {
		t.Error(err)
	}
	wantOwner(t, b, k, "", 2, false)
	if got := stepsOf(t, b, "s1"); got != 3 {
		t.Errorf("%d steps, want 3", got)
	}
	expire(t, b)
	if got := takeover(t, a, "a"); len(got) != 0 {
		t.Errorf("took %v over, which is over", got)
	}
}

// Leases run by the database's clock; a node's may be anywhere.
func TestLease_RunsByTheDatabasesClock(t *testing.T) {
	database := cluster.Database(t)
	a, b := another(t, database), another(t, database)
	a.now = func() time.Time { return time.Now().Add(-24 * time.Hour) }
	b.now = func() time.Time { return time.Now().Add(24 * time.Hour) }
	n := leased("s1", "a")
	n.Lease.For = 200 * time.Millisecond
	begun := time.Now()
	openLeased(t, a, n)
	for {
		claims := takeover(t, b, "b")
		if len(claims) == 0 {
			if _, err := b.pool.Exec(t.Context(), "SELECT pg_sleep(0.01)"); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if after := time.Since(begun); after < n.Lease.For {
			t.Errorf("taken over after %s", after)
		}
		return
	}
}

func TestLease_RenewedLasts(t *testing.T) {
	database := cluster.Database(t)
	a, b := another(t, database), another(t, database)
	openLeased(t, a, leased("s1", "a"))
	openLeased(t, a, leased("s2", "a"))
	openLeased(t, a, leased("s3", "a"))
	expire(t, a)
	// Late, but nobody has come meanwhile.
	claims := []store.Claim{{Key: key("s1", "t1"), Epoch: 1}, {Key: key("s2", "t1"), Epoch: 1},
		{Key: key("s3", "t1"), Epoch: 4}, {Key: key("s4", "t1"), Epoch: 1}}
	lost, err := a.Renew(t.Context(), "a", claims, lease)
	slices.SortFunc(lost, func(a, b agent.TurnKey) int { return strings.Compare(string(a.Session), string(b.Session)) })
	if err != nil || !slices.Equal(lost, []agent.TurnKey{key("s3", "t1"), key("s4", "t1")}) {
		t.Errorf("lost %v, %v; want the one of another epoch and the one that there is not", lost, err)
	}
	wantOwner(t, a, key("s1", "t1"), "a", 1, true)
	wantOwner(t, a, key("s2", "t1"), "a", 1, true)
	if got := takeover(t, b, "b"); !slices.Equal(got, []store.Claim{{Key: key("s3", "t1"), Epoch: 2}}) {
		t.Errorf("took %v over, want the one that was not renewed", got)
	}
	if lost, err := b.Renew(t.Context(), "b", claims[:2], lease); err != nil || len(lost) != 2 {
		t.Errorf("renewed what is another's: lost %v, %v", lost, err)
	}
	if lost, err := a.Renew(t.Context(), "a", nil, lease); err != nil || lost != nil {
		t.Errorf("nothing: lost %v, %v", lost, err)
	}
}

// A turn that is written to is neither waited for nor called lost.
func TestLease_RenewWaitsForNobody(t *testing.T) {
	s := temporary(t)
	openLeased(t, s, leased("s1", "a"))
	openLeased(t, s, leased("s2", "a"))
	expire(t, s)
	tx, err := s.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := tx.Exec(t.Context(), "SELECT FROM turns WHERE session_id = 's1' FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	claims := []store.Claim{{Key: key("s1", "t1"), Epoch: 1}, {Key: key("s2", "t1"), Epoch: 1}}
	if lost, err := s.Renew(t.Context(), "a", claims, lease); err != nil || len(lost) != 0 {
		t.Errorf("lost %v, %v", lost, err)
	}
	wantOwner(t, s, key("s1", "t1"), "a", 1, false)
	wantOwner(t, s, key("s2", "t1"), "a", 1, true)
	if got := takeover(t, s, "b"); len(got) != 0 {
		t.Errorf("took %v over, which is written to", got)
	}
}

func TestLease_ReleasedIsFoundAtOnce(t *testing.T) {
	database := cluster.Database(t)
	a, b := another(t, database), another(t, database)
	openLeased(t, a, leased("s1", "a"))
	if err := a.Release(t.Context(), "a", []store.Claim{{Key: key("s1", "t1"), Epoch: 1}}); err != nil {
		t.Fatal(err)
	}
	wantOwner(t, a, key("s1", "t1"), "", 1, false)
	if got := takeover(t, b, "b"); !slices.Equal(got, []store.Claim{{Key: key("s1", "t1"), Epoch: 2}}) {
		t.Errorf("took %v over", got)
	}
	if err := a.Release(t.Context(), "a", nil); err != nil {
		t.Error(err)
	}
}

// A turn that waits for its client has no owner; whoever gets the client's results goes
// on with it.
func TestLease_WaitingTurnHasNone(t *testing.T) {
	database := cluster.Database(t)
	a, b := another(t, database), another(t, database)
	k := key("s1", "t1")
	openLeased(t, a, leased("s1", "a"))
	if err := a.AppendSteps(t.Context(), store.Append{Key: k, Epoch: 1, State: agent.TurnWaiting, Steps: []agent.Step{
		{N: 2, Kind: agent.StepWaiting, Waiting: &agent.Delivery{}}}}); err != nil {
		t.Fatal(err)
	}
	wantOwner(t, a, k, "", 1, false)
	if got := takeover(t, b, "b"); len(got) != 0 {
		t.Errorf("took %v over, which waits", got)
	}
	goOn := func(s *Store, owner string) error {
		return s.AppendSteps(t.Context(), store.Append{Key: k, Epoch: 1, Lease: store.Lease{Owner: owner, For: lease},
			State: agent.TurnRunning, From: []agent.TurnState{agent.TurnWaiting}, Steps: []agent.Step{
				{N: 3, Kind: agent.StepContinued, Continued: &agent.Continued{SHA256: owner}}}})
	}
	if err := goOn(b, "b"); err != nil {
		t.Fatal(err)
	}
	wantOwner(t, b, k, "b", 2, true)
	if err := goOn(a, "a"); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the second to go on: got %v, want ErrFenced", err)
	}
	// Nobody claims a turn that another one runs, even at the right epoch.
	err := a.AppendSteps(t.Context(), store.Append{Key: k, Epoch: 2, State: agent.TurnRunning, Lease: store.Lease{Owner: "a", For: lease}})
	if !errors.Is(err, store.ErrFenced) {
		t.Errorf("a claim of what runs: got %v, want ErrFenced", err)
	}
	expire(t, a)
	err = a.AppendSteps(t.Context(), store.Append{Key: k, Epoch: 2, State: agent.TurnRunning, Lease: store.Lease{Owner: "a", For: lease}})
	if err != nil {
		t.Errorf("a claim of what was abandoned: %v", err)
	}
	wantOwner(t, a, k, "a", 3, true)
}

func TestLease_QueuedTurnHasNoneUntilItStarts(t *testing.T) {
	database := cluster.Database(t)
	a, b := another(t, database), another(t, database)
	openLeased(t, a, leased("s1", "a"))
	queued := newTurn("s1", "t2", 1)
	queued.Turn.Queued = true
	queued.Lease = store.Lease{Owner: "a", For: lease}
	queued.Steps = []agent.Step{{N: 1, Kind: agent.StepQueued, Queued: &agent.Queued{}}}
	openLeased(t, a, queued)
	wantOwner(t, a, key("s1", "t2"), "", 0, false)
	if got := takeover(t, b, "b"); len(got) != 0 {
		t.Errorf("took %v over, which waits for its session", got)
	}
	start := func(s *Store, owner string, version int64) error {
		return s.AppendSteps(t.Context(), store.Append{Key: key("s1", "t2"), Lease: store.Lease{Owner: owner, For: lease},
			State: agent.TurnAccepted, From: []agent.TurnState{agent.TurnAccepted}, Start: &store.Start{SessionVersion: version, Mode: agent.ModeGeneral},
			Steps: []agent.Step{{N: 2, Kind: agent.StepAccepted}}})
	}
	if active := (*store.ActiveError)(nil); !errors.As(start(b, "b", 1), &active) || active.Turn != "t1" {
		t.Errorf("it started beside another one")
	}
	if err := a.AppendSteps(t.Context(), store.Append{Key: key("s1", "t1"), Epoch: 1, State: agent.TurnCompleted}); err != nil {
		t.Fatal(err)
	}
	if err := start(b, "b", 2); !errors.Is(err, store.ErrVersion) {
		t.Errorf("at another version of the session: got %v, want ErrVersion", err)
	}
	if err := start(b, "b", 1); err != nil {
		t.Fatal(err)
	}
	wantOwner(t, b, key("s1", "t2"), "b", 1, true)
	if err := start(a, "a", 1); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the second to start it: got %v, want ErrFenced", err)
	}
}

// Many that look for abandoned turns at the same time get each of them once.
func TestLease_TakeoverGivesEachTurnOnce(t *testing.T) {
	database := cluster.Database(t)
	first := another(t, database)
	const turns = 40
	for i := range turns {
		openLeased(t, first, leased(agent.SessionID(fmt.Sprint("s", i)), "gone"))
	}
	expire(t, first)
	var mu sync.Mutex
	taken := map[agent.TurnKey]string{}
	var work sync.WaitGroup
	for i := range 4 {
		owner := fmt.Sprint("node", i)
		s := another(t, database)
		work.Go(func() {
			for {
				claims, err := s.Takeover(t.Context(), owner, lease, 3)
				if err != nil {
					t.Error(err)
					return
				}
				if len(claims) > 3 {
					t.Errorf("%d turns at once", len(claims))
				}
				mu.Lock()
				for _, c := range claims {
					if before, ok := taken[c.Key]; ok || c.Epoch != 2 {
						t.Errorf("%s has %s at epoch %d, which %s has", owner, c.Key, c.Epoch, before)
					}
					taken[c.Key] = owner
				}
				done := len(taken) == turns
				mu.Unlock()
				if done || len(claims) == 0 {
					return
				}
			}
		})
	}
	work.Wait()
	// One that was skipped since another looked at it at that moment is there the next time.
	for _, c := range takeover(t, first, "last") {
		taken[c.Key] = "last"
	}
	if len(taken) != turns {
		t.Errorf("%d of %d turns were taken over", len(taken), turns)
	}
	for k, owner := range taken {
		wantOwner(t, first, k, owner, 2, true)
	}
}

// An end that does not come from the owner moves the epoch on: whatever the owner writes
// from then on is refused, and it hears so with its next renewal.
func TestLease_EndFromElsewhereFencesTheOwner(t *testing.T) {
	database := cluster.Database(t)
	a, b := another(t, database), another(t, database)
	k := key("s1", "t1")
	openLeased(t, a, leased("s1", "a"))
	end := store.Append{Key: k, Epoch: 1, Fence: true, State: agent.TurnCancelled, Steps: []agent.Step{resumed(2)}}
	if err := b.AppendSteps(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	wantOwner(t, b, k, "", 2, false)
	for name, late := range map[string]store.Append{
		"a step": {State: agent.TurnRunning, Steps: []agent.Step{resumed(2)}},
		"an end": {State: agent.TurnCompleted, Steps: []agent.Step{resumed(3)}},
	} {
		late.Key, late.Epoch, late.Owner = k, 1, "a"
		if err := a.AppendSteps(t.Context(), late); !errors.Is(err, store.ErrFenced) {
			t.Errorf("%s: got %v, want ErrFenced", name, err)
		}
	}
	if lost, err := a.Renew(t.Context(), "a", []store.Claim{{Key: k, Epoch: 1}}, lease); err != nil || !slices.Equal(lost, []agent.TurnKey{k}) {
		t.Errorf("renewal: lost %v, %v", lost, err)
	}
	if err := b.AppendSteps(t.Context(), end); !errors.Is(err, store.ErrFenced) {
		t.Errorf("another end: got %v, want ErrFenced", err)
	}
}

// A session that is erased and begun anew has turns of the old names and the old epochs.
// Whoever ran an old one is not the owner of the new one.
func TestLease_NamesakeHasAnotherOwner(t *testing.T) {
	database := cluster.Database(t)
	a, b := another(t, database), another(t, database)
	k := key("s1", "t1")
	openLeased(t, a, leased("s1", "a"))
	if err := b.DeleteSession(t.Context(), k.Org, k.Session); err != nil {
		t.Fatal(err)
	}
	openLeased(t, b, leased("s1", "b"))
	late := store.Append{Key: k, Epoch: 1, Owner: "a", State: agent.TurnCompleted, Steps: []agent.Step{resumed(2)}}
	if err := a.AppendSteps(t.Context(), late); !errors.Is(err, store.ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
	late.Owner = "b"
	if err := b.AppendSteps(t.Context(), late); err != nil {
		t.Error(err)
	}
}

func TestLease_PositionsTellHowFarTurnsAre(t *testing.T) {
	s := temporary(t)
	openLeased(t, s, leased("s1", "a"))
	openLeased(t, s, leased("s2", "a"))
	if err := s.AppendSteps(t.Context(), store.Append{Key: key("s2", "t1"), Epoch: 1, Owner: "a", State: agent.TurnRunning, Steps: []agent.Step{resumed(2)}}); err != nil {
		t.Fatal(err)
	}
	expire(t, s)
	takeover(t, s, "b")
	got, err := s.Positions(t.Context(), []agent.TurnKey{key("s2", "t1"), key("s1", "t1"), key("s3", "t1")})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b store.Position) int { return strings.Compare(string(a.Key.Session), string(b.Key.Session)) })
	want := []store.Position{
		{Key: key("s1", "t1"), State: agent.TurnAccepted, Steps: 1, Epoch: 2},
		{Key: key("s2", "t1"), State: agent.TurnRunning, Steps: 2, Epoch: 2},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("positions (-want +got):\n%s", diff)
	}
	if got, err := s.Positions(t.Context(), nil); err != nil || got != nil {
		t.Errorf("of nothing: %v, %v", got, err)
	}
}

// A mode change of an owner that has its turn no more is refused, as its other writes.
func TestLease_LateModeChangeIsRefused(t *testing.T) {
	database := cluster.Database(t)
	a, b := another(t, database), another(t, database)
	openLeased(t, a, leased("s1", "a"))
	change := agent.ModeChange{Org: "acme", Session: "s1", Mode: "other", Reason: "r", User: "ann", Actor: agent.ActorModel, Turn: "t1", Call: "c1", Epoch: 1}
	expire(t, a)
	takeover(t, b, "b")
	if _, _, _, err := a.ChangeMode(t.Context(), change); !errors.Is(err, store.ErrFenced) {
		t.Errorf("the old owner: got %v, want ErrFenced", err)
	}
	change.Epoch = 2
	if _, _, stands, err := b.ChangeMode(t.Context(), change); err != nil || !stands {
		t.Errorf("the new owner: %t, %v", stands, err)
	}
	change.Turn, change.Call = "t2", "c2"
	if _, _, _, err := b.ChangeMode(t.Context(), change); agent.KindOf(err) != agent.KindNotFound {
		t.Errorf("no turn: got %v", err)
	}
	if _, _, stands, err := a.ChangeMode(t.Context(), agent.ModeChange{Org: "acme", Session: "s1", Mode: "third", Reason: "r", User: "ann", Actor: agent.ActorUser}); err != nil || !stands {
		t.Errorf("a user: %t, %v", stands, err)
	}
}
