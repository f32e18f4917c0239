package pipeline_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/store"
)

// A start takes unfinished turns up together, so that it pays for the sync of the disk
// once for many of them.
func TestRecover_TakesTurnsUpTogether(t *testing.T) {
	const turns = 8
	h := &hooks{}
	var replies []llmtest.Reply
	for range turns {
		replies = append(replies, llmtest.Reply{Text: "Never heard.", Block: make(chan struct{})})
	}
	for range turns {
		replies = append(replies, llmtest.Reply{Text: "Done."})
	}
	r := newRig(t, withHooks(h), withModel(t, replies...))
	var keys []agent.TurnKey
	for i := range turns {
		keys = append(keys, r.submit(userTurn(fmt.Sprintf("s%d", i), "t1", "Hello")))
	}
	if err := r.provider.Await(t.Context(), turns); err != nil {
		t.Fatal(err)
	}
	r.drainAtOnce()

	var waiting atomic.Int64
	all := make(chan struct{})
	patience, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	h.append = func(_ context.Context, a store.Append) error {
		if !has(a, agent.StepResumed) {
			return nil
		}
		if waiting.Add(1) == turns {
			close(all)
		}
		select {
		case <-all:
			return nil
		case <-patience.Done():
			return errors.New("the other turns do not come")
		}
	}
	r.restart()
	for _, key := range keys {
		if turn := r.await(key); turn.State != agent.TurnCompleted {
			t.Errorf("turn %s is %s", key, turn.State)
		}
	}
	if got := waiting.Load(); got != turns {
		t.Errorf("%d turns were taken up, want %d", got, turns)
	}
}
