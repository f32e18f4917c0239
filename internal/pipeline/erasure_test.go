package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/store"
)

// finished waits until an erasure is done.
func finished(r *rig, e store.Erasure) store.Erasure {
	r.t.Helper()
	for until := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		got, err := r.pipeline.Erasure(r.t.Context(), caller, e.ID)
		if err != nil {
			r.t.Fatal(err)
		}
		if !got.FinishedAt.IsZero() {
			return got
		}
		if time.Now().After(until) {
			r.t.Fatalf("the erasure is still at %q", got.After)
		}
	}
}

// Of a user every session goes that he created, also while a turn of it runs, and his name
// in those of others. Others keep theirs.
func TestEraseUser(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Ann's."}, llmtest.Reply{Text: "Bob's, in Ann's."}, llmtest.Reply{Text: "Never.", Block: never}))
	ann, bob := agent.Caller{Org: caller.Org, User: "ann"}, agent.Caller{Org: caller.Org, User: "bob"}
	submit := func(by agent.Caller, session, turn string) agent.TurnKey {
		t.Helper()
		key, _, err := r.pipeline.Submit(t.Context(), by, userTurn(session, turn, "Hello"))
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	for turn, by := range []agent.Caller{ann, bob} {
		if _, err := r.pipeline.Await(t.Context(), submit(by, "hers", fmt.Sprint("t", turn+1))); err != nil {
			t.Fatal(err)
		}
	}
	running := submit(bob, "his", "t1")
	if err := r.provider.Await(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	left := r.pipeline.Left(running)
	e, err := r.pipeline.EraseUser(t.Context(), ann, "bob")
	if err != nil {
		t.Fatal(err)
	}
	if got := finished(r, e); got.Sessions != 1 {
		t.Errorf("%d sessions were erased, want 1", got.Sessions)
	}
	<-left
	if _, err := r.sessions.Get(t.Context(), ann, "his"); agent.KindOf(err) != agent.KindNotFound {
		t.Errorf("his session: %v, want not_found", err)
	}
	for turn, want := range map[agent.TurnID]agent.UserID{"t1": "ann", "t2": agent.ErasedUser} {
		got, err := r.pipeline.Turn(t.Context(), agent.TurnKey{Org: ann.Org, Session: "hers", Turn: turn})
		if err != nil || got.User != want {
			t.Errorf("turn %s is of %q (error %v), want %q", turn, got.User, err, want)
		}
	}
}

// An erasure that was accepted is finished by the next process.
func TestEraseOrganisation_GoesOnAfterARestart(t *testing.T) {
	r := newRig(t, withModel(t))
	for _, id := range []agent.SessionID{"s1", "s2", "s3"} {
		if _, err := r.sessions.Create(t.Context(), caller, contract.CreateSession{SessionID: id}); err != nil {
			t.Fatal(err)
		}
	}
	other := agent.Caller{Org: "globex", User: "eve"}
	if _, err := r.sessions.Create(t.Context(), other, contract.CreateSession{SessionID: "s1"}); err != nil {
		t.Fatal(err)
	}
	r.stop() // nobody works on it when it is accepted
	between, err := r.open()
	if err != nil {
		t.Fatal(err)
	}
	e := store.Erasure{Org: caller.Org, ID: store.NewErasureID(time.Now()), CreatedAt: time.Now()}
	if err := between.AcceptErasure(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	// The first session went before the process died.
	if err := between.DeleteSession(t.Context(), caller.Org, "s1"); err != nil {
		t.Fatal(err)
	}
	if err := between.Close(); err != nil {
		t.Fatal(err)
	}
	r.start()
	if got := finished(r, e); got.Sessions != 2 {
		t.Errorf("%d sessions were erased after the restart, want 2", got.Sessions)
	}
	if all, _, err := r.sessions.List(t.Context(), caller, store.Page{}); err != nil || len(all) != 0 {
		t.Errorf("%d sessions are left (error %v)", len(all), err)
	}
	if _, err := r.sessions.Get(t.Context(), other, "s1"); err != nil {
		t.Errorf("the other organisation's session: %v", err)
	}
	if _, err := r.pipeline.Erasure(t.Context(), other, e.ID); agent.KindOf(err) != agent.KindNotFound {
		t.Errorf("the other organisation sees the erasure: %v", err)
	}
}
