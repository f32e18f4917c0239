package pipeline_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// drainAtOnce drains without patience: what runs is broken off.
func (r *rig) drainAtOnce() {
	r.t.Helper()
	hurry, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.pipeline.Drain(hurry); err != nil {
		r.t.Error(err)
	}
}

func results(session, turn, call string) contract.ToolContinuation {
	ok := `{"ok":true}`
	return contract.ToolContinuation{SessionID: agent.SessionID(session), TurnID: agent.TurnID(turn),
		ToolResults: []contract.ToolResult{{ToolCallID: agent.CallID(call), ResultJSON: &ok}}}
}

func toWaiting(a store.Append) bool { return a.State == agent.TurnWaiting }

// The client sees turn.waiting before the goroutine that showed it has left, and may
// answer in between.
func TestContinue_BeforeTheTurnHasLeft(t *testing.T) {
	h := &hooks{}
	release := make(chan struct{})
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}},
		llmtest.Reply{Text: "Quick.", Block: release}))
	r.createWithTools("s1")
	key := agent.TurnKey{Org: caller.Org, Session: "s1", Turn: "t1"}
	waited := make(chan (<-chan struct{}), 1)
	h.appended = func(a store.Append) {
		if !toWaiting(a) {
			return
		}
		waited <- r.pipeline.Left(key)
		if _, _, _, err := r.pipeline.Continue(context.Background(), caller, results("s1", "t1", "c1")); err != nil {
			t.Error(err)
		}
	}
	r.submit(userTurn("s1", "t1", "Read"))
	<-<-waited
	if r.pipeline.Left(key) == nil {
		t.Error("the first run, leaving, took the second one off the list")
	}
	if turn, err := r.pipeline.Turn(t.Context(), key); err != nil || time.Until(turn.Deadline) > time.Hour {
		t.Errorf("a turn that runs again has until %s, as if it waited (%v)", turn.Deadline, err)
	}
	close(release)
	turn := r.await(key)
	if got := r.answer(turn).PrimaryOutputText; got != "Quick." {
		t.Errorf("answer %q", got)
	}
	r.journal(turn)
}

// A turn that ends while the next one opens is part of what the next one says, or the
// next one is refused; it is never built from a session that knows nothing of it.
func TestExecute_WhileTheTurnBeforeEnds(t *testing.T) {
	h := &hooks{}
	release, completed := make(chan struct{}), make(chan struct{})
	let := sync.OnceFunc(func() { close(release) })
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Text: "First answer.", Block: release}, llmtest.Reply{Text: "Second answer."}))
	key := r.submit(userTurn("s1", "t1", "First"))
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	h.appended = func(a store.Append) {
		if a.State == agent.TurnCompleted && a.Key == key {
			close(completed)
		}
	}
	var read atomic.Bool
	h.session = func() {
		if !read.Swap(true) { // the turn that opens; the other reads it too, to end
			let()
			<-completed
		}
	}
	second, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "t2", "Second"))
	if err != nil {
		if agent.KindOf(err) != agent.KindTurnInProgress || !strings.Contains(err.Error(), `"t1"`) {
			t.Fatal(err)
		}
		read.Store(true)
		let()
		r.await(key)
		second = r.submit(userTurn("s1", "t2", "Second"))
	}
	turn := r.await(second)
	if got := r.answer(turn).PrimaryOutputText; got != "Second answer." {
		t.Errorf("answer %q", got)
	}
	if sent := string(r.provider.Requests()[1]); !strings.Contains(sent, "First answer.") {
		t.Errorf("the second turn knows nothing of the first: %s", sent)
	}
	if _, err := r.pipeline.Requests(t.Context(), second); err != nil {
		t.Error(err)
	}
}

// From the end of a turn that its client has seen on, the session is free.
func TestExecute_BeforeTheTurnBeforeHasLeft(t *testing.T) {
	h := &hooks{}
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Text: "First answer."}, llmtest.Reply{Text: "Second answer."}))
	second := make(chan error, 1)
	h.appended = func(a store.Append) {
		if a.State == agent.TurnCompleted && a.Key.Turn == "t1" {
			_, _, err := r.pipeline.Submit(context.Background(), caller, userTurn("s1", "t2", "Second"))
			second <- err
		}
	}
	key := r.submit(userTurn("s1", "t1", "First"))
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	r.await(key)
	key.Turn = "t2"
	r.await(key)
	if sent := string(r.provider.Requests()[1]); !strings.Contains(sent, "First answer.") {
		t.Errorf("the second turn knows nothing of the first: %s", sent)
	}
}

// A cancel is kept, also when the turn slips out of its hands.
func TestCancel_WhileTheTurnIsHandedOver(t *testing.T) {
	h := &hooks{}
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}))
	r.createWithTools("s1")
	key := agent.TurnKey{Org: caller.Org, Session: "s1", Turn: "t1"}
	left := make(chan (<-chan struct{}), 1)
	h.append = once(toWaiting, func(context.Context, store.Append) error {
		left <- r.pipeline.Left(key)
		return r.pipeline.Cancel(context.Background(), key)
	})
	r.submit(userTurn("s1", "t1", "Read"))
	<-<-left
	turn := r.await(key)
	if turn.State != agent.TurnCancelled {
		t.Errorf("turn %s, want cancelled", turn.State)
	}
	kinds, _ := r.journal(turn)
	if diff := cmp.Diff(kinds, []string{"accepted", "asked", "answered", "waiting", "settled"}); diff != "" {
		t.Errorf("journal: -got +want\n%s", diff)
	}
}

func TestCancel_WhileTheTurnIsDrained(t *testing.T) {
	h := &hooks{}
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: tool.ListModes, Arguments: "{}"}}}))
	key := agent.TurnKey{Org: caller.Org, Session: "s1", Turn: "t1"}
	drained := make(chan struct{})
	h.append = once(func(a store.Append) bool { return has(a, agent.StepToolStarted) }, func(ctx context.Context, _ store.Append) error {
		go func() {
			defer close(drained)
			r.drainAtOnce()
		}()
		<-ctx.Done()
		if err := r.pipeline.Cancel(context.Background(), key); err != nil {
			t.Error(err)
		}
		return nil
	})
	r.submit(userTurn("s1", "t1", "List"))
	<-drained
	turn := r.await(key)
	if turn.State != agent.TurnCancelled {
		t.Errorf("turn %s, want cancelled", turn.State)
	}
	r.journal(turn)
}

func TestCancel_AfterTheAnswer(t *testing.T) {
	h := &hooks{}
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Text: "Done."}))
	key := agent.TurnKey{Org: caller.Org, Session: "s1", Turn: "t1"}
	h.appended = func(a store.Append) {
		if a.State == agent.TurnCompleted {
			if err := r.pipeline.Cancel(context.Background(), key); err != nil {
				t.Error(err)
			}
		}
	}
	r.submit(userTurn("s1", "t1", "Hello"))
	if turn := r.await(key); turn.State != agent.TurnCompleted {
		t.Errorf("turn %s, want completed", turn.State)
	}
	if err := r.pipeline.Cancel(t.Context(), key); err != nil {
		t.Errorf("cancelling a completed turn: %v", err)
	}
	if err := r.pipeline.Cancel(t.Context(), agent.TurnKey{Org: "other", Session: "s1", Turn: "t1"}); agent.KindOf(err) != agent.KindNotFound {
		t.Errorf("cancelling another organisation's turn: %v, want not_found", err)
	}
}

// What still runs of an erased session, or of another organisation's, does not make a
// session busy.
func TestExecute_OnlyTheSessionsOwnTurnsCount(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Old.", Block: release}, llmtest.Reply{Text: "Theirs."}, llmtest.Reply{Text: "New."}))
	r.submit(userTurn("s1", "t1", "Hello"))
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	key, _, err := r.pipeline.Submit(t.Context(), agent.Caller{Org: "globex", User: "eve"}, userTurn("s1", "t1", "Hello"))
	if err != nil {
		t.Fatal(err)
	}
	r.await(key)
	if err := r.store.DeleteSession(t.Context(), caller.Org, "s1"); err != nil {
		t.Fatal(err)
	}
	if got := r.answer(r.await(r.submit(userTurn("s1", "t2", "Hello")))).PrimaryOutputText; got != "New." {
		t.Errorf("answer %q", got)
	}
}

// What breaks a turn off decides how it ends, also when the store is the first to
// notice and gives its own error.
func TestBrokenOff_WhileTheStoreIsBusy(t *testing.T) {
	for _, tt := range []struct {
		name  string
		why   func(*rig, agent.TurnKey)
		state agent.TurnState
	}{
		{"cancelled", func(r *rig, key agent.TurnKey) {
			if err := r.pipeline.Cancel(context.Background(), key); err != nil {
				r.t.Error(err)
			}
		}, agent.TurnCancelled},
		{"drained", func(r *rig, _ agent.TurnKey) { go r.drainAtOnce() }, agent.TurnRunning},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hooks{}
			r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: tool.ListModes, Arguments: "{}"}}}))
			key := agent.TurnKey{Org: caller.Org, Session: "s1", Turn: "t1"}
			left := make(chan (<-chan struct{}), 1)
			h.append = once(func(a store.Append) bool { return has(a, agent.StepToolStarted) }, func(ctx context.Context, _ store.Append) error {
				left <- r.pipeline.Left(key)
				tt.why(r, key)
				<-ctx.Done()
				return nil // and the store itself refuses the dead context
			})
			r.submit(userTurn("s1", "t1", "List"))
			<-<-left
			turn, err := r.pipeline.Turn(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			if turn.State != tt.state {
				t.Errorf("turn %s, want %s (fault %+v)", turn.State, tt.state, turn.Fault)
			}
			kinds, _ := r.journal(turn)
			want := []string{"accepted", "asked", "answered"}
			if turn.State.Terminal() {
				want = append(want, "settled")
			}
			if diff := cmp.Diff(kinds, want); diff != "" {
				t.Errorf("journal: -got +want\n%s", diff)
			}
		})
	}
}

// A turn that is accepted just when the server stops is kept.
func TestDrain_WhileATurnOpens(t *testing.T) {
	h := &hooks{}
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Text: "After the restart."}))
	var drained sync.WaitGroup
	h.open = func(store.NewTurn) error {
		drained.Go(r.drainAtOnce)
		for !r.pipeline.Draining() {
			time.Sleep(time.Millisecond)
		}
		return nil
	}
	key := r.submit(userTurn("s1", "t1", "Hello"))
	drained.Wait()
	if _, err := r.pipeline.Await(t.Context(), key); agent.KindOf(err) != agent.KindDraining {
		t.Errorf("await: %v, want draining", err)
	}
	h.open = nil
	r.restart()
	turn := r.await(key)
	if got := r.answer(turn).PrimaryOutputText; got != "After the restart." {
		t.Errorf("answer %q", got)
	}
	r.journal(turn)
}

// A reader of a continued turn that was broken off is told so: the turn.waiting that
// it has seen is not where the turn stands.
func TestFollow_ContinuedTurnBrokenOff(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}},
		llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "Whole."}))
	r.createWithTools("s1")
	key := r.submit(userTurn("s1", "t1", "Read"))
	r.await(key)
	_, after, _, err := r.pipeline.Continue(t.Context(), caller, results("s1", "t1", "c1"))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.provider.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r.drainAtOnce()
	if _, err := r.pipeline.Await(t.Context(), key); agent.KindOf(err) != agent.KindDraining {
		t.Errorf("await: %v, want draining", err)
	}
	for _, from := range []int64{0, after} {
		var ended error
		for _, err := range r.pipeline.Follow(t.Context(), key, from) {
			ended = err
		}
		if agent.KindOf(ended) != agent.KindDraining {
			t.Errorf("followed after %d to %v, want draining", from, ended)
		}
	}
	r.restart()
	turn := r.await(key)
	if got := r.answer(turn).PrimaryOutputText; got != "Whole." {
		t.Errorf("answer %q", got)
	}
	r.journal(turn)
}

// A session that is erased and made again is another one: what still runs of the old
// one does not write into the new one's journal.
func TestErasedSession_ItsRunningTurnIsNotTheNewOnes(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Old.", Block: release}, llmtest.Reply{Text: "New."}))
	key := r.submit(userTurn("s1", "t1", "Hello"))
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if err := r.store.DeleteSession(t.Context(), caller.Org, "s1"); err != nil {
		t.Fatal(err)
	}
	r.submit(userTurn("s1", "t1", "Hello again"))
	turn := r.await(key)
	if got := r.answer(turn).PrimaryOutputText; got != "New." {
		t.Errorf("answer %q, want the new turn's", got)
	}
	r.journal(turn)
}

func TestContinue_WhileDraining(t *testing.T) {
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}, llmtest.Reply{Text: "Read."}))
	r.createWithTools("s1")
	key := r.submit(userTurn("s1", "t1", "Read"))
	r.await(key)
	r.drainAtOnce()
	if _, _, _, err := r.pipeline.Continue(t.Context(), caller, results("s1", "t1", "c1")); agent.KindOf(err) != agent.KindDraining {
		t.Errorf("got %v, want draining", err)
	}
	r.restart()
	if turn := r.await(key); turn.State != agent.TurnWaiting {
		t.Errorf("turn %s, want it to wait on: nothing was taken", turn.State)
	}
	if _, _, _, err := r.pipeline.Continue(t.Context(), caller, results("s1", "t1", "c1")); err != nil {
		t.Fatal(err)
	}
	if got := r.answer(r.await(key)).PrimaryOutputText; got != "Read." {
		t.Errorf("answer %q", got)
	}
}

// A stream is one delivery: it ends with turn.waiting, also when the turn goes on at
// once.
func TestFollow_EndsWithItsDelivery(t *testing.T) {
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}, llmtest.Reply{Text: "Read."}))
	r.createWithTools("s1")
	key := r.submit(userTurn("s1", "t1", "Read"))
	last := agent.EventType("")
	for e, err := range r.pipeline.Follow(t.Context(), key, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if last = e.Type; last == agent.EventTurnWaiting {
			if _, _, _, err := r.pipeline.Continue(t.Context(), caller, results("s1", "t1", "c1")); err != nil {
				t.Fatal(err)
			}
			if got := r.answer(r.await(key)).PrimaryOutputText; got != "Read." {
				t.Errorf("answer %q", got)
			}
		}
	}
	if last != agent.EventTurnWaiting {
		t.Errorf("the stream ends with %s, want turn.waiting", last)
	}
}

// A reader that joins a continued turn from the start gets what was before from the
// journal and the rest as it happens.
func TestFollow_JoinsARunningTurnFromAnywhere(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}, llmtest.Reply{Text: "Read.", Block: release}))
	r.createWithTools("s1")
	key := r.submit(userTurn("s1", "t1", "Read"))
	r.await(key)
	if _, _, _, err := r.pipeline.Continue(t.Context(), caller, results("s1", "t1", "c1")); err != nil {
		t.Fatal(err)
	}
	if err := r.provider.Await(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	const events = 6 // started, request, waiting; request, delta, completed
	var readers sync.WaitGroup
	joined := make(chan struct{}, events)
	for after := range int64(events) {
		readers.Go(func() {
			next := after + 1
			for e, err := range r.pipeline.Follow(t.Context(), key, after) {
				if err != nil || e.Sequence != next {
					t.Errorf("after %d: event %d (%v), want %d", after, e.Sequence, err, next)
				}
				if next++; next == 5 {
					joined <- struct{}{} // it has all that there is so far
				}
			}
			if next != events+1 {
				t.Errorf("after %d: the stream ends before event %d", after, next)
			}
		})
	}
	for range 4 { // those that begin with one of the four events that are there
		<-joined
	}
	close(release)
	readers.Wait()
}

// The user switches by hand while a turn runs, and then the model does. The answer tells
// the model's change as the history has it, also when it leads back to where the turn
// began.
func TestModeChange_AfterTheUsersOwn(t *testing.T) {
	for to, want := range map[agent.ModeKey]*agent.ModeSwitch{
		"general":            {PreviousMode: "ddr_authoring", Mode: "general", Reason: "r"},
		"workflow_authoring": {PreviousMode: "ddr_authoring", Mode: "workflow_authoring", Reason: "r"},
		// No change of the model's, but the turn learns of the user's.
		"ddr_authoring": {PreviousMode: "general", Mode: "ddr_authoring", Reason: "r"},
	} {
		t.Run(string(to), func(t *testing.T) {
			release := make(chan struct{})
			r := newRig(t, withModel(t, llmtest.Reply{Block: release, Calls: []llmtest.Call{{ID: "c1", Name: tool.ChangeMode,
				Arguments: `{"mode":"` + string(to) + `","branch":false,"reason":"r"}`}}}, llmtest.Reply{Text: "Done."}))
			key := r.submit(userTurn("s1", "t1", "Change"))
			if _, err := r.sessions.SetSessionMode(t.Context(), agent.ModeChange{Org: caller.Org, Session: "s1", Mode: "ddr_authoring", Reason: "by hand", Actor: agent.ActorUser}); err != nil {
				t.Fatal(err)
			}
			close(release)
			a := r.answer(r.await(key))
			if diff := cmp.Diff(want, a.ModeChange); diff != "" || a.Mode != string(to) {
				t.Errorf("the answer is in %s, with the change (-want +got):\n%s", a.Mode, diff)
			}
		})
	}
}
