package pipeline_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/store"
)

// verify holds the scenario to what is true of every turn (the invariants of the
// journal).
func (sc *scenario) verify() {
	sc.t.Helper()
	ctx := sc.t.Context()
	for _, id := range sc.turns {
		key := agent.TurnKey{Org: caller.Org, Session: sc.session, Turn: id}
		turn, err := sc.store.Turn(ctx, key)
		if err != nil {
			sc.t.Fatal(err)
		}
		steps, err := sc.store.Steps(ctx, key)
		if err != nil {
			sc.t.Fatal(err)
		}
		checkJournal(sc.t, key, turn, steps)
		sc.verifyRequests(turn)
		var all []agent.Event
		for e, err := range sc.pipeline.Follow(ctx, key, 0) {
			if err != nil {
				sc.t.Fatal(err)
			}
			all = append(all, e)
		}
		for cut := range all { // resuming anywhere gives the rest, no gap, no repeat
			var rest []agent.Event
			for e, err := range sc.pipeline.Follow(ctx, key, int64(cut)) {
				if err != nil {
					sc.t.Fatal(err)
				}
				rest = append(rest, e)
			}
			if diff := cmp.Diff(rest, all[cut:]); diff != "" {
				sc.t.Errorf("turn %s followed after %d: -got +want\n%s", id, cut, diff)
			}
		}
	}
	if sc.session == "" {
		return
	}
	s, err := sc.store.Session(ctx, caller.Org, sc.session)
	if agent.KindOf(err) == agent.KindNotFound {
		return
	}
	history, _, err := sc.store.ModeHistory(ctx, caller.Org, sc.session, store.Page{})
	if err != nil {
		sc.t.Fatal(err)
	}
	for i, c := range history {
		if i > 0 && c.Previous != history[i-1].Mode {
			sc.t.Errorf("history row %d begins in %s, the row before ended in %s", i+1, c.Previous, history[i-1].Mode)
		}
	}
	if n := len(history); n > 0 && history[n-1].Mode != s.Mode {
		sc.t.Errorf("session is in %s, its newest history row says %s", s.Mode, history[n-1].Mode)
	}
}

// verifyRequests holds the turn's requests, read back after everything that came
// later, to their hashes, and what they cost to what the answer says.
func (sc *scenario) verifyRequests(turn agent.Turn) {
	sc.t.Helper()
	calls, err := sc.pipeline.Requests(sc.t.Context(), turn.Key)
	if err != nil {
		sc.t.Fatal(err)
	}
	var cost agent.Usage
	for i, c := range calls {
		if c.N != i+1 || c.At.IsZero() {
			sc.t.Errorf("turn %s: request %d is number %d of %s", turn.Key, i+1, c.N, c.At)
		}
		if c.Usage != nil {
			cost = cost.Add(*c.Usage)
		}
	}
	if turn.State != agent.TurnCompleted {
		return
	}
	var answer struct{ Usage agent.Usage }
	if err := json.Unmarshal(turn.Response, &answer); err != nil || answer.Usage != cost {
		sc.t.Errorf("turn %s: the answer cost %+v (%v), its requests %+v", turn.Key, answer.Usage, err, cost)
	}
}

// checkJournal checks the invariants of one turn's journal.
func checkJournal(t *testing.T, key agent.TurnKey, turn agent.Turn, steps []agent.Step) {
	t.Helper()
	if n := len(steps); n > 0 && turn.State.Terminal() != (steps[n-1].Kind == agent.StepSettled) {
		t.Errorf("turn %s is %s, its journal ends with %s", key, turn.State, steps[n-1].Kind)
	}
	next := int64(1)
	outputs := map[agent.CallID]int{}
	var calls []agent.ToolCall
	var cost agent.Usage
	for i, s := range steps {
		if s.N != i+1 {
			t.Errorf("turn %s: step %d has number %d", key, i+1, s.N)
		}
		events := s.Events(key)
		if s.FirstEvent != next {
			t.Errorf("turn %s: step %d begins at event %d, want %d", key, s.N, s.FirstEvent, next)
		}
		next += int64(len(events))
		if i > 0 && steps[i-1].Kind == agent.StepSettled {
			t.Errorf("turn %s: step %d, %s, follows the end", key, s.N, s.Kind)
		}
		if s.Kind == agent.StepContinued && steps[i-1].Kind != agent.StepWaiting {
			t.Errorf("turn %s: step %d continues a turn that does not wait but is at %s", key, s.N, steps[i-1].Kind)
		}
		switch s.Kind {
		case agent.StepAnswered:
			cost = cost.Add(s.Answered.Usage)
			for _, raw := range s.Answered.Items {
				var item struct {
					Type, Name, Arguments string
					CallID                agent.CallID `json:"call_id"`
				}
				if err := json.Unmarshal(raw, &item); err != nil {
					t.Errorf("turn %s: stored item: %v", key, err)
				}
				if item.Type == "function_call" {
					calls = append(calls, agent.ToolCall{ID: item.CallID, Name: item.Name})
				}
			}
		case agent.StepToolFinished:
			outputs[s.ToolFinished.Result.CallID]++
		case agent.StepContinued:
			for _, r := range s.Continued.Results {
				outputs[r.CallID]++
			}
		case agent.StepSettled:
			for _, r := range s.Settled.Abandoned {
				outputs[r.CallID]++
			}
		}
	}
	var response struct{ Usage agent.Usage }
	if turn.State == agent.TurnCompleted {
		if err := json.Unmarshal(turn.Response, &response); err != nil || response.Usage != cost {
			t.Errorf("turn %s: usage %+v (%v), the steps cost %+v", key, response.Usage, err, cost)
		}
	}
	for _, c := range calls {
		want := 1
		if !turn.State.Terminal() {
			want = outputs[c.ID] // still open
		}
		if outputs[c.ID] != want || outputs[c.ID] > 1 {
			t.Errorf("turn %s: call %s of %s has %d outputs", key, c.ID, c.Name, outputs[c.ID])
		}
	}
}
