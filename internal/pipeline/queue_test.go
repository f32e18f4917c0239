package pipeline_test

import (
	"context"
	"fmt"
	"strings"
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

func (r *rig) createWith(id agent.SessionID, c agent.Concurrency) {
	r.t.Helper()
	_, err := r.sessions.Create(r.t.Context(), caller, contract.CreateSession{SessionID: id, Concurrency: c,
		Tools: []byte(`[{"type":"function","name":"read_file","description":"Reads.","parameters":{"type":"object"}}]`)})
	if err != nil {
		r.t.Fatal(err)
	}
}

// types follows a turn to its end.
func (r *rig) types(ctx context.Context, key agent.TurnKey) (out []string) {
	for e, err := range r.pipeline.Follow(ctx, key, 0) {
		if err != nil {
			return append(out, err.Error())
		}
		out = append(out, string(e.Type))
	}
	return out
}

// Queued turns run one after the other, in the order in which they came, each with what
// the one before it has left: its answer and its mode.
func TestQueue_InOrderAndUpToDate(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "agent_change_mode",
		Arguments: `{"mode":"ddr_authoring","branch":false,"reason":"r"}`}}, Block: release},
		llmtest.Reply{Text: "First answer."}, llmtest.Reply{Text: "Second answer."}, llmtest.Reply{Text: "Third answer."}))
	r.createWith("s1", agent.ConcurrencyQueue)
	first := r.submit(userTurn("s1", "t1", "First"))
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	second, third := r.submit(userTurn("s1", "t2", "Second")), r.submit(userTurn("s1", "t3", "Third"))
	if again := r.submit(userTurn("s1", "t2", "Second")); again != second {
		t.Errorf("sent again it is %s", again)
	}
	if turn, err := r.pipeline.Turn(t.Context(), second); err != nil || turn.State != agent.TurnAccepted || !turn.Queued {
		t.Errorf("the second turn is %s, queued %v (%v)", turn.State, turn.Queued, err)
	}
	var followed []string
	var reader sync.WaitGroup
	reader.Go(func() { followed = r.types(t.Context(), third) })
	if n := len(r.provider.Requests()); n != 1 {
		t.Errorf("the model was asked %d times while the first turn ran", n)
	}
	close(release)
	for i, key := range []agent.TurnKey{first, second, third} {
		turn := r.await(key)
		if got, want := r.answer(turn).PrimaryOutputText, []string{"First answer.", "Second answer.", "Third answer."}[i]; got != want {
			t.Errorf("turn %s answers %q, want %q", key.Turn, got, want)
		}
		if want := []agent.ModeKey{"general", "ddr_authoring", "ddr_authoring"}[i]; turn.Mode != want {
			t.Errorf("turn %s ran in mode %s, want %s", key.Turn, turn.Mode, want)
		}
		r.journal(turn)
		if _, err := r.pipeline.Requests(t.Context(), key); err != nil {
			t.Error(err)
		}
	}
	if sent := string(r.provider.Requests()[3]); !strings.Contains(sent, "Second answer.") {
		t.Errorf("the third turn knows nothing of the second: %s", sent)
	}
	reader.Wait()
	if diff := cmp.Diff(followed, []string{"turn.queued", "turn.started", "model.request", "text.delta", "turn.completed"}); diff != "" {
		t.Errorf("the third turn, followed while it waited: -got +want\n%s", diff)
	}
}

// A queue outlives the process, and the turn that it waits for.
func TestQueue_SurvivesARestart(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Never.", Block: never}, llmtest.Reply{Text: "One."}, llmtest.Reply{Text: "Two."}))
	r.createWith("s1", agent.ConcurrencyQueue)
	first := r.submit(userTurn("s1", "t1", "First"))
	if err := r.provider.Await(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	second := r.submit(userTurn("s1", "t2", "Second"))
	r.drainAtOnce()
	if _, err := r.pipeline.Await(t.Context(), second); agent.KindOf(err) != agent.KindDraining {
		t.Errorf("await of a queued turn while the server stops: %v, want draining", err)
	}
	r.restart()
	if got := r.answer(r.await(first)).PrimaryOutputText; got != "One." {
		t.Errorf("the first turn answers %q", got)
	}
	turn := r.await(second)
	if got := r.answer(turn).PrimaryOutputText; got != "Two." {
		t.Errorf("the second turn answers %q", got)
	}
	r.journal(turn)
}

// A queue that stands still without anybody who would start it is found by the sweep.
func TestQueue_SweepStartsAnIdleQueue(t *testing.T) {
	h := &hooks{}
	release := make(chan struct{})
	r := newRig(t, withHooks(h), func(r *rig) { r.times.SweepEvery = 10 * time.Millisecond },
		withModel(t, llmtest.Reply{Text: "One.", Block: release}, llmtest.Reply{Text: "Two."}))
	r.createWith("s1", agent.ConcurrencyQueue)
	first := r.submit(userTurn("s1", "t1", "First"))
	second := r.submit(userTurn("s1", "t2", "Second"))
	h.append = once(func(a store.Append) bool { return a.Start != nil }, func(context.Context, store.Append) error { return errDisk })
	close(release)
	r.await(first)
	turn := r.await(second)
	if got := r.answer(turn).PrimaryOutputText; got != "Two." {
		t.Errorf("the second turn answers %q", got)
	}
	r.journal(turn)
}

// A turn that waits for its client holds the queue up; cancelled, answered or not, it
// lets it go. A queued turn can be cancelled and expires.
func TestQueue_BehindATurnThatWaits(t *testing.T) {
	r := newRig(t, withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}},
		llmtest.Reply{Text: "Read."}, llmtest.Reply{Text: "Last."}))
	r.createWith("s1", agent.ConcurrencyQueue)
	first := r.submit(userTurn("s1", "t1", "Read"))
	r.await(first)
	second, third := r.submit(userTurn("s1", "t2", "Never")), r.submit(userTurn("s1", "t3", "Last"))
	if err := r.pipeline.Cancel(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if turn := r.await(second); turn.State != agent.TurnCancelled {
		t.Errorf("the cancelled turn is %s", turn.State)
	}
	if turn, err := r.pipeline.Turn(t.Context(), third); err != nil || !turn.Queued {
		t.Errorf("the third turn is %s (%v), want it queued", turn.State, err)
	}
	if _, _, _, err := r.pipeline.Continue(t.Context(), caller, results("s1", "t1", "c1")); err != nil {
		t.Fatal(err)
	}
	if got := r.answer(r.await(third)).PrimaryOutputText; got != "Last." {
		t.Errorf("the third turn answers %q", got)
	}
	for _, key := range []agent.TurnKey{first, second, third} {
		turn := r.await(key)
		r.journal(turn)
	}
}

func TestQueue_EndsInTime(t *testing.T) {
	r := newRig(t, func(r *rig) { r.times.QueueTime, r.times.SweepEvery = time.Millisecond, 5*time.Millisecond },
		withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}))
	r.createWith("s1", agent.ConcurrencyQueue)
	r.await(r.submit(userTurn("s1", "t1", "Read")))
	turn := r.await(r.submit(userTurn("s1", "t2", "Late")))
	if turn.State != agent.TurnFailed || turn.Fault.Kind != agent.KindTurnExpired || !strings.Contains(turn.Fault.Message, "before it") {
		t.Errorf("turn %s: %+v", turn.State, turn.Fault)
	}
	r.journal(turn)
}

func TestQueue_IsBounded(t *testing.T) {
	r := newRig(t, func(r *rig) { r.times.QueueLength = 2 },
		withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}))
	r.createWith("s1", agent.ConcurrencyQueue)
	r.await(r.submit(userTurn("s1", "t1", "Read")))
	for i := range 2 {
		r.submit(userTurn("s1", fmt.Sprint("q", i), "Wait"))
	}
	if _, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", "q2", "Wait")); agent.KindOf(err) != agent.KindTurnInProgress {
		t.Errorf("a turn too many: %v, want turn_in_progress", err)
	}
	if _, _, err := r.pipeline.Execute(t.Context(), caller, pipeline.Execution{UserTurn: userTurn("s1", "q3", "Wait"), Follows: "resp_1"}); err == nil {
		t.Error("a turn that follows a certain answer was queued")
	}
}

// What a turn was asked with beyond its request waits with it.
func TestQueue_KeepsTheExecution(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, withModel(t, llmtest.Reply{Text: "One.", Block: release}, llmtest.Reply{Text: "Two."}))
	r.createWith("s1", agent.ConcurrencyQueue)
	r.submit(userTurn("s1", "t1", "First"))
	u := userTurn("s1", "t2", "Second")
	u.InputArtifacts = []agent.Artifact{{RelativePath: "a/b.txt", FileName: "b.txt", Contents: "the contents", Origin: "ide"}}
	own := "Only for this turn."
	x := pipeline.Execution{UserTurn: u, SystemPrompt: &own, Mode: "ddr_authoring",
		ClientTools: []byte(`[{"type":"function","name":"own_tool","description":"Own.","parameters":{"type":"object"},"strict":false}]`)}
	key, _, err := r.pipeline.Execute(t.Context(), caller, x)
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := r.pipeline.Execute(t.Context(), caller, x); again != key || err != nil {
		t.Errorf("sent again: %s, %v", again, err)
	}
	close(release)
	turn := r.await(key)
	sent := string(r.provider.Requests()[1])
	for _, want := range []string{"the contents", own, "own_tool"} {
		if !strings.Contains(sent, want) {
			t.Errorf("%q is not in the request %s", want, sent)
		}
	}
	if w := r.answer(turn).UserWarnings; len(w) != 1 || !strings.Contains(w[0], "ddr_authoring") {
		t.Errorf("warnings %q", w)
	}
	r.journal(turn)
}

// A turn that interrupts has the session to itself, whatever the other one was doing.
func TestInterrupt(t *testing.T) {
	never := make(chan struct{})
	defer close(never)
	for name, reply := range map[string]llmtest.Reply{
		"in a model call":       {Text: "Never.", Block: never},
		"in the middle of text": {Deltas: []string{"Ne", "ver"}, Block: never, BlockAfter: 5},
		"waiting":               {Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, withModel(t, reply, llmtest.Reply{Text: "Now."}, llmtest.Reply{Text: "Then."}))
			r.createWith("s1", agent.ConcurrencyInterrupt)
			yes := true
			u := userTurn("s1", "t1", "First")
			u.Stream = &yes
			first := r.submit(u)
			if err := r.provider.Await(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			if name == "waiting" {
				r.await(first)
			}
			second := r.submit(userTurn("s1", "t2", "Second"))
			turn := r.await(second)
			if got := r.answer(turn).PrimaryOutputText; got != "Now." {
				t.Errorf("answer %q", got)
			}
			old := r.await(first)
			if old.State != agent.TurnCancelled {
				t.Errorf("the interrupted turn is %s", old.State)
			}
			r.journal(old)
			r.journal(turn)
			if got := r.answer(r.run(pipeline.Execution{UserTurn: userTurn("s1", "t3", "Third")})).PrimaryOutputText; got != "Then." {
				t.Errorf("the next turn answers %q", got)
			}
		})
	}
}

// Many turns at once: each ends, none runs beside another, and with a queue none is lost.
func TestConcurrency_ManyAtOnce(t *testing.T) {
	for _, policy := range []agent.Concurrency{agent.ConcurrencyQueue, agent.ConcurrencyInterrupt, agent.ConcurrencyReject} {
		t.Run(string(policy), func(t *testing.T) {
			r := newRig(t, func(r *rig) { r.times.QueueLength = 100 }, withModel(t))
			r.provider.Otherwise(func([]byte) llmtest.Reply { return llmtest.Reply{Text: "Done."} })
			r.createWith("s1", policy)
			var mu sync.Mutex
			var keys []agent.TurnKey
			var senders sync.WaitGroup
			for i := range 12 {
				senders.Go(func() {
					key, _, err := r.pipeline.Submit(t.Context(), caller, userTurn("s1", fmt.Sprint("t", i), "Hello"))
					switch {
					case err == nil:
						mu.Lock()
						keys = append(keys, key)
						mu.Unlock()
					case policy == agent.ConcurrencyQueue || agent.KindOf(err) != agent.KindTurnInProgress:
						t.Error(err)
					}
				})
			}
			senders.Wait()
			completed := 0
			for _, key := range keys {
				turn := r.await(key)
				if turn.State == agent.TurnCompleted {
					completed++
				}
				r.journal(turn)
			}
			if completed == 0 || policy == agent.ConcurrencyQueue && completed != 12 {
				t.Errorf("%d of %d turns were completed", completed, len(keys))
			}
		})
	}
}

// Whoever follows a queued turn of a session that is erased is told.
func TestQueue_ErasedWithItsSession(t *testing.T) {
	r := newRig(t, func(r *rig) { r.times.SweepEvery = 5 * time.Millisecond },
		withModel(t, llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "read_file", Arguments: "{}"}}}))
	r.createWith("s1", agent.ConcurrencyQueue)
	r.await(r.submit(userTurn("s1", "t1", "Read")))
	key := r.submit(userTurn("s1", "t2", "Never"))
	var erase sync.Once
	var ended error
	for e, err := range r.pipeline.Follow(t.Context(), key, 0) {
		if ended = err; err == nil && e.Type == agent.EventTurnQueued {
			erase.Do(func() {
				if err := r.pipeline.Erase(t.Context(), caller, "s1"); err != nil {
					t.Error(err)
				}
			})
		}
	}
	if agent.KindOf(ended) != agent.KindNotFound {
		t.Errorf("followed to %v, want not_found", ended)
	}
	if _, err := r.pipeline.Await(t.Context(), key); agent.KindOf(err) != agent.KindNotFound {
		t.Errorf("await: %v, want not_found", err)
	}
}
