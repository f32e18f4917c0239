package pipeline_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
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
