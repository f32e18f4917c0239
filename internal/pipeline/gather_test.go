package pipeline_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
)

// gathering is withHooks with steps that wait for one another's commit, for so long.
func gathering(h *hooks, gather time.Duration) func(*rig) {
	return func(r *rig) { r.hooks, r.times.Gather = h, gather }
}

// kinds are the steps of a commit.
func kinds(steps []agent.Step) (out []agent.StepKind) {
	for _, s := range steps {
		out = append(out, s.Kind)
	}
	return out
}

// A model that answers at once has the whole turn in one commit, and nothing is shown
// before it.
func TestGather_OneCommitForAQuickTurn(t *testing.T) {
	h := &hooks{append: func(_ context.Context, a store.Append) error {
		t.Errorf("a commit of its own for %v", kinds(a.Steps))
		return nil
	}}
	r := newRig(t, gathering(h, time.Hour), withModel(t, llmtest.Reply{Text: "Quick."}))
	var opened []agent.StepKind
	h.open = func(n store.NewTurn) error {
		opened = kinds(n.Steps)
		if n.Turn.State != agent.TurnCompleted || n.LastResponseID == nil {
			t.Errorf("opened as %s, with the last response %v", n.Turn.State, n.LastResponseID)
		}
		if log, live := r.hub.Follow(n.Turn.Key); live {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			for e, err := range log.From(ctx, 0) {
				if err == nil {
					t.Errorf("%s is shown before it is durable", e.Type)
				}
			}
		}
		return nil
	}
	turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
	if got := r.answer(turn).PrimaryOutputText; got != "Quick." {
		t.Errorf("answer %q", got)
	}
	want := []agent.StepKind{agent.StepAccepted, agent.StepAsked, agent.StepAnswered, agent.StepSettled}
	if diff := cmp.Diff(opened, want); diff != "" {
		t.Errorf("opened with: -got +want\n%s", diff)
	}
	r.journal(turn)
}

// A model that thinks finds the turn accepted, so that its client has been told.
func TestGather_SlowModelIsNotWaitedFor(t *testing.T) {
	think := make(chan struct{})
	h := &hooks{}
	r := newRig(t, gathering(h, time.Millisecond), withModel(t, llmtest.Reply{Text: "Slow.", Block: think}))
	key := r.submit(userTurn("s1", "t1", "Hello"))
	turn, err := r.store.Turn(t.Context(), key)
	if err != nil || turn.State != agent.TurnAccepted {
		t.Errorf("while the model thinks the turn is %q (%v), want accepted", turn.State, err)
	}
	close(think)
	r.journal(r.await(key))
}

// A tool runs when its start is durable, and the answer before it.
func TestGather_ToolWaitsForItsCommit(t *testing.T) {
	h := &hooks{}
	r := newRig(t, gathering(h, time.Hour), withModel(t, toolCall("c1"), llmtest.Reply{Text: "Done."}))
	var commits [][]agent.StepKind
	h.opened = func(n store.NewTurn) { commits = append(commits, kinds(n.Steps)) }
	h.appended = func(a store.Append) { commits = append(commits, kinds(a.Steps)) }
	turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
	want := [][]agent.StepKind{
		{agent.StepAccepted, agent.StepAsked, agent.StepAnswered, agent.StepToolStarted},
		{agent.StepToolFinished, agent.StepAsked, agent.StepAnswered, agent.StepSettled},
	}
	if diff := cmp.Diff(commits, want); diff != "" {
		t.Errorf("commits: -got +want\n%s", diff)
	}
	r.journal(turn)
}

func toolCall(id string) llmtest.Reply {
	return llmtest.Reply{Calls: []llmtest.Call{{ID: id, Name: "agent_list_modes", Arguments: "{}"}}}
}

// A turn whose only commit fails was never accepted: its client is told, nothing is left
// of it, and the same request again is a new turn.
func TestGather_StillbornTurnLeavesNothing(t *testing.T) {
	for _, gather := range []time.Duration{time.Hour, time.Millisecond, -1} {
		t.Run(gather.String(), func(t *testing.T) {
			h := &hooks{open: func(store.NewTurn) error { return errDisk }}
			r := newRig(t, gathering(h, gather), withModel(t))
			r.provider.Otherwise(func([]byte) llmtest.Reply { return llmtest.Reply{Text: "Said."} })
			key, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "t1", "Hello"))
			if !errors.Is(err, errDisk) {
				t.Errorf("submit: %v, want the store's error", err)
			}
			if r.pipeline.Left(key) != nil {
				t.Error("the turn is still running")
			}
			if n := len(r.provider.Requests()); gather < 0 && n > 0 {
				t.Errorf("the model was asked %d times for a turn that was refused before", n)
			}
			for e, err := range r.pipeline.Follow(t.Context(), key, 0) {
				if agent.KindOf(err) != agent.KindNotFound {
					t.Errorf("followed to %s, %v", e.Type, err)
				}
			}
			if _, err := r.store.Session(t.Context(), caller.Org, "s1"); agent.KindOf(err) != agent.KindNotFound {
				t.Errorf("its session: %v, want not_found", err)
			}
			h.open = nil
			turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
			if got := r.answer(turn).PrimaryOutputText; got != "Said." {
				t.Errorf("answer %q", got)
			}
			r.journal(turn)
		})
	}
}

// A turn that the user's switch overtakes before it is durable is built again in the new
// mode (AGN-011 §3.3).
func TestGather_OvertakenByASwitch(t *testing.T) {
	for _, gather := range []time.Duration{time.Hour, time.Millisecond, -1} {
		t.Run(gather.String(), func(t *testing.T) {
			h := &hooks{}
			r := newRig(t, gathering(h, gather), withModel(t))
			r.provider.Otherwise(func([]byte) llmtest.Reply { return llmtest.Reply{Text: "Said."} })
			if _, err := r.sessions.Create(t.Context(), caller, contract.CreateSession{SessionID: "s1"}); err != nil {
				t.Fatal(err)
			}
			h.open = func() func(store.NewTurn) error {
				var overtake sync.Once
				return func(store.NewTurn) error {
					overtake.Do(func() {
						_, err := r.sessions.SetSessionMode(context.Background(), agent.ModeChange{Org: caller.Org, Session: "s1",
							Mode: "ddr_authoring", Reason: "r", User: caller.User, Actor: agent.ActorUser})
						if err != nil {
							t.Error(err)
						}
					})
					return nil
				}
			}()
			turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
			if turn.Mode != "ddr_authoring" || r.answer(turn).Mode != "ddr_authoring" {
				t.Errorf("the turn is in mode %s and answers in %s", turn.Mode, r.answer(turn).Mode)
			}
			if _, err := r.pipeline.Requests(t.Context(), turn.Key); err != nil {
				t.Error(err)
			}
			r.journal(turn)
		})
	}
}

// What could not be committed while the model was thinking goes with its answer.
func TestGather_FailedCommitIsTriedAgain(t *testing.T) {
	h := &hooks{append: once(func(a store.Append) bool { return has(a, agent.StepAsked) }, func(context.Context, store.Append) error { return errDisk })}
	r := newRig(t, gathering(h, -1), withModel(t, toolCall("c1"), llmtest.Reply{Deltas: []string{"Do", "ne."}}))
	yes := true
	u := userTurn("s1", "t1", "Hello")
	u.Stream = &yes
	key := r.submit(u)
	var followed []string
	for e, err := range r.pipeline.Follow(t.Context(), key, 0) {
		if err != nil {
			t.Fatal(err)
		}
		followed = append(followed, string(e.Type))
	}
	turn := r.await(key)
	if turn.State != agent.TurnCompleted {
		t.Errorf("turn %s", turn.State)
	}
	_, events := r.journal(turn)
	if diff := cmp.Diff(followed, events); diff != "" {
		t.Errorf("followed live, against the journal: -got +want\n%s", diff)
	}
	if !slices.Contains(followed, "text.delta") {
		t.Errorf("followed %v", followed)
	}
}

// Text waits for the commit of what comes before it, and then stands in its place.
func TestGather_TextWaitsBehindAHeldStep(t *testing.T) {
	rest := make(chan struct{})
	h := &hooks{}
	r := newRig(t, gathering(h, 50*time.Millisecond), withModel(t, llmtest.Reply{Deltas: []string{"One ", "two"}, BlockAfter: 5, Block: rest}))
	yes := true
	u := userTurn("s1", "t1", "Hello")
	u.Stream = &yes
	key := r.submit(u)
	seen := 0
	var text string
	for e, err := range r.pipeline.Follow(t.Context(), key, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if seen++; e.Sequence != int64(seen) {
			t.Errorf("event %d is a %s with sequence %d", seen, e.Type, e.Sequence)
		}
		if e.Type == agent.EventTextDelta {
			if text += e.Text; text == "One " {
				close(rest)
			}
		}
	}
	if text != "One two" {
		t.Errorf("text %q", text)
	}
	r.journal(r.await(key))
}
