package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/store"
)

func turnTests() []test {
	return []test{
		{"FirstTurnBringsItsSession", firstTurn},
		{"TurnSurvivesReopening", turnSurvives},
		{"RepeatedTurnExists", repeatedTurn},
		{"BusySessionNamesTheActiveTurn", busySession},
		{"StaleSessionIsRefused", staleSession},
		{"RefusedTurnLeavesNothing", refusedTurn},
		{"SolutionContextIsLatched", solutionContext},
		{"ModeAndToolsOfATurnAreFrozen", frozenTurn},
		{"ListIsOldestFirst", turnList},
		{"SweepsFindWhatIsLeftBehind", sweeps},
	}
}

func firstTurn(t *testing.T, d *data) {
	prove.Rule(t, "AGN011-3.1-c", "AGN011-3.3-c")
	k := key("s1", "t1")
	sess, turn := openTurn(t, d, userTurn(k, 0))
	if sess.Mode != agent.ModeGeneral || sess.Version != 1 || sess.Turns != 1 || sess.CreatedBy != "ann" {
		t.Errorf("got session %+v", sess)
	}
	if turn.Ordinal != 1 || turn.State != agent.TurnAccepted {
		t.Errorf("got ordinal %d in state %s, want 1 accepted", turn.Ordinal, turn.State)
	}
	same(t, "stored session", session(t, d, "s1"), sess)
	same(t, "stored turn", readTurn(t, d, k), turn)

	// The session that is there wins over the one that the next turn brings.
	settle(t, d, k, 1)
	n := userTurn(key("s1", "t2"), 1)
	other := newSession("s1")
	other.Mode = "ddr_authoring"
	n.Session = &other
	sess, turn = openTurn(t, d, n)
	if sess.Mode != agent.ModeGeneral || sess.Turns != 2 || turn.Ordinal != 2 {
		t.Errorf("got mode %s, %d turns, ordinal %d; want general, 2, 2", sess.Mode, sess.Turns, turn.Ordinal)
	}
}

func turnSurvives(t *testing.T, d *data) {
	prove.Rule(t, "AGN011-3.2-b")
	yes := true
	n := userTurn(key("s1", "t1"), 0)
	n.Turn.Stream = &yes
	n.Turn.Mode = "ddr_authoring"
	n.Turn.Request = json.RawMessage("{ \"instruction\" : \"<b>&\u2028\" }\n")
	n.Turn.Tools = json.RawMessage(`[ {"type":"function"} ]`)
	_, opened := openTurn(t, d, n)
	d.reopen(t)

	want := n.Turn
	want.Ordinal, want.State = 1, agent.TurnAccepted
	want.Deadline, want.CreatedAt, want.UpdatedAt = at(10).UTC(), at(1).UTC(), at(1).UTC()
	same(t, "turn as opened", opened, want)
	same(t, "turn as stored", readTurn(t, d, n.Turn.Key), want)
	if got := opened.CreatedAt.Location(); got != time.UTC {
		t.Errorf("times are in %s, want UTC", got)
	}
	steps, err := d.Steps(t.Context(), n.Turn.Key)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "steps", steps, []agent.Step{{N: 1, Kind: agent.StepAccepted, FirstEvent: 1, At: at(1).UTC()}})
}

func repeatedTurn(t *testing.T, d *data) {
	k := key("s1", "t1")
	openTurn(t, d, userTurn(k, 0))
	for _, version := range []int64{0, 1, 7} {
		// It is its own active turn, and any version of the session will do: that
		// it exists is the answer.
		if err := d.OpenTurn(t.Context(), userTurn(k, version)); !errors.Is(err, store.ErrExists) {
			t.Errorf("at version %d: got %v, want ErrExists", version, err)
		}
	}
	settle(t, d, k, 1)
	if err := d.OpenTurn(t.Context(), userTurn(k, 1)); !errors.Is(err, store.ErrExists) {
		t.Errorf("after the end: got %v, want ErrExists", err)
	}
	// The id is scoped by the session (decision 3).
	openTurn(t, d, userTurn(key("s2", "t1"), 0))
}

func busySession(t *testing.T, d *data) {
	k := key("s1", "t1")
	openTurn(t, d, userTurn(k, 0))
	refused := func(state agent.TurnState) {
		t.Helper()
		err := d.OpenTurn(t.Context(), userTurn(key("s1", "t2"), 1))
		if active := (*store.ActiveError)(nil); !errors.As(err, &active) || active.Turn != "t1" {
			t.Errorf("while t1 is %s: got %v, want an ActiveError that names it", state, err)
		}
	}
	refused(agent.TurnAccepted)
	for _, state := range []agent.TurnState{agent.TurnRunning, agent.TurnWaiting} {
		appendSteps(t, d, store.Append{Key: k, State: state})
		refused(state)
	}
	for i, state := range []agent.TurnState{agent.TurnCompleted, agent.TurnFailed, agent.TurnCancelled} {
		appendSteps(t, d, store.Append{Key: k, State: state})
		k.Turn = agent.TurnID(fmt.Sprint("after_", i))
		openTurn(t, d, userTurn(k, 1))
	}
}

func staleSession(t *testing.T, d *data) {
	ctx := t.Context()
	stale := func(what string, n store.NewTurn) {
		t.Helper()
		if err := d.OpenTurn(ctx, n); !errors.Is(err, store.ErrVersion) {
			t.Errorf("%s: got %v, want ErrVersion", what, err)
		}
	}
	k := key("s1", "t1")
	stale("a session that was erased", userTurn(k, 1))
	create(t, d, newSession("s1"))
	stale("a session that has come up meanwhile", userTurn(k, 0))
	if _, _, _, err := d.ChangeMode(ctx, agent.ModeChange{Org: org, Session: "s1", Mode: "ddr_authoring", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	stale("a mode change in between", userTurn(k, 1))
	if err := d.SetTools(ctx, org, "s1", json.RawMessage(`[]`)); err != nil {
		t.Fatal(err)
	}
	stale("other tools in between", userTurn(k, 2))
	openTurn(t, d, userTurn(k, 3))

	// Turns themselves do not move the version, nor does what they latch.
	settle(t, d, k, 1)
	text := "a Go module"
	n := userTurn(key("s1", "t2"), 3)
	n.SolutionContext = &text
	openTurn(t, d, n)
	settle(t, d, n.Turn.Key, 1)
	openTurn(t, d, userTurn(key("s1", "t3"), 3))
}

func refusedTurn(t *testing.T, d *data) {
	ctx := t.Context()
	text := "a Go module"
	openTurn(t, d, userTurn(key("s1", "t1"), 0))
	before := session(t, d, "s1")
	n := userTurn(key("s1", "t2"), 1)
	n.SolutionContext = &text
	n.Blobs = []agent.Blob{{SHA256: "h1", Data: []byte("x")}}
	if err := d.OpenTurn(ctx, n); err == nil {
		t.Fatal("the session is busy, but the turn was opened")
	}
	same(t, "session", session(t, d, "s1"), before)
	_, err := d.Turn(ctx, n.Turn.Key)
	wantKind(t, err, agent.KindNotFound)
	_, err = d.Blob(ctx, org, "h1")
	wantKind(t, err, agent.KindNotFound)

	// A journal that does not begin at 1 is refused with the session it brings.
	n = userTurn(key("s2", "t1"), 0)
	n.Steps[0].N = 2
	if err := d.OpenTurn(ctx, n); !errors.Is(err, store.ErrState) {
		t.Errorf("got %v, want ErrState", err)
	}
	_, err = d.Session(ctx, org, "s2")
	wantKind(t, err, agent.KindNotFound)
}

func solutionContext(t *testing.T, d *data) {
	prove.Rule(t, "AGN034-4.5-b", "AGN034-4.5-c")
	first, second, empty := "a Go module", "two Go modules", ""
	for i, step := range []struct {
		sent *string
		want string
	}{
		{nil, ""},
		{&first, first},
		{nil, first},
		{&second, second},
		{nil, second},
		{&empty, ""},
	} {
		k := key("s1", agent.TurnID(fmt.Sprint("t", i)))
		n := userTurn(k, min(int64(i), 1))
		n.SolutionContext = step.sent
		sess, _ := openTurn(t, d, n)
		// Latched before the request is built, so for this turn too (decision 19).
		if sess.SolutionContext != step.want {
			t.Errorf("turn %d sees %q, want %q", i, sess.SolutionContext, step.want)
		}
		settle(t, d, k, 1)
		d.reopen(t)
		if got := session(t, d, "s1").SolutionContext; got != step.want {
			t.Errorf("after turn %d the session has %q, want %q", i, got, step.want)
		}
	}
}

func frozenTurn(t *testing.T, d *data) {
	prove.Rule(t, "AGN011-3.2-b", "AGN011-4.4-b")
	k := key("s1", "t1")
	n := userTurn(k, 0)
	n.Turn.Tools = json.RawMessage(`[{"name":"agent_change_mode"}]`)
	_, opened := openTurn(t, d, n)
	if _, _, _, err := d.ChangeMode(t.Context(), agent.ModeChange{Org: org, Session: "s1", Mode: "ddr_authoring", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if err := d.SetTools(t.Context(), org, "s1", json.RawMessage(`[{"name":"read_file"}]`)); err != nil {
		t.Fatal(err)
	}
	same(t, "turn", readTurn(t, d, k), opened)
}

func turnList(t *testing.T, d *data) {
	for i := range 5 {
		k := key("s1", agent.TurnID(fmt.Sprint("t", 9-i)))
		openTurn(t, d, userTurn(k, min(int64(i), 1)))
		settle(t, d, k, 1)
	}
	for _, size := range []int{1, 2, 5} {
		turns, _ := collect(t, size, func(p store.Page) ([]agent.Turn, string, error) {
			return d.Turns(t.Context(), org, "s1", p)
		})
		if len(turns) != 5 {
			t.Fatalf("got %d turns in pages of %d, want 5", len(turns), size)
		}
		for i, turn := range turns {
			if turn.Ordinal != int64(i)+1 || turn.Key.Turn != agent.TurnID(fmt.Sprint("t", 9-i)) {
				t.Errorf("turn %d is %s with ordinal %d", i, turn.Key.Turn, turn.Ordinal)
			}
		}
	}
	last, next, err := d.Turns(t.Context(), org, "s1", store.Page{Cursor: store.AfterTurn(3)})
	if err != nil || len(last) != 2 || last[0].Ordinal != 4 || next != "" {
		t.Errorf("behind turn 3: %d turns, then %q (%v)", len(last), next, err)
	}
}

func sweeps(t *testing.T, d *data) {
	ctx := t.Context()
	for i, state := range []agent.TurnState{"", agent.TurnRunning, agent.TurnWaiting, agent.TurnWaiting, agent.TurnWaiting, agent.TurnCompleted, agent.TurnFailed} {
		n := userTurn(key(agent.SessionID(fmt.Sprint("s", i)), "t1"), 0)
		n.Turn.CreatedAt, n.Turn.Deadline = at(i), at(20-i)
		if i == 4 {
			n.Turn.Deadline = time.Time{} // it may wait for ever
		}
		openTurn(t, d, n)
		if state != "" {
			appendSteps(t, d, store.Append{Key: n.Turn.Key, State: state})
		}
	}
	d.reopen(t)

	unfinished, err := d.Unfinished(ctx)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "unfinished", unfinished, []agent.TurnKey{key("s0", "t1"), key("s1", "t1")})
	for _, tt := range []struct {
		now  int
		want []agent.TurnKey
	}{
		{17, []agent.TurnKey{}},
		{18, []agent.TurnKey{key("s3", "t1")}},
		{19, []agent.TurnKey{key("s3", "t1"), key("s2", "t1")}},
	} {
		expired, err := d.Expired(ctx, at(tt.now))
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprintf("expired in minute %d", tt.now), expired, tt.want)
	}
}
