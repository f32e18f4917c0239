package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/prove"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// A turn is broken off while a tool runs. What the tool then says is its result only
// when it succeeded in spite of that; else it is not known what it did.
func TestBrokenOff_WhileAToolRuns(t *testing.T) {
	for _, tt := range []struct {
		name       string
		idempotent bool
		succeeds   bool
		cancel     bool
		runs       int
		told       string // what the model is told, after the restart
		journal    []string
	}{
		{"drained, not idempotent", false, false, false, 1, "The outcome of this call is unknown", nil},
		{"drained, idempotent", true, false, false, 2, "done 2", nil},
		{"drained, it succeeds", false, true, false, 1, "done 1", nil},
		{"cancelled", false, false, true, 1, "", []string{"accepted", "asked", "answered", "tool_started", "settled"}},
		{"cancelled, it succeeds", false, true, true, 1, "", []string{"accepted", "asked", "answered", "tool_started", "tool_finished", "settled"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			type none struct{}
			started, runs := make(chan struct{}), 0
			slow, err := tool.New(tool.Definition{Name: "slow", Description: "d", Usage: "u", Idempotent: tt.idempotent},
				func(ctx context.Context, _ *tool.ExecutionContext, _ none) (string, error) {
					if runs++; runs == 1 {
						close(started)
						<-ctx.Done()
						if !tt.succeeds {
							return "", errors.New("the tool says that it was stopped")
						}
					}
					return "done " + string(rune('0'+runs)), nil
				})
			if err != nil {
				t.Fatal(err)
			}
			r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "slow", Arguments: "{}"}}}, llmtest.Reply{Text: "Over."}),
				func(r *rig) { r.extra, r.catalog = []tool.Tool{slow}, toolCatalog(t, "slow") })
			key := r.submit(userTurn("s1", "t1", "Run it"))
			<-started
			if tt.cancel {
				if err := r.pipeline.Cancel(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				turn := r.await(key)
				if turn.State != agent.TurnCancelled {
					t.Errorf("turn %s, want cancelled", turn.State)
				}
				kinds, _ := r.journal(turn)
				if diff := cmp.Diff(kinds, tt.journal); diff != "" {
					t.Errorf("journal: -got +want\n%s", diff)
				}
				return
			}
			r.drainAtOnce()
			r.restart()
			turn := r.await(key)
			if got := r.answer(turn).PrimaryOutputText; got != "Over." {
				t.Errorf("answer %q", got)
			}
			if runs != tt.runs {
				t.Errorf("the tool ran %d times, want %d", runs, tt.runs)
			}
			kinds, _ := r.journal(turn)
			if n := strings.Count(strings.Join(kinds, " "), "tool_started"); n != 1 {
				t.Errorf("%d dispatches in the journal, want 1: %v", n, kinds)
			}
			var sent struct{ Input []struct{ Output string } }
			if err := json.Unmarshal(r.provider.Requests()[1], &sent); err != nil {
				t.Fatal(err)
			}
			if got := sent.Input[len(sent.Input)-1].Output; !strings.Contains(got, tt.told) {
				t.Errorf("the model is told %q, want %q", got, tt.told)
			}
		})
	}
}

// A turn that is taken up again keeps the tools it was opened with.
func TestResume_ToolsStayFrozen(t *testing.T) {
	prove.Rule(t, "AGN011-4.4-b", "AGN011-5.3-b", "AGN011-5.7-d")
	never := make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t,
		llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: tool.ChangeMode, Arguments: `{"mode":"ddr_authoring","branch":false,"reason":"r"}`}}},
		llmtest.Reply{Text: "Never.", Block: never},
		llmtest.Reply{Calls: []llmtest.Call{{ID: "c2", Name: tool.ListModes, Arguments: "{}"},
			{ID: "c3", Name: tool.ChangeMode, Arguments: `{"mode":"workflow_authoring","branch":false,"reason":"r"}`}}},
		llmtest.Reply{Text: "Done."}))
	key := r.submit(userTurn("s1", "t1", "Switch"))
	if err := r.provider.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r.drainAtOnce()
	r.restart()
	turn := r.await(key)
	if a := r.answer(turn); a.PrimaryOutputText != "Done." || a.Mode != "workflow_authoring" || a.ModeChange == nil || a.ModeChange.PreviousMode != "ddr_authoring" {
		t.Errorf("answer %+v", a)
	}
	r.journal(turn)
	tools := func(body []byte) string {
		var w struct{ Tools json.RawMessage }
		if err := json.Unmarshal(body, &w); err != nil {
			t.Fatal(err)
		}
		return string(w.Tools)
	}
	sent := r.provider.Requests()
	for i, body := range sent {
		if diff := cmp.Diff(tools(body), tools(sent[0])); diff != "" {
			t.Errorf("tools of request %d: -got +want\n%s", i+1, diff)
		}
	}
	history, _, err := r.store.ModeHistory(t.Context(), caller.Org, "s1", store.Page{})
	if err != nil || len(history) != 2 || history[0].User != caller.User || history[1].User != caller.User {
		t.Errorf("history %+v (%v), want two changes by %s", history, err, caller.User)
	}
}

// A reader follows a turn that was taken up again as it goes.
func TestResume_IsFollowedLive(t *testing.T) {
	never, release := make(chan struct{}), make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "Done.", Block: release}))
	key := r.submit(userTurn("s1", "t1", "Hello"))
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	r.drainAtOnce()
	r.restart()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var seen []string
	for e, err := range r.pipeline.Follow(ctx, key, 0) {
		if err != nil {
			t.Fatalf("after %v: %v", seen, err)
		}
		if seen = append(seen, string(e.Type)); e.Type == agent.EventTurnResumed {
			if e.ReplaceFrom != 3 {
				t.Errorf("text is void from %d on, want 3", e.ReplaceFrom)
			}
			// The event is in the journal a moment before what follows it is live.
			log, live := r.hub.Follow(key)
			for !live && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
				log, live = r.hub.Follow(key)
			}
			if !live || log.First() != 4 {
				t.Error("what comes now is not live")
			}
			close(release)
		}
	}
	if diff := cmp.Diff(seen, []string{"turn.started", "model.request", "turn.resumed", "text.delta", "turn.completed"}); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

// Text that was shown and never journalled took numbers that the resumed turn gives
// again. Whoever may have seen it is told by turn.resumed, and gets all that follows.
func TestResume_ReaderIsAheadOfTheJournal(t *testing.T) {
	never, release := make(chan struct{}), make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t, llmtest.Reply{Deltas: []string{"a", "b", "c", "d", "e"}, Block: never, BlockAfter: 8},
		llmtest.Reply{Text: "Short.", Block: release}))
	yes := true
	u := userTurn("s1", "t1", "Hello")
	u.Stream = &yes
	key := r.submit(u)
	ahead := int64(0)
	for e, err := range r.pipeline.Follow(t.Context(), key, 0) {
		if err != nil {
			break
		}
		if ahead = e.Sequence; e.Text == "d" {
			r.drainAtOnce()
		}
	}
	if ahead != 6 { // started, request, four pieces
		t.Fatalf("the reader has seen %d events, want 6", ahead)
	}
	r.restart()
	follow := func(after int64) (got []string) {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		for e, err := range r.pipeline.Follow(ctx, key, after) {
			if err != nil {
				t.Errorf("after %d: %v", after, err)
			}
			if got = append(got, string(e.Type)); e.Type == agent.EventTurnResumed && after == ahead && e.ReplaceFrom != 3 {
				t.Errorf("text is void from %d on, want 3", e.ReplaceFrom)
			}
		}
		return got
	}
	all := []string{"turn.started", "model.request", "turn.resumed", "text.delta", "turn.completed"}
	want := map[int64][]string{0: all, 1: all[1:], 2: all[2:], 3: all[2:], 4: all[2:], 5: all[2:], 6: all[2:]}
	var readers sync.WaitGroup
	for after, want := range want { // while it runs
		readers.Go(func() {
			if diff := cmp.Diff(follow(after), want); diff != "" {
				t.Errorf("live after %d: -got +want\n%s", after, diff)
			}
		})
	}
	close(release)
	readers.Wait()
	turn := r.await(key)
	r.journal(turn)
	for after, want := range want { // and when it is over
		if diff := cmp.Diff(follow(after), want); diff != "" {
			t.Errorf("after %d: -got +want\n%s", after, diff)
		}
	}
}

// Over anything but a model call nothing was shown that is not in the journal, and no
// reader is sent back.
func TestResume_OverAToolRepeatsNothing(t *testing.T) {
	type none struct{}
	started, once := make(chan struct{}), sync.Once{}
	slow, err := tool.New(tool.Definition{Name: "slow", Description: "d", Usage: "u"}, func(ctx context.Context, _ *tool.ExecutionContext, _ none) (string, error) {
		once.Do(func() { close(started) })
		<-ctx.Done()
		return "", ctx.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "slow", Arguments: "{}"}}}, llmtest.Reply{Text: "Over."}),
		func(r *rig) { r.extra, r.catalog = []tool.Tool{slow}, toolCatalog(t, "slow") })
	key := r.submit(userTurn("s1", "t1", "Run it"))
	<-started
	r.drainAtOnce()
	r.restart()
	r.await(key)
	var all []int64
	for e, err := range r.pipeline.Follow(t.Context(), key, 0) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, e.Sequence)
	}
	for cut := range all {
		var rest []int64
		for e, err := range r.pipeline.Follow(t.Context(), key, int64(cut)) {
			if err != nil {
				t.Fatal(err)
			}
			rest = append(rest, e.Sequence)
		}
		if diff := cmp.Diff(rest, all[cut:]); diff != "" {
			t.Errorf("after %d: -got +want\n%s", cut, diff)
		}
	}
}

func TestRecover_Twice(t *testing.T) {
	r := newRig(t, withModel(t))
	if err := r.pipeline.Recover(t.Context()); err == nil {
		t.Error("a second sweep was started")
	}
}

// A sweep leaves alone what runs here.
func TestSweep_RunningTurn(t *testing.T) {
	sweeps := make(chan struct{})
	h := &hooks{swept: func() {
		select {
		case sweeps <- struct{}{}:
		case <-t.Context().Done():
		}
	}}
	release := make(chan struct{})
	provider := llmtest.New(t, llmtest.Reply{Text: "Once.", Block: release})
	go func() { <-sweeps }() // that of the start
	r := newRig(t, withHooks(h), func(r *rig) { r.provider, r.times.SweepEvery = provider, time.Millisecond })
	key := r.submit(userTurn("s1", "t1", "Hello"))
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the second of them, at the latest, began after the turn, and is over when the third begins
		<-sweeps
	}
	close(release)
	go func() {
		for {
			select {
			case <-sweeps:
			case <-t.Context().Done():
				return
			}
		}
	}()
	turn := r.await(key)
	kinds, _ := r.journal(turn)
	if diff := cmp.Diff(kinds, []string{"accepted", "asked", "answered", "settled"}); diff != "" {
		t.Errorf("journal: -got +want\n%s", diff)
	}
}

// Between the look and the lock a waiting turn may have got more time.
func TestSweep_WaitingTurnWithTimeLeft(t *testing.T) {
	h := &hooks{}
	r := newRig(t, withHooks(h), func(r *rig) { r.times.SweepEvery = time.Hour },
		withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}))
	r.createWithTools("s1")
	key := r.submit(userTurn("s1", "t1", "Read"))
	r.await(key)
	h.expired = []agent.TurnKey{key}
	r.restart()
	if turn := r.await(key); turn.State != agent.TurnWaiting {
		t.Errorf("turn %s, want it to wait on", turn.State)
	}
}
