package reasoner

import (
	"encoding/json"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/tool"
)

// state is what the journal says of a turn. It is built by applying steps, both
// those read back and those just made, so there is one way to reach it.
type state struct {
	mode       agent.ModeKey // request.Mode, follows a change at once
	entry      entry
	asked      *agent.Asked // sent or to be sent, not answered yet
	modelCalls int          // the number of the last request
	answers    int          // the responses so far
	// room is what the model was seen to take of the transcript, in bytes; 0 when all.
	room       int
	responseID string
	// items are this turn's transcript: what was sent anew and what came back.
	items []json.RawMessage
	// calls and text are of the last response.
	calls   []agent.ToolCall
	text    string
	results map[agent.CallID]agent.ToolResult
	// met are the tools whose results the model has seen in this turn.
	met []string
	// started are the dispatched server calls that have no result.
	started       map[agent.CallID]bool
	seen          map[agent.CallID]bool
	consents      consents
	ledger        []agent.ToolResult
	modeSwitch    *agent.ModeSwitch
	modeCalls     int
	usage         agent.Usage
	producedBytes int
	refusals      refusals
}

func newState(mode agent.ModeKey) *state {
	return &state{mode: mode, results: map[agent.CallID]agent.ToolResult{}, started: map[agent.CallID]bool{}, seen: map[agent.CallID]bool{},
		consents: consents{decided: map[agent.CallID]agent.Decided{}}}
}

func (s *state) apply(step agent.Step) {
	switch step.Kind {
	case agent.StepAsked:
		if s.asked != nil { // the provider refused it, and this one stands in its place
			s.items = s.items[:len(s.items)-len(s.asked.NewItems)]
		}
		s.asked = step.Asked
		s.modelCalls = step.Asked.Call
		s.room = step.Asked.Room
		s.items = append(s.items, step.Asked.NewItems...)
	case agent.StepAnswered:
		a := step.Answered
		s.asked = nil
		for _, c := range s.calls {
			s.met = append(s.met, c.Name) // their results were in the request
		}
		s.answers++
		s.responseID = a.ResponseID
		s.refusals.answered(len(s.calls))
		s.items = append(s.items, a.Items...)
		said := llm.Read(a.Items)
		s.calls, s.text = said.Calls, said.Answer()
		for _, c := range s.calls {
			s.seen[c.ID] = true
		}
		s.usage = s.usage.Add(a.Usage)
		for _, item := range a.Items {
			s.producedBytes += len(item)
		}
	case agent.StepEntering:
		s.entry.calls = step.Entering.Calls
		for _, c := range step.Entering.Calls {
			s.seen[c.ID] = true // no call of the model may have its id
			s.met = append(s.met, c.Name)
		}
	case agent.StepEntered:
		s.entry.over = true
	case agent.StepAskedUser:
		s.consents.asked = append(s.consents.asked, *step.AskedUser)
	case agent.StepDecided:
		s.consents.decided[step.Decided.Call] = *step.Decided
	case agent.StepToolStarted:
		s.started[step.ToolStarted.ID] = true
		if step.ToolStarted.Name == tool.ChangeMode {
			s.modeCalls++
		}
	case agent.StepToolFinished:
		f := step.ToolFinished
		delete(s.started, f.Result.CallID)
		s.results[f.Result.CallID] = f.Result
		s.refusals.finished(f.Refused, len(s.calls))
		s.ledger = append(s.ledger, f.Result)
		if f.ModeSwitch != nil {
			s.mode, s.modeSwitch = f.ModeSwitch.Mode, f.ModeSwitch
		}
	case agent.StepContinued:
		for _, r := range step.Continued.Results {
			s.results[r.CallID] = r
		}
	}
}

// answered reports whether the model's last response is the end of the turn.
func (s *state) answered() bool { return s.answers > 0 && s.asked == nil && len(s.calls) == 0 }

// open returns the calls of the last response that have no result yet, in the
// model's order.
func (s *state) open() []agent.ToolCall {
	var out []agent.ToolCall
	for _, c := range s.calls {
		if _, done := s.results[c.ID]; !done {
			out = append(out, c)
		}
	}
	return out
}

// lastResults returns the results of the last response's calls in the model's own
// order, whoever ran them (decision 16).
func (s *state) lastResults() []agent.ToolResult {
	out := make([]agent.ToolResult, 0, len(s.calls))
	for _, c := range s.calls {
		out = append(out, s.results[c.ID])
	}
	return out
}

// Abandon returns an explicit result for each call that the journal leaves open,
// so that a turn that ends early has a valid transcript.
func Abandon(steps []agent.Step) []agent.ToolResult {
	s := newState("")
	for _, step := range steps {
		s.apply(step)
	}
	var out []agent.ToolResult
	for _, c := range s.open() {
		out = append(out, agent.ToolResult{CallID: c.ID, Name: c.Name, Code: agent.OutcomeCancelled,
			Err: "The turn ended before this call had a result."})
	}
	return out
}
