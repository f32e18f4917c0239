package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// A turn can be cancelled wherever it stands. It ends at once, no tool starts any more,
// what a tool in flight gave is taken down and not used, the same cancel again changes
// nothing, and the next turn has a transcript that the model accepts.
// It holds row S-24 of docs/security.md.
func TestCancel_InEveryState(t *testing.T) {
	type none struct{}
	two := []llmtest.Call{{ID: "c1", Name: "slow", Arguments: "{}"}, {ID: "c2", Name: "slow", Arguments: "{}"}}
	change := []llmtest.Call{{ID: "c1", Name: tool.ChangeMode, Arguments: `{"mode":"general","branch":false,"reason":"r"}`}, {ID: "c2", Name: "slow", Arguments: "{}"}}
	never := make(chan struct{})
	t.Cleanup(func() { close(never) })
	for _, tt := range []struct {
		name       string
		script     []llmtest.Reply // of the turn; the next one is answered after it
		idempotent bool
		succeeds   bool                                // the tool that is running does, although it was told to stop
		mode       agent.ModeKey                       // in which the session begins
		stands     func(r *rig, tools <-chan struct{}) // returns when the turn stands there
		want       agent.TurnState
		events     []string
		outputs    []string // of its calls
	}{
		{name: "queued", script: []llmtest.Reply{{Text: "Before.", Block: never}},
			stands: func(r *rig, _ <-chan struct{}) {}, want: agent.TurnCancelled,
			events: []string{"turn.queued", "turn.cancelled"}},
		{name: "in the model call", script: []llmtest.Reply{{Text: "Never.", Block: never}},
			stands: func(r *rig, _ <-chan struct{}) { r.asked(1) }, want: agent.TurnCancelled,
			events: []string{"turn.started", "model.request", "turn.cancelled"}},
		{name: "its text is shown", script: []llmtest.Reply{{Deltas: []string{"Half", " an answer."}, Block: never, BlockAfter: 5}},
			stands: func(r *rig, _ <-chan struct{}) { r.shown(agent.EventTextDelta) }, want: agent.TurnCancelled,
			events: []string{"turn.started", "model.request", "text.delta", "turn.cancelled"}},
		{name: "in a tool", script: []llmtest.Reply{{Calls: two}},
			stands: func(r *rig, tools <-chan struct{}) { <-tools }, want: agent.TurnCancelled,
			events:  []string{"turn.started", "model.request", "tool.started", "turn.cancelled"},
			outputs: []string{"c1 cancelled", "c2 cancelled"}},
		{name: "in an idempotent tool", script: []llmtest.Reply{{Calls: two}}, idempotent: true,
			stands: func(r *rig, tools <-chan struct{}) { <-tools }, want: agent.TurnCancelled,
			events:  []string{"turn.started", "model.request", "tool.started", "turn.cancelled"},
			outputs: []string{"c1 cancelled", "c2 cancelled"}},
		{name: "in a tool that succeeds", script: []llmtest.Reply{{Calls: two}}, succeeds: true,
			stands: func(r *rig, tools <-chan struct{}) { <-tools }, want: agent.TurnCancelled,
			events:  []string{"turn.started", "model.request", "tool.started", "tool.finished", "turn.cancelled"},
			outputs: []string{"c1 ok", "c2 cancelled"}},
		{name: "after a mode change", script: []llmtest.Reply{{Calls: change}}, mode: "other",
			stands: func(r *rig, tools <-chan struct{}) { <-tools }, want: agent.TurnCancelled,
			events:  []string{"turn.started", "model.request", "tool.started", "tool.finished", "mode.changed", "tool.started", "turn.cancelled"},
			outputs: []string{"c1 ok", "c2 cancelled"}},
		{name: "waiting", script: []llmtest.Reply{{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}},
			stands: func(r *rig, _ <-chan struct{}) { r.await(key("t1")) }, want: agent.TurnCancelled,
			events:  []string{"turn.started", "model.request", "turn.waiting", "turn.cancelled"},
			outputs: []string{"c1 cancelled"}},
		{name: "completed", script: []llmtest.Reply{{Text: "Done."}},
			stands: func(r *rig, _ <-chan struct{}) { r.await(key("t1")) }, want: agent.TurnCompleted,
			events: []string{"turn.started", "model.request", "text.delta", "turn.completed"}},
		{name: "failed", script: []llmtest.Reply{{Status: 400}},
			stands: func(r *rig, _ <-chan struct{}) { r.await(key("t1")) }, want: agent.TurnFailed,
			events: []string{"turn.started", "model.request", "turn.failed"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			started := make(chan struct{}, 2)
			slow, err := tool.New(tool.Definition{Name: "slow", Description: "d", Usage: "u", Idempotent: tt.idempotent},
				func(ctx context.Context, _ *tool.ExecutionContext, _ none) (string, error) {
					started <- struct{}{}
					<-ctx.Done()
					if tt.succeeds {
						return "done", nil
					}
					return "", ctx.Err()
				})
			if err != nil {
				t.Fatal(err)
			}
			script := append(slices.Clone(tt.script), llmtest.Reply{Text: "After."})
			r := newRig(t, withModel(t, script...), withCatalog(twoModes("slow")), func(r *rig) { r.extra = []tool.Tool{slow} })
			policy := agent.ConcurrencyReject
			if tt.name == "queued" {
				policy = agent.ConcurrencyQueue
			}
			if _, err := r.sessions.Create(t.Context(), caller, contract.CreateSession{SessionID: "s1", Mode: tt.mode, Concurrency: policy, Tools: []byte(readFile)}); err != nil {
				t.Fatal(err)
			}
			if tt.name == "queued" {
				r.submit(userTurn("s1", "t0", "Before"))
				r.asked(1)
			}
			yes := true
			u := userTurn("s1", "t1", "Hello")
			u.Stream = &yes
			k := r.submit(u)
			tt.stands(r, started)
			if err := r.pipeline.Cancel(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			cancelled := time.Now()
			turn := r.await(k)
			if took := time.Since(cancelled); took > 5*time.Second { // a second on an idle machine (S-24)
				t.Errorf("the turn ended %s after it was cancelled", took)
			}
			if turn.State != tt.want {
				t.Errorf("the turn is %s, want %s", turn.State, tt.want)
			}
			_, events := r.journal(turn)
			if diff := cmp.Diff(events, tt.events); diff != "" {
				t.Errorf("events: -got +want\n%s", diff)
			}
			if diff := cmp.Diff(r.outputs(k), tt.outputs); diff != "" {
				t.Errorf("results: -got +want\n%s", diff)
			}
			if err := r.pipeline.Cancel(t.Context(), k); err != nil {
				t.Errorf("cancelled again: %v", err)
			}
			if diff := cmp.Diff(r.await(k), turn); diff != "" {
				t.Errorf("the second cancel changed the turn: -got +want\n%s", diff)
			}
			if tt.name == "queued" {
				if err := r.pipeline.Cancel(t.Context(), key("t0")); err != nil {
					t.Fatal(err)
				}
				r.await(key("t0"))
			}
			next := r.await(r.submit(userTurn("s1", "t2", "Hello again")))
			if next.State != agent.TurnCompleted || next.Mode != "general" {
				t.Errorf("the next turn is %s in mode %s with %+v", next.State, next.Mode, next.Fault)
			}
			select {
			case <-started:
				t.Error("a tool started after the cancel")
			default:
			}
		})
	}
}

// twoModes is a catalogue with the modes general and other, both with the tool.
func twoModes(name string) map[string][]byte {
	mode := func(id, key string, isDefault bool) []byte {
		return fmt.Appendf(nil, "id: %s\nkey: %s\ndisplayName: %s\ndescription: d\nwhenToUse: w\nisDefault: %t\ntools: [%s]\n", id, key, key, isDefault, name)
	}
	return map[string][]byte{
		"general.yaml": mode("3F8E4F377F7A4C189C7F6A8B9F945C11", "general", true),
		"other.yaml":   mode("3F8E4F377F7A4C189C7F6A8B9F945C12", "other", false),
	}
}

func key(turn agent.TurnID) agent.TurnKey {
	return agent.TurnKey{Org: caller.Org, Session: "s1", Turn: turn}
}

// asked waits until the model has been asked so many times.
func (r *rig) asked(n int) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	if err := r.provider.Await(ctx, n); err != nil {
		r.t.Fatalf("request %d: %v", n, err)
	}
}

func (r *rig) turn(k agent.TurnKey) agent.Turn {
	r.t.Helper()
	turn, err := r.store.Turn(r.t.Context(), k)
	if err != nil {
		r.t.Fatal(err)
	}
	return turn
}

// shown waits until turn t1 has shown an event of a type.
func (r *rig) shown(want agent.EventType) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	for e, err := range r.pipeline.Follow(ctx, key("t1"), 0) {
		if err != nil {
			r.t.Fatal(err)
		}
		if e.Type == want {
			return
		}
	}
	r.t.Fatalf("the turn never showed a %s", want)
}

// outputs returns the calls of a turn with the outcomes that its journal has for them.
func (r *rig) outputs(k agent.TurnKey) (out []string) {
	r.t.Helper()
	steps, err := r.store.Steps(r.t.Context(), k)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, s := range steps {
		switch s.Kind {
		case agent.StepToolFinished:
			out = append(out, fmt.Sprint(s.ToolFinished.Result.CallID, " ", s.ToolFinished.Result.Code))
		case agent.StepSettled:
			for _, res := range s.Settled.Abandoned {
				out = append(out, fmt.Sprint(res.CallID, " ", res.Code))
			}
		}
	}
	return out
}

// A cancel that meets the very end of a turn has one outcome: the turn is completed, or
// it is cancelled, and everybody sees the same.
func TestCancel_MeetsTheEnd(t *testing.T) {
	for _, before := range []bool{true, false} {
		t.Run(fmt.Sprintf("before it is written %t", before), func(t *testing.T) {
			h := &hooks{}
			r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Text: "Done."}))
			k := key("t1")
			cancel := func() {
				if err := r.pipeline.Cancel(context.Background(), k); err != nil {
					t.Error(err)
				}
			}
			if before {
				h.append = once(func(a store.Append) bool { return a.State == agent.TurnCompleted }, func(context.Context, store.Append) error { cancel(); return nil })
			} else {
				h.appended = func(a store.Append) {
					if a.State == agent.TurnCompleted {
						cancel()
					}
				}
			}
			r.submit(userTurn("s1", "t1", "Hello"))
			turn := r.await(k)
			if turn.State != agent.TurnCompleted {
				t.Errorf("the turn is %s, though its answer was on its way into the journal", turn.State)
			}
			_, events := r.journal(turn)
			if diff := cmp.Diff(events, []string{"turn.started", "model.request", "text.delta", "turn.completed"}); diff != "" {
				t.Errorf("events: -got +want\n%s", diff)
			}
			if diff := cmp.Diff(r.types(t.Context(), k), events); diff != "" {
				t.Errorf("a reader sees: -got +want\n%s", diff)
			}
		})
	}
}

// Nothing stays where it is: a turn in any state but the terminal ones has an owner or a
// deadline. Each is put there with its time over, as if the process had died long ago;
// the next start ends it, without asking the model.
func TestDeadline_OfEveryState(t *testing.T) {
	type row struct {
		state  agent.TurnState
		queued bool
		want   agent.Kind
	}
	table := []row{
		{agent.TurnAccepted, true, agent.KindTurnExpired},
		{agent.TurnAccepted, false, agent.KindLimitReached},
		{agent.TurnRunning, false, agent.KindLimitReached},
		{agent.TurnWaiting, false, agent.KindTurnExpired},
	}
	for _, tt := range table {
		t.Run(fmt.Sprintf("%s, queued %t", tt.state, tt.queued), func(t *testing.T) {
			t.Parallel()
			state := tt.state
			h := &hooks{}
			never := make(chan struct{})
			defer close(never)
			script := []llmtest.Reply{{Text: "Never.", Block: never}}
			if state == agent.TurnRunning || state == agent.TurnWaiting {
				script = []llmtest.Reply{{Calls: []llmtest.Call{{ID: "c1", Name: tool.ListModes, Arguments: "{}"}}}, script[0]}
			}
			if state == agent.TurnWaiting {
				script = []llmtest.Reply{{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}}
			}
			r := newRig(t, withHooks(h), withModel(t, script...))
			r.createWith("s1", agent.ConcurrencyQueue)
			k := r.submit(userTurn("s1", "t1", "Hello"))
			switch state {
			case agent.TurnWaiting:
				r.await(k)
			default:
				r.asked(len(script))
			}
			if tt.queued {
				k = r.submit(userTurn("s1", "t2", "Hello again"))
			}
			r.drainAtOnce()
			if got := r.turn(k); got.Queued != tt.queued || got.State != tt.state && !(tt.state == agent.TurnAccepted && got.State == agent.TurnRunning) {
				t.Fatalf("the turn is %s, want %s", got.State, tt.state)
			}
			calls := len(r.provider.Requests())
			r.stop()
			r.now = func() time.Time { return time.Now().Add(30 * 24 * time.Hour) }
			r.start()
			turn := r.await(k)
			if turn.State != agent.TurnFailed || turn.Fault == nil || turn.Fault.Kind != tt.want {
				t.Errorf("the turn is %s with %+v, want it failed with %s", turn.State, turn.Fault, tt.want)
			}
			r.journal(turn)
			if n := len(r.provider.Requests()); n != calls {
				t.Errorf("%d more model calls", n-calls)
			}
		})
	}
	// The table is whole: a state that holds a session has a row.
	for _, state := range store.Active() {
		if !slices.ContainsFunc(table, func(r row) bool { return r.state == state }) {
			t.Errorf("nothing says what ends a turn that is %s", state)
		}
	}
}
