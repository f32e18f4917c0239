package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/store"
)

func modeTests() []test {
	return []test{
		{"ChangeIsInSessionAndHistory", changeMode},
		{"EveryChangeHasARow", everyChange},
		{"SameModeMakesNoRow", sameMode},
		{"RepeatedCallIsAnsweredFromHistory", repeatedCall},
		{"ChangeIsFoundByItsCall", changeOfCall},
		{"HistoryIsOldestFirst", historyPages},
		{"TurnsMoveTheEntry", modeEntry},
		{"WhileEnteringTheModeStays", modeWhileEntering},
		{"ApprovedToolsAreTheSessions", approvedTools},
	}
}

func changeMode(t *testing.T, d *data) {
	prove.Rule(t, "AGN011-3.2-a", "AGN011-3.2-c", "AGN011-3.2-d", "AGN011-3.2-e", "AGN011-3.2-f",
		"AGN011-3.2-g", "AGN011-3.2-h")
	create(t, d, newSession("s1"))
	ch := agent.ModeChange{
		Org: org, Session: "s1", Mode: "ddr_authoring", Reason: "The user wants to write a DDR.", At: at(3),
		User: "ann", Actor: agent.ActorModel, Turn: "t1", Call: "call_1", Branch: true, Approval: "apr_2",
	}
	sess, got, stands, err := d.ChangeMode(t.Context(), ch)
	if err != nil || !stands {
		t.Fatalf("ChangeMode: stands %v, error %v", stands, err)
	}
	want := ch
	want.Sequence, want.Previous, want.At = 1, agent.ModeGeneral, at(3).UTC()
	same(t, "change", got, want)
	if sess.Mode != "ddr_authoring" || sess.Version != 2 || !sess.UpdatedAt.Equal(at(3)) {
		t.Errorf("got mode %s, version %d, updated %s", sess.Mode, sess.Version, sess.UpdatedAt)
	}

	d.reopen(t)
	same(t, "session", session(t, d, "s1"), sess)
	same(t, "history", history(t, d, "s1"), []agent.ModeChange{want})
}

func changeOfCall(t *testing.T, d *data) {
	create(t, d, newSession("s1"))
	key := agent.TurnKey{Org: org, Session: "s1", Turn: "t1"}
	for call, mode := range map[agent.CallID]agent.ModeKey{"call_1": "ddr_authoring", "call_2": "ddr_authoring"} {
		ch := agent.ModeChange{Org: org, Session: "s1", Mode: mode, Reason: "r", At: at(1), Actor: agent.ActorModel, Turn: "t1", Call: call}
		_, made, stands, err := d.ChangeMode(t.Context(), ch)
		if err != nil {
			t.Fatal(err)
		}
		// The second of them asks for the mode that is there.
		got, found, err := d.ModeChangeOf(t.Context(), key, call)
		if err != nil || found != stands {
			t.Fatalf("call %s: found %t, error %v; it made a change: %t", call, found, err, stands)
		}
		if stands {
			same(t, "change", got, made)
		}
	}
	for _, other := range []agent.TurnKey{{Org: "other", Session: "s1", Turn: "t1"}, {Org: org, Session: "s2", Turn: "t1"}, {Org: org, Session: "s1", Turn: "t2"}} {
		if _, found, err := d.ModeChangeOf(t.Context(), other, "call_1"); found || err != nil {
			t.Errorf("found in %s: %t, %v", other, found, err)
		}
	}
}

func everyChange(t *testing.T, d *data) {
	prove.Rule(t, "AGN011-5.7-e", "AGN011-3.2-c")
	create(t, d, newSession("s1"))
	path := []agent.ModeKey{"ddr_authoring", "workflow_authoring", "ddr_authoring", agent.ModeGeneral}
	for i, mode := range path {
		ch := agent.ModeChange{Org: org, Session: "s1", Mode: mode, Reason: fmt.Sprint("reason ", i), At: at(i), Actor: agent.ActorUser}
		if _, _, stands, err := d.ChangeMode(t.Context(), ch); err != nil || !stands {
			t.Fatalf("change %d: stands %v, error %v", i, stands, err)
		}
	}
	rows := history(t, d, "s1")
	if len(rows) != len(path) {
		t.Fatalf("got %d rows, want %d", len(rows), len(path))
	}
	checkChain(t, session(t, d, "s1"), rows)
	for i, row := range rows {
		if row.Mode != path[i] || row.Reason != fmt.Sprint("reason ", i) {
			t.Errorf("row %d is to %s because of %q", i, row.Mode, row.Reason)
		}
	}
}

// checkChain checks what holds of any history: numbers without gaps, each change
// from the mode before it, the newest to the session's mode, and one version each.
func checkChain(t *testing.T, sess agent.Session, rows []agent.ModeChange) {
	t.Helper()
	mode := agent.ModeGeneral
	for i, row := range rows {
		if row.Sequence != int64(i)+1 {
			t.Errorf("row %d has sequence %d", i, row.Sequence)
		}
		if row.Previous != mode {
			t.Errorf("row %d comes from %s, want %s", i, row.Previous, mode)
		}
		if row.Mode == row.Previous {
			t.Errorf("row %d changes nothing", i)
		}
		mode = row.Mode
	}
	if sess.Mode != mode {
		t.Errorf("the session's mode is %s, the newest row's %s", sess.Mode, mode)
	}
	if want := int64(len(rows)) + 1; sess.Version != want {
		t.Errorf("the session's version is %d, want %d", sess.Version, want)
	}
}

func sameMode(t *testing.T, d *data) {
	create(t, d, newSession("s1"))
	before := session(t, d, "s1")
	ch := agent.ModeChange{Org: org, Session: "s1", Mode: agent.ModeGeneral, Reason: "r", At: at(3), Turn: "t1", Call: "call_1"}
	sess, got, stands, err := d.ChangeMode(t.Context(), ch)
	if err != nil || stands {
		t.Fatalf("stands %v, error %v; want a success that makes no row", stands, err)
	}
	if got.Previous != agent.ModeGeneral || got.Mode != agent.ModeGeneral || got.Sequence != 0 {
		t.Errorf("got change %+v", got)
	}
	same(t, "session", sess, before)
	same(t, "stored session", session(t, d, "s1"), before)
	same(t, "history", history(t, d, "s1"), []agent.ModeChange{})
}

func repeatedCall(t *testing.T, d *data) {
	create(t, d, newSession("s1"))
	ctx := t.Context()
	ch := agent.ModeChange{Org: org, Session: "s1", Mode: "ddr_authoring", Reason: "r", At: at(1), Actor: agent.ActorModel, Turn: "t1", Call: "call_1"}
	_, first, _, err := d.ChangeMode(ctx, ch)
	if err != nil {
		t.Fatal(err)
	}
	back := agent.ModeChange{Org: org, Session: "s1", Mode: agent.ModeGeneral, Reason: "no", At: at(2), Actor: agent.ActorUser}
	if _, _, _, err := d.ChangeMode(ctx, back); err != nil {
		t.Fatal(err)
	}
	d.reopen(t)

	// The turn resumes after a crash and runs its call again, later. The user's
	// own change stays.
	ch.At = at(9)
	sess, again, stands, err := d.ChangeMode(ctx, ch)
	if err != nil || !stands {
		t.Fatalf("stands %v, error %v", stands, err)
	}
	same(t, "change", again, first)
	if sess.Mode != agent.ModeGeneral {
		t.Errorf("mode is %s, want the user's", sess.Mode)
	}
	checkChain(t, session(t, d, "s1"), history(t, d, "s1"))

	// The same call id in another turn is another call.
	ch.Turn = "t2"
	if _, other, stands, err := d.ChangeMode(ctx, ch); err != nil || !stands || other.Sequence != 3 {
		t.Errorf("got row %d, stands %v, error %v; want row 3", other.Sequence, stands, err)
	}
}

func historyPages(t *testing.T, d *data) {
	create(t, d, newSession("s1"))
	for i := range 5 {
		ch := agent.ModeChange{Org: org, Session: "s1", Mode: agent.ModeKey(fmt.Sprint("mode_", i)), Reason: "r", At: at(-i)}
		if _, _, _, err := d.ChangeMode(t.Context(), ch); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []int{1, 2, 5} {
		rows, _ := collect(t, size, func(p store.Page) ([]agent.ModeChange, string, error) {
			return d.ModeHistory(t.Context(), org, "s1", p)
		})
		if len(rows) != 5 {
			t.Errorf("got %d rows in pages of %d, want 5", len(rows), size)
		}
		checkChain(t, session(t, d, "s1"), rows)
	}
}

// begun opens a turn of a new session and returns its key.
func begun(t *testing.T, d *data, entry agent.ModeEntry) agent.TurnKey {
	t.Helper()
	n := userTurn(key("s1", "t1"), 0)
	n.ModeEntry = entry
	openTurn(t, d, n)
	return n.Turn.Key
}

// goesOn appends a step to a turn that has so many.
func goesOn(t *testing.T, d *data, a store.Append, steps int) {
	t.Helper()
	a.Steps = []agent.Step{{N: steps + 1, Kind: agent.StepResumed, FirstEvent: int64(steps + 1), At: at(2), Resumed: &agent.Resumed{}}}
	appendSteps(t, d, a)
}

func modeEntry(t *testing.T, d *data) {
	k := begun(t, d, "")
	if got := session(t, d, "s1").Entry; got != agent.EntryPending {
		t.Errorf("a new session's entry is %q", got)
	}
	for i, entry := range []agent.ModeEntry{agent.EntryRunning, agent.EntryFailed, "", agent.EntryReady} {
		goesOn(t, d, store.Append{Key: k, ModeEntry: entry}, i+1)
		want := entry
		if want == "" {
			want = agent.EntryFailed
		}
		if got := session(t, d, "s1").Entry; got != want {
			t.Errorf("after %q the entry is %q", entry, got)
		}
	}
	if _, _, _, err := d.ChangeMode(t.Context(), agent.ModeChange{Org: org, Session: "s1", Mode: "ddr_authoring", Reason: "r", At: at(3), Actor: agent.ActorUser}); err != nil {
		t.Fatal(err)
	}
	d.reopen(t)
	if got := session(t, d, "s1").Entry; got != agent.EntryPending {
		t.Errorf("after a change of the mode its entry is %q", got)
	}
}

func modeWhileEntering(t *testing.T, d *data) {
	k := begun(t, d, agent.EntryRunning)
	ch := agent.ModeChange{Org: org, Session: "s1", Mode: "ddr_authoring", Reason: "r", At: at(3), Actor: agent.ActorUser}
	if _, _, _, err := d.ChangeMode(t.Context(), ch); !errors.Is(err, store.ErrEntering) {
		t.Errorf("got %v, want ErrEntering", err)
	}
	if s := session(t, d, "s1"); s.Mode != agent.ModeGeneral || s.Version != 1 || len(history(t, d, "s1")) != 0 {
		t.Errorf("the refused change left the session in %s at version %d", s.Mode, s.Version)
	}
	goesOn(t, d, store.Append{Key: k, ModeEntry: agent.EntryReady}, 1)
	if _, _, made, err := d.ChangeMode(t.Context(), ch); err != nil || !made {
		t.Errorf("after it: made %t, error %v", made, err)
	}
}

func approvedTools(t *testing.T, d *data) {
	k := begun(t, d, "")
	goesOn(t, d, store.Append{Key: k, Approved: []string{"deploy", "a \"b\""}}, 1)
	goesOn(t, d, store.Append{Key: k}, 2)
	d.reopen(t)
	same(t, "approved tools", session(t, d, "s1").Approved, []string{"deploy", "a \"b\""})
	// A transition that is refused approves nothing.
	err := d.AppendSteps(t.Context(), store.Append{Key: k, From: []agent.TurnState{agent.TurnWaiting}, Approved: []string{"all"}})
	if !errors.Is(err, store.ErrState) {
		t.Errorf("got %v, want ErrState", err)
	}
	same(t, "approved tools", session(t, d, "s1").Approved, []string{"deploy", "a \"b\""})
}
