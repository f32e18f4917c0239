package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/store"
)

func sessionTests() []test {
	return []test{
		{"CreatedSessionSurvivesReopening", createdSessionSurvives},
		{"SecondSessionOfAnIDIsRefused", secondSessionRefused},
		{"UnknownSessionIsNotFound", unknownSession},
		{"OtherOrganisationsSeeNothing", otherOrganisations},
		{"ListIsNewestFirst", sessionList},
		{"ListOfAUserIsNewestFirst", sessionsOfUser},
		{"SetToolsReplacesAndMovesVersion", setTools},
		{"BadCursorIsRefused", badCursors},
		{"DeleteErasesEverythingUnderIt", deleteSession},
	}
}

func createdSessionSurvives(t *testing.T, d *data) {
	prove.Rule(t, "AGN011-3.1-c")
	want := newSession("s1")
	want.Mode = "ddr_authoring"
	want.SystemPrompt = "Answer briefly.\x00 Ünïcode."
	want.ClientTools = json.RawMessage(`[ {"name":"read_file"} ]`)
	want.AgentContext, want.ConversationContext = "a1", "c1"
	want.SolutionContext = "a Go module"
	want.LastResponseID = "resp_0"
	create(t, d, want)
	d.reopen(t)

	want.Version, want.Turns, want.Entry = 1, 0, agent.EntryPending
	want.CreatedAt, want.UpdatedAt = start.UTC(), start.UTC()
	same(t, "session", session(t, d, "s1"), want)
}

func secondSessionRefused(t *testing.T, d *data) {
	create(t, d, newSession("s1"))
	again := newSession("s1")
	again.Mode = "ddr_authoring"
	if err := d.CreateSession(t.Context(), again); !errors.Is(err, store.ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	if got := session(t, d, "s1").Mode; got != agent.ModeGeneral {
		t.Errorf("mode is %s, want that of the first", got)
	}
	// The id is scoped by the organisation (decision 3).
	theirs := newSession("s1")
	theirs.Org = otherOrg
	create(t, d, theirs)
}

func unknownSession(t *testing.T, d *data) {
	ctx := t.Context()
	_, err := d.Session(ctx, org, "nope")
	wantKind(t, err, agent.KindNotFound)
	wantKind(t, d.DeleteSession(ctx, org, "nope"), agent.KindNotFound)
	wantKind(t, d.SetTools(ctx, org, "nope", nil), agent.KindNotFound)
	_, _, _, err = d.ChangeMode(ctx, agent.ModeChange{Org: org, Session: "nope", Mode: "m", Reason: "r"})
	wantKind(t, err, agent.KindNotFound)
	_, _, err = d.ModeHistory(ctx, org, "nope", store.Page{})
	wantKind(t, err, agent.KindNotFound)
	_, _, err = d.Turns(ctx, org, "nope", store.Page{})
	wantKind(t, err, agent.KindNotFound)
	orphan := userTurn(key("nope", "t1"), 0)
	orphan.Session = nil
	err = d.OpenTurn(ctx, orphan)
	wantKind(t, err, agent.KindNotFound)
}

func otherOrganisations(t *testing.T, d *data) {
	ctx := t.Context()
	k := key("s1", "t1")
	n := userTurn(k, 0)
	n.Blobs = []agent.Blob{{SHA256: "h1", MimeType: "text/plain", Data: []byte("secret")}}
	openTurn(t, d, n)

	_, err := d.Session(ctx, otherOrg, "s1")
	wantKind(t, err, agent.KindNotFound)
	_, err = d.Blob(ctx, otherOrg, "h1")
	wantKind(t, err, agent.KindNotFound)
	foreign := k
	foreign.Org = otherOrg
	_, err = d.Turn(ctx, foreign)
	wantKind(t, err, agent.KindNotFound)
	_, err = d.Steps(ctx, foreign)
	wantKind(t, err, agent.KindNotFound)
	wantKind(t, d.AppendSteps(ctx, store.Append{Key: foreign, State: agent.TurnCancelled}), agent.KindNotFound)
	wantKind(t, d.DeleteSession(ctx, otherOrg, "s1"), agent.KindNotFound)
	if list, _, err := d.Sessions(ctx, otherOrg, store.Page{}); err != nil || len(list) != 0 {
		t.Errorf("got %d sessions of another organisation (error %v), want none", len(list), err)
	}
}

func sessionList(t *testing.T, d *data) {
	// Two are of the same moment, where the id decides.
	var want []agent.SessionID
	for i := range 7 {
		sess := newSession(agent.SessionID(fmt.Sprintf("s%d", i)))
		sess.CreatedAt = at(i / 2)
		create(t, d, sess)
		want = append([]agent.SessionID{sess.ID}, want...)
	}
	for _, size := range []int{1, 3, 7, 50} {
		all, pages := collect(t, size, func(p store.Page) ([]agent.Session, string, error) {
			return d.Sessions(t.Context(), org, p)
		})
		var got []agent.SessionID
		for _, s := range all {
			got = append(got, s.ID)
		}
		same(t, fmt.Sprintf("list in pages of %d", size), got, want)
		if wantPages := (7 + size - 1) / size; pages != wantPages {
			t.Errorf("got %d pages of %d, want %d", pages, size, wantPages)
		}
	}
}

func sessionsOfUser(t *testing.T, d *data) {
	var want []agent.SessionID
	for i := range 9 {
		sess := newSession(agent.SessionID(fmt.Sprintf("s%d", i)))
		sess.CreatedAt = at(i / 2)
		switch i % 3 {
		case 1:
			sess.CreatedBy = "bob"
		case 2:
			sess.Org = otherOrg // another ann
		default:
			want = append([]agent.SessionID{sess.ID}, want...)
		}
		create(t, d, sess)
	}
	for _, size := range []int{1, 2, 50} {
		all, _ := collect(t, size, func(p store.Page) ([]agent.Session, string, error) {
			return d.SessionsOfUser(t.Context(), org, "ann", p)
		})
		var got []agent.SessionID
		for _, s := range all {
			got = append(got, s.ID)
		}
		same(t, fmt.Sprintf("ann's sessions in pages of %d", size), got, want)
	}
	if none, _, err := d.SessionsOfUser(t.Context(), org, "eve", store.Page{}); err != nil || len(none) != 0 {
		t.Errorf("got %d sessions of nobody (error %v)", len(none), err)
	}
}

func setTools(t *testing.T, d *data) {
	create(t, d, newSession("s1"))
	tools := json.RawMessage(`[{"type":"function","name":"read_file"}]`)
	if err := d.SetTools(t.Context(), org, "s1", tools); err != nil {
		t.Fatal(err)
	}
	d.reopen(t)
	got := session(t, d, "s1")
	if string(got.ClientTools) != string(tools) || got.Version != 2 {
		t.Errorf("got tools %s at version %d, want %s at 2", got.ClientTools, got.Version, tools)
	}
	if err := d.SetTools(t.Context(), org, "s1", nil); err != nil {
		t.Fatal(err)
	}
	if got := session(t, d, "s1"); got.ClientTools != nil || got.Version != 3 {
		t.Errorf("got tools %s at version %d, want none at 3", got.ClientTools, got.Version)
	}
}

func badCursors(t *testing.T, d *data) {
	ctx := t.Context()
	create(t, d, newSession("s1"))
	for _, cursor := range []string{"x", "%", "AAAA", store.Cursor("other", "1"), store.Cursor("sessions", "1"),
		store.Cursor("sessions", "one", "s1"), store.Cursor("turns", "one"), store.Cursor("mode-history", "1", "2")} {
		page := store.Page{Cursor: cursor}
		_, _, err := d.Sessions(ctx, org, page)
		wantKind(t, err, agent.KindInvalidRequest)
		_, _, err = d.Turns(ctx, org, "s1", page)
		wantKind(t, err, agent.KindInvalidRequest)
		_, _, err = d.ModeHistory(ctx, org, "s1", page)
		wantKind(t, err, agent.KindInvalidRequest)
	}
}

func deleteSession(t *testing.T, d *data) {
	ctx := t.Context()
	k := key("s1", "t1")
	openTurn(t, d, userTurn(k, 0))
	openTurn(t, d, userTurn(key("s2", "t1"), 0))
	if _, _, _, err := d.ChangeMode(ctx, agent.ModeChange{Org: org, Session: "s1", Mode: "ddr_authoring", Reason: "r"}); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteSession(ctx, org, "s1"); err != nil {
		t.Fatal(err)
	}
	_, err := d.Session(ctx, org, "s1")
	wantKind(t, err, agent.KindNotFound)
	_, err = d.Turn(ctx, k)
	wantKind(t, err, agent.KindNotFound)

	// A new session of the same id finds nothing of the old one.
	openTurn(t, d, userTurn(k, 0))
	if steps, err := d.Steps(ctx, k); err != nil || len(steps) != 1 {
		t.Errorf("got %d steps (error %v), want the new turn's one", len(steps), err)
	}
	same(t, "history", history(t, d, "s1"), []agent.ModeChange{})
	readTurn(t, d, key("s2", "t1"))
}
