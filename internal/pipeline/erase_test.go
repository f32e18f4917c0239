package pipeline_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
)

// Who erases a session does not go on paying for it: the model call of its turn ends
// at once, and whoever follows the turn is told.
func TestErase_EndsTheRunningTurn(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "Theirs.", Block: never}, llmtest.Reply{Text: "New."}))
	key := r.submit(userTurn("s1", "t1", "Hello"))
	theirs, _, err := r.pipeline.Submit(t.Context(), agent.Caller{Org: "globex", User: "eve"}, userTurn("s1", "t1", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.provider.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	left := r.pipeline.Left(key)
	if err := r.pipeline.Erase(t.Context(), caller, "s1"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("the model is still being asked")
	}
	if _, err := r.pipeline.Await(t.Context(), key); agent.KindOf(err) != agent.KindNotFound {
		t.Errorf("await: %v, want not_found", err)
	}
	for _, err := range r.pipeline.Follow(t.Context(), key, 2) {
		if agent.KindOf(err) != agent.KindNotFound {
			t.Errorf("follow: %v, want not_found", err)
		}
	}
	if r.pipeline.Left(theirs) == nil {
		t.Error("another organisation's turn of the same name was broken off")
	}
	if err := r.pipeline.Erase(t.Context(), caller, "s1"); agent.KindOf(err) != agent.KindNotFound {
		t.Errorf("erased again: %v, want not_found", err)
	}
	if got := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})).PrimaryOutputText; got != "New." {
		t.Errorf("answer %q", got)
	}
}

// A turn of an erased session that is slow to let go holds up the new one of its id, for
// no longer than settling may take.
func TestErase_TheSameTurnAgainAtOnce(t *testing.T) {
	letGo := make(chan struct{})
	h := &hooks{}
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Text: "Old."}, llmtest.Reply{Text: "New."}),
		func(r *rig) { r.times.SettleTime = 200 * time.Millisecond })
	settling := make(chan struct{})
	h.append = once(func(a store.Append) bool { return has(a, agent.StepSettled) }, func(context.Context, store.Append) error {
		close(settling)
		<-letGo
		return nil
	})
	r.submit(userTurn("s1", "t1", "Hello"))
	<-settling
	if err := r.pipeline.Erase(t.Context(), caller, "s1"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "t1", "Hello")); agent.KindOf(err) != agent.KindTurnInProgress {
		t.Errorf("while the old one does not let go: %v, want turn_in_progress", err)
	}
	time.AfterFunc(10*time.Millisecond, func() { close(letGo) })
	if got := r.answer(r.await(r.submit(userTurn("s1", "t1", "Hello")))).PrimaryOutputText; got != "New." {
		t.Errorf("answer %q", got)
	}
}

// What nobody has used for the length of the retention goes, whole sessions only and
// never one with a turn that is not over; the others go on as before.
func TestRetention(t *testing.T) {
	now := time.Now()
	late := false
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Old."}, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}},
		llmtest.Reply{Text: "First."}, llmtest.Reply{Text: "Second."}, llmtest.Reply{Text: "Third."}, llmtest.Reply{Text: "Read."}),
		func(r *rig) {
			r.retention = 30 * 24 * time.Hour
			r.times.SweepEvery = 10 * time.Millisecond
			r.times.WaitTime = 365 * 24 * time.Hour
			r.now = func() time.Time {
				if late {
					return now.Add(20 * 24 * time.Hour)
				}
				return now
			}
		})
	r.run(pipeline.Execution{UserTurn: userTurn("idle", "t1", "Hello")})
	r.createWithTools("waits")
	waits := r.run(pipeline.Execution{UserTurn: userTurn("waits", "t1", "Read")})
	r.run(pipeline.Execution{UserTurn: userTurn("used", "t1", "Hello")})
	if _, err := r.sessions.Create(t.Context(), caller, contract.CreateSession{SessionID: "empty"}); err != nil {
		t.Fatal(err)
	}
	r.stop()
	late = true
	r.start()
	r.run(pipeline.Execution{UserTurn: userTurn("used", "t2", "And now?")})
	r.stop()
	now = now.Add(11 * 24 * time.Hour) // 31 days after the first turns
	r.start()
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		_, idle := r.store.Session(t.Context(), caller.Org, "idle")
		_, empty := r.store.Session(t.Context(), caller.Org, "empty")
		if agent.KindOf(idle) == agent.KindNotFound && agent.KindOf(empty) == agent.KindNotFound {
			break
		}
		if time.Now().After(until) {
			t.Fatalf("idle sessions are still there: %v, %v", idle, empty)
		}
	}
	if got := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("used", "t3", "Go on.")})).PrimaryOutputText; got != "Third." {
		t.Errorf("answer %q", got)
	}
	if _, _, _, err := r.pipeline.Continue(t.Context(), caller, results("waits", "t1", "c1")); err != nil {
		t.Fatal(err)
	}
	if got := r.answer(r.await(waits.Key)).PrimaryOutputText; got != "Read." {
		t.Errorf("answer %q", got)
	}
	for i := range 3 {
		r.journal(r.await(agent.TurnKey{Org: caller.Org, Session: "used", Turn: agent.TurnID(fmt.Sprint("t", i+1))}))
	}
}
