package storetest

import (
	"fmt"
	"testing"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

func eraseTests() []test {
	return []test{
		{"OrgGoesAndNoOther", eraseOrg},
		{"IdleSessionsGoInBatches", eraseIdle},
		{"IdleIsWhatNothingHasHappenedIn", whatIsIdle},
	}
}

func eraseOrg(t *testing.T, d *data) {
	ctx := t.Context()
	for i := range 120 { // more than fits one look
		sess := newSession(agent.SessionID(fmt.Sprint("s", i)))
		create(t, d, sess)
	}
	n := userTurn(key("with", "t1"), 0)
	n.Blobs = []agent.Blob{{SHA256: "h1", Data: []byte("x")}}
	openTurn(t, d, n)
	n = userTurn(agent.TurnKey{Org: otherOrg, Session: "with", Turn: "t1"}, 0)
	n.Blobs = []agent.Blob{{SHA256: "h1", Data: []byte("x")}}
	openTurn(t, d, n)
	if got, err := d.EraseOrg(ctx, org); err != nil || got != 121 {
		t.Errorf("erased %d sessions (error %v), want 121", got, err)
	}
	d.reopen(t)
	if list, _, err := d.Sessions(ctx, org, store.Page{}); err != nil || len(list) != 0 {
		t.Errorf("%d sessions are left (error %v)", len(list), err)
	}
	_, err := d.Blob(ctx, org, "h1")
	wantKind(t, err, agent.KindNotFound)
	if _, err := d.Blob(ctx, otherOrg, "h1"); err != nil {
		t.Errorf("the other organisation's content: %v", err)
	}
	if _, err := d.Steps(ctx, n.Turn.Key); err != nil {
		t.Errorf("the other organisation's turn: %v", err)
	}
	if got, err := d.EraseOrg(ctx, org); err != nil || got != 0 {
		t.Errorf("erased %d sessions of nobody (error %v)", got, err)
	}
}

func eraseIdle(t *testing.T, d *data) {
	ctx := t.Context()
	for i := range 7 {
		sess := newSession(agent.SessionID(fmt.Sprint("s", i)))
		if i%2 == 1 {
			sess.Org = otherOrg
		}
		if i == 3 {
			sess.CreatedAt = at(60)
		}
		create(t, d, sess)
	}
	var after store.SessionKey
	calls, erased := 0, 0
	for {
		n, last, err := d.EraseIdle(ctx, at(60), after, 3)
		if err != nil {
			t.Fatal(err)
		}
		calls, erased, after = calls+1, erased+n, last
		if n > 3 {
			t.Errorf("a call erased %d sessions", n)
		}
		if last == (store.SessionKey{}) {
			break
		}
	}
	if erased != 6 || calls != 3 {
		t.Errorf("erased %d sessions in %d calls, want 6 in 3", erased, calls)
	}
	if _, err := d.Session(ctx, otherOrg, "s3"); err != nil {
		t.Errorf("the session that is not idle: %v", err)
	}
}

func whatIsIdle(t *testing.T, d *data) {
	ctx := t.Context()
	// All were last used an hour or more before, in these ways.
	openTurn(t, d, userTurn(key("active", "t1"), 0))
	openTurn(t, d, userTurn(key("over", "t1"), 0))
	settle(t, d, key("over", "t1"), 1)
	openTurn(t, d, userTurn(key("failed_late", "t1"), 0))
	appendSteps(t, d, store.Append{Key: key("failed_late", "t1"), State: agent.TurnFailed, Steps: []agent.Step{
		{N: 2, Kind: agent.StepSettled, FirstEvent: 2, At: at(90), Settled: &agent.Settled{State: agent.TurnFailed}}}})
	openTurn(t, d, userTurn(key("waits", "t1"), 0))
	appendSteps(t, d, store.Append{Key: key("waits", "t1"), State: agent.TurnWaiting, Steps: []agent.Step{
		{N: 2, Kind: agent.StepWaiting, FirstEvent: 2, At: at(2), Waiting: &agent.Delivery{}}}})
	create(t, d, newSession("switched"))
	if _, _, _, err := d.ChangeMode(ctx, agent.ModeChange{Org: org, Session: "switched", Mode: "ddr_authoring", Reason: "r", At: at(90)}); err != nil {
		t.Fatal(err)
	}
	n, _, err := d.EraseIdle(ctx, at(60), store.SessionKey{}, 100)
	if err != nil || n != 1 {
		t.Errorf("erased %d sessions (error %v), want 1", n, err)
	}
	for id, want := range map[agent.SessionID]bool{"active": true, "over": false, "failed_late": true, "waits": true, "switched": true} {
		if _, err := d.Session(ctx, org, id); (err == nil) != want {
			t.Errorf("%s is there: %t, want %t", id, err == nil, want)
		}
	}
}
