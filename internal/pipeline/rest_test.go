package pipeline_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// The end of a turn at rest is in its stream at once, also for a reader who comes while
// the live log of its last delivery is still found.
func TestCancel_OfAWaitingTurnIsInItsStreamAtOnce(t *testing.T) {
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}))
	r.createWithTools("s1")
	u := userTurn("s1", "t1", "Read")
	key := r.submit(u)
	if turn := r.await(key); turn.State != agent.TurnWaiting {
		t.Fatalf("turn %s, want waiting", turn.State)
	}
	if err := r.pipeline.Cancel(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	r.await(key)
	var got []agent.EventType
	for e, err := range r.pipeline.Follow(t.Context(), r.submit(u), 0) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.Type)
	}
	want := []agent.EventType{agent.EventTurnStarted, agent.EventModelRequest, agent.EventTurnWaiting, agent.EventTurnCancelled}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// When a cancel is answered, a process that dies does not take it back: the end of the
// turn is in the store.
func TestCancel_OfARunningTurnIsDurable(t *testing.T) {
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Never.", Block: make(chan struct{})}))
	key := r.submit(userTurn("s1", "t1", "Hello"))
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := r.pipeline.Cancel(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if turn, err := r.store.Turn(t.Context(), key); err != nil || turn.State != agent.TurnCancelled {
		t.Errorf("the store has the turn as %s (%v) after its cancel, want cancelled", turn.State, err)
	}
}

// A cancel whose end cannot be written says so: the turn will go on.
func TestCancel_SaysThatItFailed(t *testing.T) {
	h := &hooks{}
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Text: "Never.", Block: make(chan struct{})}, llmtest.Reply{Text: "After all."}))
	key := r.submit(userTurn("s1", "t1", "Hello"))
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	h.append = once(func(a store.Append) bool { return has(a, agent.StepSettled) },
		func(context.Context, store.Append) error { return errDisk })
	if err := r.pipeline.Cancel(t.Context(), key); !errors.Is(err, errDisk) {
		t.Errorf("Cancel says %v, want %v", err, errDisk)
	}
}

// A tool that does not let go does not hold the one who cancels for ever.
func TestCancel_DoesNotWaitForAToolForEver(t *testing.T) {
	type none struct{}
	started, release := make(chan struct{}), make(chan struct{})
	stubborn, err := tool.New(tool.Definition{Name: "stubborn", Description: "d", Usage: "u"},
		func(context.Context, *tool.ExecutionContext, none) (string, error) {
			close(started)
			<-release
			return "done", nil
		})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "stubborn", Arguments: "{}"}}}),
		func(r *rig) {
			r.extra, r.catalog = []tool.Tool{stubborn}, toolCatalog(t, "stubborn")
			r.times.CancelTime = time.Millisecond
		})
	key := r.submit(userTurn("s1", "t1", "Run it"))
	<-started
	if err := r.pipeline.Cancel(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if turn, err := r.store.Turn(t.Context(), key); err != nil || turn.State.Terminal() {
		t.Errorf("the turn is %s (%v) while its tool runs", turn.State, err)
	}
	close(release)
	if turn := r.await(key); turn.State != agent.TurnCancelled {
		t.Errorf("turn %s, want cancelled", turn.State)
	}
}
