package pipeline_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/store"
)

// aheadOfTheJournal starts a turn and breaks it off when its reader has seen three
// events: started, request, and a piece of text that is in no journal.
func aheadOfTheJournal(t *testing.T, r *rig) agent.TurnKey {
	t.Helper()
	yes := true
	u := userTurn("s1", "t1", "Hello")
	u.Stream = &yes
	key := r.submit(u)
	for e, err := range r.pipeline.Follow(t.Context(), key, 0) {
		if err != nil {
			break
		}
		if e.Type == agent.EventTextDelta {
			r.drainAtOnce()
		}
	}
	return key
}

// readOn follows a turn to the end of its delivery. It calls begun at the first event.
func (r *rig) readOn(key agent.TurnKey, after int64, begun func()) (got []string, err error) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 20*time.Second)
	defer cancel()
	for e, err := range r.pipeline.Follow(ctx, key, after) {
		if err != nil {
			return got, err
		}
		if got = append(got, fmt.Sprintf("%d %s", e.Sequence, e.Type)); len(got) == 1 {
			begun()
		}
	}
	return got, nil
}

// The turn is resumed twice while its reader is away. The second time it goes on right
// behind the text that the reader has seen, which the first time declared void.
func TestResume_TwiceBehindTextThatIsVoid(t *testing.T) {
	never, release := make(chan struct{}), make(chan struct{})
	defer close(never)
	begun := llmtest.Reply{Deltas: []string{"a", "b"}, Block: never, BlockAfter: 5}
	r := newRig(t, withModel(t, begun, llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "Short.", Block: release}))
	key := aheadOfTheJournal(t, r)
	r.restart()
	if err := r.provider.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r.drainAtOnce()
	r.restart()
	if err := r.provider.Await(t.Context(), 3); err != nil {
		t.Fatal(err)
	}
	got, err := r.readOn(key, 3, func() { close(release) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"3 turn.resumed", "4 turn.resumed", "5 text.delta", "6 turn.completed"}, got); diff != "" {
		t.Errorf("after the void text (-want +got):\n%s", diff)
	}
}

// A reader that has seen void text comes back in the moment in which the turn is
// resumed and the journal does not say so yet.
func TestResume_ReaderOfVoidTextComesFirst(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	h := &hooks{}
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Deltas: []string{"a", "b"}, Block: never, BlockAfter: 5}, llmtest.Reply{Text: "Short."}))
	key := aheadOfTheJournal(t, r)
	var reader sync.WaitGroup
	read := make(chan struct{})
	h.append = once(func(a store.Append) bool { return has(a, agent.StepResumed) }, func(context.Context, store.Append) error {
		h.steps = sync.OnceFunc(func() { close(read) })
		reader.Go(func() {
			got, err := r.readOn(key, 3, func() {})
			if diff := cmp.Diff([]string{"3 turn.resumed", "4 text.delta", "5 turn.completed"}, got); diff != "" || err != nil {
				t.Errorf("after the void text: %v (-want +got):\n%s", err, diff)
			}
		})
		<-read
		return nil
	})
	r.restart()
	reader.Wait()
}

// The turn is resumed twice, and its reader has seen text of the second run too.
func TestResume_TwiceUnderAReader(t *testing.T) {
	never, release := make(chan struct{}), make(chan struct{})
	defer close(never)
	begun := llmtest.Reply{Deltas: []string{"a", "b"}, Block: never, BlockAfter: 5}
	r := newRig(t, withModel(t, begun, begun, llmtest.Reply{Text: "Short.", Block: release}))
	key := aheadOfTheJournal(t, r)
	r.restart()
	for e, err := range r.pipeline.Follow(t.Context(), key, 3) {
		if err != nil {
			break
		}
		if e.Type == agent.EventTextDelta { // 4
			r.drainAtOnce()
		}
	}
	r.restart()
	got, err := r.readOn(key, 4, func() { close(release) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"3 turn.resumed", "4 turn.resumed", "5 text.delta", "6 turn.completed"}, got); diff != "" {
		t.Errorf("after the void text (-want +got):\n%s", diff)
	}
}
