package pipeline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/events"
	"github.com/aptixhq/aptix/internal/llm/llmtest"
	"github.com/aptixhq/aptix/internal/pipeline"
	"github.com/aptixhq/aptix/internal/store"
	"github.com/aptixhq/aptix/internal/tool"
)

// counted is a tool that counts its runs.
func counted(t *testing.T, name string, runs *atomic.Int64) tool.Tool {
	t.Helper()
	x, err := tool.New(tool.Definition{Name: name, Description: "d", Usage: "u", Approval: agent.ApprovalAsk},
		func(context.Context, *tool.ExecutionContext, struct{}) (string, error) {
			return fmt.Sprintf(`{"run":%d}`, runs.Add(1)), nil
		})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// asks is a rig whose tool "act" waits for its user, as the tool itself says.
func asks(t *testing.T, runs *atomic.Int64, more ...func(*rig)) *rig {
	t.Helper()
	act := counted(t, "act", runs)
	call := llmtest.Reply{Calls: []llmtest.Call{{ID: "c1", Name: "act", Arguments: "{}"}}}
	return newRig(t, append([]func(*rig){withModel(t, call, llmtest.Reply{Text: "Over."}, llmtest.Reply{Text: "Next."}),
		func(r *rig) { r.extra, r.catalog = []tool.Tool{act}, toolCatalog(t, "act") }}, more...)...)
}

func (r *rig) decide(key agent.TurnKey, d agent.Decision) (pipeline.Approval, error) {
	return r.pipeline.Decide(r.t.Context(), caller, key, "apr_1", agent.Verdict{Decision: d})
}

// later moves the rig's clock.
func later(r *rig) (move func(time.Duration)) {
	var offset atomic.Int64
	r.now = func() time.Time { return time.Now().Add(time.Duration(offset.Load())) }
	return func(d time.Duration) { offset.Store(int64(d)) }
}

// Nobody decides in time: the call does not run, the model is told so, and the turn ends
// as any other. A decision that comes too late changes nothing, whoever notices it first.
func TestApproval_Expires(t *testing.T) {
	for name, sweeps := range map[string]bool{"in a sweep": true, "with a decision that is late": false} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			var move func(time.Duration)
			r := asks(t, &runs, func(r *rig) {
				move = later(r)
				r.times.ApprovalTime, r.times.SweepEvery = time.Minute, time.Hour
				if sweeps {
					r.times.SweepEvery = 10 * time.Millisecond
				}
			})
			key := r.submit(userTurn("s1", "t1", "Act"))
			if turn := r.await(key); turn.State != agent.TurnWaiting {
				t.Fatalf("turn %s, want waiting", turn.State)
			}
			move(59 * time.Second)
			if pending, err := r.pipeline.Approvals(t.Context(), key); err != nil || len(pending) != 1 {
				t.Fatalf("pending %v, error %v", pending, err)
			}
			move(61 * time.Second)
			if sweeps {
				if err := r.provider.Await(t.Context(), 2); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.decide(key, agent.DecisionApprove); agent.KindOf(err) != agent.KindApprovalDecided {
				t.Errorf("a late decision: %v", err)
			}
			turn := r.await(key)
			a := r.answer(turn)
			if a.PrimaryOutputText != "Over." || runs.Load() != 0 {
				t.Errorf("answer %q, the tool ran %d times", a.PrimaryOutputText, runs.Load())
			}
			if got := string(r.provider.Requests()[1]); !strings.Contains(got, "did not decide in time") {
				t.Errorf("the model is told %s", got)
			}
			r.journal(turn)
		})
	}
}

// A decision whose commit fails has not been made, and one whose commit came through
// counts though nobody was told: the same decision again says so, and the tool runs once.
func TestApproval_CommitFails(t *testing.T) {
	for name, written := range map[string]bool{"not written": false, "written": true} {
		t.Run(name, func(t *testing.T) {
			var runs atomic.Int64
			h := &hooks{}
			r := asks(t, &runs, withHooks(h), func(r *rig) { r.times.SweepEvery = 20 * time.Millisecond })
			decides := func(a store.Append) bool { return has(a, agent.StepDecided) }
			h.append = once(decides, func(ctx context.Context, a store.Append) error {
				if written {
					if err := r.store.AppendSteps(ctx, a); err != nil {
						return err
					}
				}
				return errors.New("the connection broke")
			})
			key := r.submit(userTurn("s1", "t1", "Act"))
			r.await(key)
			if _, err := r.decide(key, agent.DecisionApprove); err == nil {
				t.Fatal("the decision that was not acknowledged has no error")
			}
			if pending, err := r.pipeline.Approvals(t.Context(), key); err != nil || (len(pending) == 0) != written {
				t.Errorf("pending %v, error %v", pending, err)
			}
			if a, err := r.decide(key, agent.DecisionApprove); err != nil || a.Decided.User != caller.User || a.At.IsZero() {
				t.Errorf("the same decision again: %+v, error %v", a, err)
			}
			if err := r.provider.Await(t.Context(), 2); err != nil {
				t.Fatal(err)
			}
			turn := r.await(key)
			r.answer(turn)
			r.journal(turn)
			if runs.Load() != 1 {
				t.Errorf("the tool ran %d times, want 1", runs.Load())
			}
		})
	}
}

func TestApproval_WithOtherTurnsOfTheSession(t *testing.T) {
	for policy, want := range map[agent.Concurrency]struct {
		decision error
		runs     int64
		first    agent.TurnState
		next     string
	}{
		agent.ConcurrencyQueue:     {nil, 1, agent.TurnCompleted, "Next."},
		agent.ConcurrencyInterrupt: {agent.Errorf(agent.KindTurnNotWaiting, ""), 0, agent.TurnCancelled, "Over."},
	} {
		t.Run(string(policy), func(t *testing.T) {
			var runs atomic.Int64
			r := asks(t, &runs)
			r.createWith("s1", policy)
			first := r.submit(userTurn("s1", "t1", "Act"))
			r.await(first)
			second := r.submit(userTurn("s1", "t2", "Next"))
			_, err := r.decide(first, agent.DecisionApprove)
			if (err == nil) != (want.decision == nil) || err != nil && agent.KindOf(err) != agent.KindOf(want.decision) {
				t.Errorf("decision: %v, want %v", err, want.decision)
			}
			if turn := r.await(first); turn.State != want.first {
				t.Errorf("the first turn is %s, want %s", turn.State, want.first)
			}
			if got := r.answer(r.await(second)).PrimaryOutputText; got != want.next {
				t.Errorf("the second turn answers %q, want %q", got, want.next)
			}
			if runs.Load() != want.runs {
				t.Errorf("the tool ran %d times, want %d", runs.Load(), want.runs)
			}
		})
	}
}

// A second reader of the stream, at the door that knows no decisions, waits for them.
func TestReaderThrough_WaitsForTheDecision(t *testing.T) {
	var runs atomic.Int64
	r := asks(t, &runs)
	key := r.submit(userTurn("s1", "t1", "Act"))
	r.await(key)
	through := r.pipeline.ReaderThrough(key, 0)
	var seen []string
	decided := false
	for seen == nil || seen[len(seen)-1] != string(agent.EventTurnCompleted) {
		ready, again, err := through.Next(t.Context())
		if err != nil {
			t.Fatalf("after %v: %v", seen, err)
		}
		for _, e := range ready {
			seen = append(seen, string(e.Type))
		}
		if again == nil || len(ready) > 0 {
			continue
		}
		if !decided {
			decided = true
			if _, err := r.decide(key, agent.DecisionApprove); err != nil {
				t.Fatal(err)
			}
		}
		select {
		case <-again:
		case <-time.After(20 * time.Second):
			t.Fatalf("the reader was not woken; it has seen %v", seen)
		}
	}
	if !strings.Contains(strings.Join(seen, " "), "turn.waiting approval.decided") {
		t.Errorf("it has seen %v", seen)
	}
}

// The mode stays while its bootstrap tools run, wherever the process dies in them.
func TestEnter_ModeStaysAndTheProcessMayDie(t *testing.T) {
	var runs, slowRuns atomic.Int64
	started := make(chan struct{})
	slow, err := tool.New(tool.Definition{Name: "slow", Description: "d", Usage: "u", Idempotent: true},
		func(ctx context.Context, _ *tool.ExecutionContext, _ struct{}) (string, error) {
			if slowRuns.Add(1) == 1 {
				close(started)
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "{}", nil
		})
	if err != nil {
		t.Fatal(err)
	}
	act := counted(t, "act", &runs)
	modes := map[string][]byte{
		"general.yaml": []byte("id: 3F8E4F377F7A4C189C7F6A8B9F945C11\nkey: general\ndisplayName: General\ndescription: d\nwhenToUse: w\nisDefault: true\n" +
			"tools: [act, slow]\nbootstrapTools: [{name: act}, {name: slow}]\n"),
		"other.yaml": []byte("id: A9E1F9C15A0C4F8D9AF51F3E8B2A6D22\nkey: other\ndisplayName: Other\ndescription: d\nwhenToUse: w\n"),
	}
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Ready."}), withCatalog(modes), func(r *rig) { r.extra = []tool.Tool{act, slow} })
	u := userTurn("s1", "t1", "Begin")
	u.InputArtifacts = []agent.Artifact{{RelativePath: "a.txt", FileName: "a.txt", Contents: "the file that came along", Origin: "user"}}
	key := r.submit(u)
	<-started
	change := agent.ModeChange{Org: caller.Org, Session: "s1", Mode: "other", Reason: "r", User: caller.User, Actor: agent.ActorUser}
	if _, err := r.sessions.SetSessionMode(t.Context(), change); agent.KindOf(err) != agent.KindTurnInProgress {
		t.Errorf("a change while the mode is entered: %v", err)
	}
	r.drainAtOnce()
	r.restart()
	turn := r.await(key)
	if got := r.answer(turn).PrimaryOutputText; got != "Ready." || runs.Load() != 1 || slowRuns.Load() != 2 {
		t.Errorf("answer %q; the tools ran %d and %d times, want 1 and 2", got, runs.Load(), slowRuns.Load())
	}
	r.journal(turn)
	sent := string(r.provider.Requests()[0])
	for _, want := range []string{"Begin", "[MODE_ENTRY]", "the file that came along"} {
		if !strings.Contains(sent, want) {
			t.Errorf("the model was not sent %q: %s", want, sent)
		}
	}
	if _, err := r.sessions.SetSessionMode(t.Context(), change); err != nil {
		t.Errorf("a change after it: %v", err)
	}
}

// A turn that ends while its mode is entered leaves the entry to the next one.
func TestEnter_CancelledInTheMidstOfIt(t *testing.T) {
	started := make(chan struct{}, 2)
	var runs atomic.Int64
	slow, err := tool.New(tool.Definition{Name: "slow", Description: "d", Usage: "u"},
		func(ctx context.Context, _ *tool.ExecutionContext, _ struct{}) (string, error) {
			started <- struct{}{}
			if runs.Add(1) == 1 {
				<-ctx.Done()
				return "", ctx.Err()
			}
			return "{}", nil
		})
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string][]byte{"general.yaml": []byte("id: 3F8E4F377F7A4C189C7F6A8B9F945C11\nkey: general\ndisplayName: General\ndescription: d\nwhenToUse: w\nisDefault: true\n" +
		"tools: [slow]\nbootstrapTools: [{name: slow, arguments: {}}]\n")}
	r := newRig(t, withModel(t, llmtest.Reply{Text: "Ready."}), withCatalog(modes), func(r *rig) { r.extra = []tool.Tool{slow} })
	key := r.submit(userTurn("s1", "t1", "Begin"))
	<-started
	if err := r.pipeline.Cancel(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	// Else nobody could change the mode until somebody has sent another turn.
	if s, err := r.store.Session(t.Context(), caller.Org, "s1"); err != nil || s.Entry != agent.EntryPending {
		t.Errorf("after the cancel the entry is %s, error %v", s.Entry, err)
	}
	if turn := r.await(r.submit(userTurn("s1", "t2", "Again"))); r.answer(turn).PrimaryOutputText != "Ready." {
		t.Errorf("the next turn says %s", turn.Response)
	}
	s, err := r.store.Session(t.Context(), caller.Org, "s1")
	if err != nil || s.Entry != agent.EntryReady {
		t.Errorf("the entry is %s, error %v", s.Entry, err)
	}
}

// What a contract says of decisions has no place in a request to execute.
// It holds row S-19 of docs/security.md.
func TestContract_NoDecisionInAnExecuteRequest(t *testing.T) {
	for _, member := range []string{`"approvals":[{"approvalId":"apr_1","decision":"approve"}]`, `"decision":"approve"`, `"approvalId":"apr_1"`} {
		for _, body := range []string{
			`{"sessionId":"s1","turnId":"t1","instruction":"x",` + member + `}`,
			`{"sessionId":"s1","turnId":"t1","toolResults":[{"toolCallId":"c1","executionMs":1,"resultJson":"{}"}],` + member + `}`,
		} {
			if _, err := contract.DecodeExecute([]byte(body), contract.Limits{}); agent.KindOf(err) != agent.KindInvalidRequest || !json.Valid([]byte(body)) {
				t.Errorf("%s: %v", body, err)
			}
		}
	}
}

// A turn that waits for its user goes on where he decides, once, also when the same
// decision comes in at two nodes; a reader that waits for it at a third one is told.
func TestNodes_DecidedElsewhere(t *testing.T) {
	t.Parallel()
	var runs atomic.Int64
	act := counted(t, "act", &runs)
	all := nodes(t, 3, []llmtest.Reply{{Calls: []llmtest.Call{{ID: "c1", Name: "act", Arguments: "{}"}, {ID: "c2", Name: "act", Arguments: "{}"}}}, {Text: "Over."}},
		func(r *rig) { r.extra, r.catalog = []tool.Tool{act}, toolCatalog(t, "act") })
	key := all[0].submit(streamed("s1", "t1", "Act"))
	if turn := all[1].await(key); turn.State != agent.TurnWaiting {
		t.Fatalf("turn %s, want waiting", turn.State)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	seen := make(chan []string, 1)
	go func() {
		var types []string
		for e, err := range events.All(ctx, all[0].pipeline.ReaderThrough(key, 0)) {
			if err != nil {
				types = append(types, err.Error())
				break
			}
			types = append(types, string(e.Type))
		}
		seen <- types
	}()
	var work sync.WaitGroup
	for _, r := range all[1:] {
		for _, id := range []agent.ApprovalID{"apr_1", "apr_2"} {
			work.Go(func() {
				a, err := r.pipeline.Decide(ctx, caller, key, id, agent.Verdict{Decision: agent.DecisionApprove, Remember: true})
				if err != nil || a.Decided.User != caller.User {
					t.Errorf("decide on %s: %+v, %v", id, a, err)
				}
			})
		}
	}
	work.Wait()
	turn := all[0].await(key)
	if got := all[0].answer(turn).PrimaryOutputText; got != "Over." || runs.Load() != 2 {
		t.Errorf("answer %q, the tool ran %d times, want 2", got, runs.Load())
	}
	all[0].journal(turn)
	if types := <-seen; types[len(types)-1] != string(agent.EventTurnCompleted) {
		t.Errorf("the reader has seen %v", types)
	}
	s, err := all[2].store.Session(t.Context(), caller.Org, "s1")
	if err != nil || len(s.Approved) != 1 {
		t.Errorf("approved for the session: %v, %v", s.Approved, err)
	}
}
