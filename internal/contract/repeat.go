package contract

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
)

// DifferingResults returns where a continuation differs from the results that were
// taken for the same calls, as pointers with the call: the place of a result that moved
// and the members that say something else. ok is false when it answers other calls.
func DifferingResults(taken []agent.ToolResult, c ToolContinuation) (where []string, ok bool) {
	if len(taken) != len(c.ToolResults) {
		return nil, false
	}
	places := map[agent.CallID]int{}
	for i, r := range taken {
		places[r.CallID] = i
	}
	for i, r := range c.ToolResults {
		place, known := places[r.ToolCallID]
		if !known {
			return nil, false
		}
		delete(places, r.ToolCallID) // each call is answered once
		at := func(member string) {
			where = append(where, fmt.Sprintf("/toolResults/%d/%s (%s)", i, member, r.ToolCallID))
		}
		was := taken[place]
		if place != i {
			at("toolCallId")
		}
		if was.Ms != r.ExecutionMs {
			at("executionMs")
		}
		failed := was.Code == agent.OutcomeError
		if failed == (r.ErrorMessage == nil) || failed && was.Err != *r.ErrorMessage {
			at("errorMessage")
		}
		if failed != (r.ResultJSON == nil) || !failed && was.Result != *r.ResultJSON {
			at("resultJson")
		}
	}
	return where, true
}
