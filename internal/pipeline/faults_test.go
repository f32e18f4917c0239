package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// What a store says of itself is for the log alone.
var errDisk = errors.New("disk /dev/secret is on fire")

const readFile = `[{"type":"function","name":"read_file","parameters":{"type":"object"}}]`

func (r *rig) createWithTools(id agent.SessionID) {
	r.t.Helper()
	if _, err := r.sessions.Create(r.t.Context(), caller, contract.CreateSession{SessionID: id, Tools: json.RawMessage(readFile)}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) submit(u contract.UserTurn) agent.TurnKey {
	r.t.Helper()
	key, _, err := r.pipeline.Submit(r.t.Context(), caller, u)
	if err != nil {
		r.t.Fatal(err)
	}
	return key
}

func (r *rig) await(key agent.TurnKey) agent.Turn {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	turn, err := r.pipeline.Await(ctx, key)
	if err != nil {
		r.t.Fatalf("await %s: %v", key, err)
	}
	return turn
}

// journal returns the kinds of the turn's steps and the types of its events, both
// checked.
func (r *rig) journal(turn agent.Turn) (kinds, events []string) {
	r.t.Helper()
	steps, err := r.store.Steps(r.t.Context(), turn.Key)
	if err != nil {
		r.t.Fatal(err)
	}
	checkJournal(r.t, turn, steps)
	for _, s := range steps {
		kinds = append(kinds, string(s.Kind))
		for _, e := range s.Events(turn.Key) {
			events = append(events, string(e.Type))
		}
	}
	return kinds, events
}

// A write that fails did not happen: the turn ends once, by the fault, and what was
// held before that write is not lost.
func TestStoreFails_TurnHasOneEnd(t *testing.T) {
	change := []llmtest.Call{{ID: "c1", Name: tool.ListModes, Arguments: "{}"}}
	for _, tt := range []struct {
		name   string
		refuse func(store.Append) bool
		reply  llmtest.Reply
		want   []string
	}{
		{"the answer", func(a store.Append) bool { return a.State == agent.TurnCompleted }, llmtest.Reply{Text: "Hello."},
			[]string{"accepted", "asked", "answered", "settled"}},
		{"the hand-over to the client", func(a store.Append) bool { return a.State == agent.TurnWaiting },
			llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}},
			[]string{"accepted", "asked", "answered", "settled"}},
		{"the start of a tool", func(a store.Append) bool { return has(a, agent.StepToolStarted) }, llmtest.Reply{Calls: change},
			[]string{"accepted", "asked", "answered", "settled"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hooks{append: once(tt.refuse, func(context.Context, store.Append) error { return errDisk })}
			r := newRig(t, withHooks(h), withModel(t, tt.reply, llmtest.Reply{Text: "Next."}))
			r.createWithTools("s1")
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
			if turn.State != agent.TurnFailed || turn.Fault == nil || turn.Fault.Kind != agent.KindInternal || strings.Contains(turn.Fault.Message, "disk") {
				t.Errorf("turn %s with fault %+v, want failed with a bare internal one", turn.State, turn.Fault)
			}
			if turn.Response != nil {
				t.Errorf("a failed turn has the answer %s", turn.Response)
			}
			kinds, events := r.journal(turn)
			if diff := cmp.Diff(kinds, tt.want); diff != "" {
				t.Errorf("journal: -got +want\n%s", diff)
			}
			if diff := cmp.Diff(followed, events); diff != "" {
				t.Errorf("followed live, against the journal: -got +want\n%s", diff)
			}
			if got := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t2", "And now?")})).PrimaryOutputText; got != "Next." {
				t.Errorf("the session's next turn answers %q", got)
			}
		})
	}
}

func TestStoreFails_WhileATurnOpens(t *testing.T) {
	fail := true
	h := &hooks{open: func(store.NewTurn) error {
		if fail {
			return errDisk
		}
		return nil
	}}
	// Whether the model was asked before the commit failed is a race, and either is right.
	now := llmtest.Reply{Text: "Now."}
	r := newRig(t, withHooks(h), withModel(t, now, now))
	key, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "t1", "Hello"))
	if !errors.Is(err, errDisk) || agent.KindOf(err) != agent.KindInternal {
		t.Fatalf("submit: %v", err)
	}
	if _, live := r.hub.Follow(key); live {
		t.Error("a turn that was not opened is live")
	}
	if _, err := r.pipeline.Await(t.Context(), key); agent.KindOf(err) != agent.KindNotFound {
		t.Errorf("await of a turn that was not opened: %v, want not_found", err)
	}
	fail = false
	if got := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})).PrimaryOutputText; got != "Now." {
		t.Errorf("answer %q", got)
	}
}

// watched is a context that tells when somebody begins to wait, for it among others.
type watched struct {
	context.Context
	waits chan struct{}
	once  sync.Once
}

func (w *watched) Done() <-chan struct{} {
	w.once.Do(func() { close(w.waits) })
	return w.Context.Done()
}

// When a turn's end cannot be written its client learns why, and the turn is taken up
// again once the store is back.
func TestStoreFails_UntilTheTurnIsTakenUpAgain(t *testing.T) {
	full := true
	h := &hooks{append: func(_ context.Context, a store.Append) error {
		if full && a.State.Terminal() {
			return agent.Errorf(agent.KindStorageFull, "The disk is full.").Because(errDisk)
		}
		return nil
	}}
	release := make(chan struct{})
	r := newRig(t, withHooks(h), withModel(t, llmtest.Reply{Text: "Lost.", Block: release}, llmtest.Reply{Text: "Kept."}),
		func(r *rig) { r.times.SweepEvery = time.Hour })
	key := r.submit(userTurn("s1", "t1", "Hello"))
	left := r.pipeline.Left(key)
	awaited, waits := make(chan error), make(chan struct{})
	go func() {
		_, err := r.pipeline.Await(&watched{Context: t.Context(), waits: waits}, key)
		awaited <- err
	}()
	<-waits
	close(release)
	if err := <-awaited; agent.KindOf(err) != agent.KindStorageFull {
		t.Errorf("await: %v, want storage_full", err)
	}
	<-left
	if _, err := r.pipeline.Await(t.Context(), key); agent.KindOf(err) != agent.KindDraining || strings.Contains(err.Error(), "stopping") {
		t.Errorf("await of a turn that nobody runs: %v, want draining, and not that the server stops", err)
	}
	last := ""
	var ended error
	for e, err := range r.pipeline.Follow(t.Context(), key, 0) {
		if ended = err; err == nil {
			last = string(e.Type)
		}
	}
	// The text was shown; what becomes of it the reader learns when the turn goes on.
	if last != "text.delta" || agent.KindOf(ended) != agent.KindDraining {
		t.Errorf("followed to %s and %v, want draining after text.delta", last, ended)
	}
	full = false
	r.restart()
	turn := r.await(key)
	if got := r.answer(turn).PrimaryOutputText; got != "Kept." {
		t.Errorf("answer %q", got)
	}
	r.journal(turn)
}

func TestResume_StoreFails(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	for _, tt := range []struct {
		name string
		fail func(h *hooks, fail func() error)
	}{
		{"reading the transcript", func(h *hooks, fail func() error) { h.transcript = fail }},
		{"writing that it goes on", func(h *hooks, fail func() error) {
			h.append = func(_ context.Context, a store.Append) error {
				if has(a, agent.StepResumed) {
					return fail()
				}
				return nil
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := &hooks{}
			r := newRig(t, withHooks(h), func(r *rig) { r.times.SweepEvery = time.Hour },
				withModel(t, llmtest.Reply{Text: "First."}, llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "Second."}))
			r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "One")})
			key := r.submit(userTurn("s1", "t2", "Two"))
			if err := r.provider.Await(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			r.drainAtOnce()
			failed := 0
			tt.fail(h, func() error { failed++; return fmt.Errorf("%w: %w", store.ErrState, errDisk) })
			r.restart()
			if failed != 1 {
				t.Fatalf("the store was asked %d times, want 1", failed)
			}
			if _, live := r.hub.Follow(key); live {
				t.Error("a turn that could not be resumed is live")
			}
			if turn, err := r.pipeline.Turn(t.Context(), key); err != nil || turn.State.Terminal() {
				t.Errorf("turn %s (%v), want it kept", turn.State, err)
			}
			h.append, h.transcript = nil, nil
			r.restart()
			turn := r.await(key)
			if got := r.answer(turn).PrimaryOutputText; got != "Second." {
				t.Errorf("answer %q", got)
			}
			r.journal(turn)
		})
	}
}

func TestResume_TurnThatCannotGoOn(t *testing.T) {
	t.Run("its context is no longer configured", func(t *testing.T) {
		never := make(chan struct{})
		defer close(never)
		r := newRig(t, withModel(t, llmtest.Reply{Text: "Never.", Block: never}))
		u := userTurn("s1", "t1", "Hello")
		u.ConversationContextID = "terse"
		key := r.submit(u)
		if err := r.provider.Await(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		r.drainAtOnce()
		r.lost = "terse"
		r.restart()
		turn := r.await(key)
		if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindUnknownContext {
			t.Errorf("turn %s with fault %+v, want failed with unknown_context", turn.State, turn.Fault)
		}
		r.journal(turn)
	})
	accepted := agent.Step{N: 1, Kind: agent.StepAccepted, FirstEvent: 1, Accepted: &agent.Accepted{}}
	answered := agent.Step{N: 2, Kind: agent.StepAnswered, FirstEvent: 2, Answered: &agent.Answered{Call: 1, ResponseID: "resp_1"}}
	asked := agent.Step{N: 2, Kind: agent.StepAsked, FirstEvent: 2, Asked: &agent.Asked{Call: 1, Mode: "general", Canonical: "{}",
		WireHead: `{"input":[`, NewItems: []json.RawMessage{json.RawMessage(`{}`)}, WireTail: "]}", WireSHA256: "of other bytes"}}
	for _, tt := range []struct {
		name     string
		steps    []agent.Step
		readable bool // its requests
	}{
		{"its journal is empty", nil, true},
		{"its journal has no request", []agent.Step{accepted}, true},
		{"its journal has an answer without a request", []agent.Step{accepted, answered}, false},
		{"its request is not what was journalled", []agent.Step{accepted, asked}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, withModel(t))
			s, err := r.sessions.Prepare(caller, contract.CreateSession{SessionID: "s1"})
			if err != nil {
				t.Fatal(err)
			}
			key := agent.TurnKey{Org: caller.Org, Session: "s1", Turn: "t1"}
			if err := r.store.OpenTurn(t.Context(), store.NewTurn{Session: &s, Steps: tt.steps, Turn: agent.Turn{
				Key: key, User: caller.User, Request: json.RawMessage(`{}`), Mode: "general", Tools: json.RawMessage(`[]`), Deadline: time.Now().Add(time.Hour),
			}}); err != nil {
				t.Fatal(err)
			}
			r.restart()
			turn := r.await(key)
			if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindInternal {
				t.Errorf("turn %s with fault %+v, want failed with internal", turn.State, turn.Fault)
			}
			r.journal(turn)
			if calls, err := r.pipeline.Requests(t.Context(), key); (err == nil) != tt.readable {
				t.Errorf("requests %+v (%v), want them readable: %t", calls, err, tt.readable)
			}
		})
	}
}

// panics is a model, or any part of the loop, with a fault of ours in it.
type panics struct{}

func (panics) Ask(context.Context, *llm.Wire, bool) iter.Seq2[llm.Event, error] {
	panic("secret detail")
}

func TestPanicFailsTheTurnAlone(t *testing.T) {
	var log logBuffer
	r := newRig(t, withLog(&log), withModel(t), func(r *rig) { r.model = panics{} })
	turn := r.run(pipeline.Execution{UserTurn: userTurn("s1", "t1", "Hello")})
	if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindInternal || strings.Contains(turn.Fault.Message, "secret") {
		t.Errorf("turn %s with fault %+v, want failed with a bare internal one", turn.State, turn.Fault)
	}
	if !strings.Contains(log.String(), "secret detail") {
		t.Errorf("the log does not have the panic:\n%s", log.String())
	}
}

// The catalogue of one mode with these server tools.
func toolCatalog(t *testing.T, names ...string) *mode.Catalog {
	t.Helper()
	c, err := mode.Load(fstest.MapFS{"general.yaml": {Data: fmt.Appendf(nil,
		"id: 3F8E4F377F7A4C189C7F6A8B9F945C11\nkey: general\ndisplayName: General\ndescription: d\nwhenToUse: w\nisDefault: true\ntools: [%s]\n", strings.Join(names, ", "))}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
