package reasoner

import (
	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/tool"
)

// maxFruitless is how many answers in a row may call nothing but tools that do not
// exist, with arguments that do not fit, or for files that the mode rules out. The model is told each time; one that does
// not learn from it would go on until its budget is used up.
const maxFruitless = 3

// refusals counts the calls that were refused before any tool ran.
type refusals struct {
	calls     int // of the last response
	fruitless int // responses in a row, up to the last, of which all calls were
}

// answered begins a new response; had is how many calls the one before it had.
func (f *refusals) answered(had int) {
	if f.calls < had {
		f.fruitless = 0
	}
	f.calls = 0
}

// finished takes the result of one of the of calls of the last response.
func (f *refusals) finished(refused bool, of int) {
	if !refused {
		return
	}
	if f.calls++; f.calls == of {
		f.fruitless++
	}
}

// refuses reports whether a failed call was no call at all: its tool is not one of the
// turn's, or what the model wrote does not fit the tool.
func (r *run) refuses(call agent.ToolCall, res agent.ToolResult) bool {
	if res.Code != agent.OutcomeError {
		return false
	}
	t, known := r.registry.Get(call.Name)
	return !known || !r.turn.Tools.IsServer(call.Name) || !tool.Fits(t.Definition(), call.Arguments)
}

// learns returns an error when the model has had its chances to correct its calls.
func (r *run) learns() error {
	if r.refusals.fruitless < maxFruitless {
		return nil
	}
	return agent.Errorf(agent.KindLimitReached,
		"The model called only tools that do not exist, or with arguments that do not fit them, %d times in a row. Send the turn again with a new turnId, or ask differently.", maxFruitless)
}

// few returns an error when one response calls more tools than it may.
func (r *run) few(calls []agent.ToolCall) error {
	if len(calls) <= r.limits.ToolCalls {
		return nil
	}
	return agent.Errorf(agent.KindLimitReached,
		"The model called %d tools at once, more than the %d that one answer may call. Ask for less at once, or raise limits.toolCalls.", len(calls), r.limits.ToolCalls)
}
