// Package invariants holds what is true of every turn, whatever happened to it. Tests
// of single turns and campaigns of crashes check the same.
package invariants

import (
	"encoding/json"
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
)

// Journal returns what is wrong with a turn and its journal: steps and events dense,
// one output for each call, the cost of the answer that of its steps, nothing after
// the end; what waits for the user is decided once, and what he did not allow did not run.
func Journal(turn agent.Turn, steps []agent.Step) (wrong []string) {
	errorf := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("turn %s: ", turn.Key)+fmt.Sprintf(format, args...))
	}
	if n := len(steps); n > 0 && turn.State.Terminal() != (steps[n-1].Kind == agent.StepSettled) {
		errorf("it is %s, its journal ends with %s", turn.State, steps[n-1].Kind)
	}
	next := int64(1)
	outputs := map[agent.CallID]int{}
	var calls []agent.ToolCall
	var cost agent.Usage
	asked := map[agent.CallID]*agent.Decided{} // nil until decided
	for i, s := range steps {
		if s.N != i+1 {
			errorf("step %d has number %d", i+1, s.N)
		}
		if s.FirstEvent != next {
			errorf("step %d begins at event %d, want %d", s.N, s.FirstEvent, next)
		}
		next += int64(len(s.Events(turn.Key)))
		if i > 0 && steps[i-1].Kind == agent.StepSettled {
			errorf("step %d, %s, follows the end", s.N, s.Kind)
		}
		if s.Kind == agent.StepContinued && (i == 0 || steps[i-1].Kind != agent.StepWaiting) {
			errorf("step %d continues a turn that does not wait", s.N)
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
					errorf("stored item: %v", err)
				}
				if item.Type == "function_call" {
					calls = append(calls, agent.ToolCall{ID: item.CallID, Name: item.Name})
				}
			}
		case agent.StepAskedUser:
			asked[s.AskedUser.Call] = nil
		case agent.StepDecided:
			if d, ok := asked[s.Decided.Call]; !ok || d != nil {
				errorf("step %d decides on call %s, which was decided before (%t), or never asked for", s.N, s.Decided.Call, ok)
			}
			asked[s.Decided.Call] = s.Decided
		case agent.StepToolFinished:
			outputs[s.ToolFinished.Result.CallID]++
			denied := s.ToolFinished.Result.Code == agent.OutcomeDenied || s.ToolFinished.Result.Code == agent.OutcomeExpired
			d, wasAsked := asked[s.ToolFinished.Result.CallID]
			if allowed := d != nil && d.Decision.Allows(); wasAsked && allowed == denied || !wasAsked && denied {
				errorf("call %s ended as %s; the decision on it is %+v", s.ToolFinished.Result.CallID, s.ToolFinished.Result.Code, d)
			}
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
	if turn.State == agent.TurnCompleted {
		var answer struct{ Usage agent.Usage }
		if err := json.Unmarshal(turn.Response, &answer); err != nil || answer.Usage != cost {
			errorf("its answer cost %+v (%v), its steps %+v", answer.Usage, err, cost)
		}
	}
	for _, c := range calls {
		if n := outputs[c.ID]; n > 1 || n == 0 && turn.State.Terminal() {
			errorf("call %s of %s has %d outputs", c.ID, c.Name, n)
		}
	}
	return wrong
}

// History returns what is wrong with a session's mode and its changes, oldest first.
func History(s agent.Session, changes []agent.ModeChange) (wrong []string) {
	for i, c := range changes {
		if i > 0 && c.Previous != changes[i-1].Mode {
			wrong = append(wrong, fmt.Sprintf("session %s: history row %d begins in %s, the row before ended in %s", s.ID, i+1, c.Previous, changes[i-1].Mode))
		}
	}
	if n := len(changes); n > 0 && changes[n-1].Mode != s.Mode {
		wrong = append(wrong, fmt.Sprintf("session %s is in %s, its newest history row says %s", s.ID, s.Mode, changes[n-1].Mode))
	}
	return wrong
}
