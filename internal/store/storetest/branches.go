package storetest

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func branchTests() []test {
	return []test{
		{"RemembersUpToItsTurn", branchRemembers},
		{"OutlivesItsParent", branchOutlives},
		{"TakenNameIsRefused", branchTaken},
		{"OffNothingIsNotFound", branchOffNothing},
		{"LastCompletedTurn", lastCompleted},
	}
}

// spoken is a parent with three completed turns, the first of which brings a file, and a
// failed one.
func spoken(t *testing.T, d *data) {
	t.Helper()
	create(t, d, newSession("parent"))
	for i, id := range []agent.TurnID{"t1", "t2", "t3", "t4"} {
		n := userTurn(key("parent", id), 1)
		if i == 0 {
			n.Blobs = []agent.Blob{{SHA256: "h1", MimeType: "text/plain", Data: []byte("the file")}}
		}
		openTurn(t, d, n)
		state := agent.TurnCompleted
		if id == "t2" {
			state = agent.TurnFailed
		}
		appendSteps(t, d, store.Append{Key: n.Turn.Key, State: state, Response: raw(`{"kind":"final"}`), Steps: []agent.Step{
			{N: 2, Kind: agent.StepAsked, FirstEvent: 2, At: at(2), Asked: &agent.Asked{Call: 1, NewItems: raws([]string{`"ask ` + string(id) + `"`})}},
			{N: 3, Kind: agent.StepAnswered, FirstEvent: 3, At: at(3), Answered: &agent.Answered{Call: 1, Items: raws([]string{`"answer ` + string(id) + `"`})}},
			{N: 4, Kind: agent.StepSettled, FirstEvent: 3, At: at(4), Settled: &agent.Settled{State: state}},
		}})
	}
}

func branchOf(id agent.SessionID, turn agent.TurnID, ordinal int64) store.Branch {
	s := newSession(id)
	s.Mode, s.LastResponseID = "ddr_authoring", "resp_1"
	s.Parent = agent.Lineage{Session: "parent", Turn: turn}
	return store.Branch{Session: s, Ordinal: ordinal}
}

func branchSession(t *testing.T, s Store, b store.Branch) {
	t.Helper()
	if err := s.BranchSession(t.Context(), b); err != nil {
		t.Fatalf("BranchSession: %v", err)
	}
}

// remembered are the items of a session's transcript.
func remembered(t *testing.T, s Store, id agent.SessionID) []json.RawMessage {
	t.Helper()
	turns, err := s.Transcript(t.Context(), org, id, 0, 0)
	if err != nil {
		t.Fatalf("Transcript: %v", err)
	}
	return store.Items(turns)
}

func branchRemembers(t *testing.T, d *data) {
	spoken(t, d)
	branchSession(t, d, branchOf("child", "t3", 3))
	d.reopen(t)

	want := branchOf("child", "t3", 3).Session
	want.Version, want.Turns, want.Entry = 1, 3, agent.EntryPending
	want.CreatedAt, want.UpdatedAt = start.UTC(), start.UTC()
	same(t, "session", session(t, d, "child"), want)
	turns, _, err := d.Turns(t.Context(), org, "child", store.Page{})
	if err != nil || len(turns) != 2 || turns[0].Key != key("child", "t1") || turns[1].Key != key("child", "t3") || turns[1].Ordinal != 3 {
		t.Fatalf("got turns %+v, error %v; want t1 and t3", turns, err)
	}
	same(t, "transcript", remembered(t, d, "child"), raws([]string{`"ask t1"`, `"answer t1"`, `"ask t3"`, `"answer t3"`}))
	steps, err := d.Steps(t.Context(), key("child", "t1"))
	if err != nil || len(steps) != 4 {
		t.Errorf("got %d steps, error %v", len(steps), err)
	}
	// It goes on by itself.
	next := userTurn(key("child", "t5"), 1)
	_, turn := openTurn(t, d, next)
	if turn.Ordinal != 4 {
		t.Errorf("the next turn has ordinal %d, want 4", turn.Ordinal)
	}
	if got := remembered(t, d, "parent"); len(got) != 6 {
		t.Errorf("the parent has %d items, want 6", len(got))
	}
}

func branchOutlives(t *testing.T, d *data) {
	spoken(t, d)
	branchSession(t, d, branchOf("child", "t1", 1))
	branchSession(t, d, branchOf("empty", "", 0))
	if err := d.DeleteSession(t.Context(), org, "parent"); err != nil {
		t.Fatal(err)
	}
	d.reopen(t)
	same(t, "transcript", remembered(t, d, "child"), raws([]string{`"ask t1"`, `"answer t1"`}))
	if content, err := d.Blob(t.Context(), org, "h1"); err != nil || string(content) != "the file" {
		t.Errorf("the content is %q, error %v", content, err)
	}
	if got := session(t, d, "child").Parent; got != (agent.Lineage{Session: "parent", Turn: "t1"}) {
		t.Errorf("the lineage is %+v", got)
	}
	if got := remembered(t, d, "empty"); len(got) != 0 {
		t.Errorf("a branch off nothing remembers %d items", len(got))
	}
	if err := d.DeleteSession(t.Context(), org, "child"); err != nil {
		t.Fatal(err)
	}
	_, err := d.Blob(t.Context(), org, "h1")
	wantKind(t, err, agent.KindNotFound)
}

func branchTaken(t *testing.T, d *data) {
	spoken(t, d)
	create(t, d, newSession("child"))
	if err := d.BranchSession(t.Context(), branchOf("child", "t3", 3)); !errors.Is(err, store.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	if got := remembered(t, d, "child"); len(got) != 0 {
		t.Errorf("the session that was there has got %d items", len(got))
	}
}

func branchOffNothing(t *testing.T, d *data) {
	wantKind(t, d.BranchSession(t.Context(), branchOf("child", "t1", 1)), agent.KindNotFound)
	create(t, d, newSession("parent"))
	wantKind(t, d.BranchSession(t.Context(), branchOf("child", "t1", 1)), agent.KindNotFound)
	_, err := d.Session(t.Context(), org, "child")
	wantKind(t, err, agent.KindNotFound)
	stranger := branchOf("child", "t3", 3)
	stranger.Session.Org = otherOrg
	spokenTo := newSession("parent")
	spokenTo.Org = otherOrg
	create(t, d, spokenTo)
	wantKind(t, d.BranchSession(t.Context(), stranger), agent.KindNotFound)
}

func lastCompleted(t *testing.T, d *data) {
	create(t, d, newSession("none"))
	_, err := d.LastCompleted(t.Context(), org, "none")
	wantKind(t, err, agent.KindNotFound)
	spoken(t, d)
	openTurn(t, d, userTurn(key("parent", "t5"), 1))
	got, err := d.LastCompleted(t.Context(), org, "parent")
	if err != nil || got.Key.Turn != "t4" {
		t.Errorf("got %s, error %v, want t4", got.Key, err)
	}
}
