package contract

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
)

// ruleMatch is the rule that results match the calls in identity and order.
const ruleMatch = "AGN034-5-e"

// MatchResults puts a continuation beside the calls that its turn handed out, and
// returns the results in the order of the calls. Anything but one result for each call,
// in their order, refuses the whole submission: the error is KindToolResultsMismatch
// and lists every mismatch (AGN-034 §5, decision 9).
func MatchResults(calls []agent.ToolCall, c ToolContinuation) ([]agent.ToolResult, error) {
	if v := mismatches(calls, c.ToolResults); len(v.list) > 0 {
		err := agent.Errorf(agent.KindToolResultsMismatch, "The tool results do not match the calls of the turn. Nothing was applied and the turn still waits: send one result for each entry of toolCalls, in that order.")
		err.Violations = v.list
		return nil, err
	}
	out := make([]agent.ToolResult, len(calls))
	for i, r := range c.ToolResults {
		out[i] = agent.ToolResult{CallID: calls[i].ID, Name: calls[i].Name, Ms: r.ExecutionMs, By: agent.ByClient}
		if r.ErrorMessage != nil {
			out[i].Code, out[i].Err = agent.OutcomeError, *r.ErrorMessage
			continue
		}
		out[i].Code = agent.OutcomeOK
		if r.ResultJSON != nil {
			out[i].Result = *r.ResultJSON
		}
	}
	return out, nil
}

func mismatches(calls []agent.ToolCall, results []ToolResult) *violations {
	v := &violations{}
	if len(results) != len(calls) {
		v.add("/toolResults", ruleMatch, "The turn waits for %d results, and %d came.", len(calls), len(results))
	}
	belongs := map[agent.CallID]int{}
	for i, call := range calls {
		belongs[call.ID] = i
	}
	came := map[agent.CallID]int{}
	for i, r := range results {
		at := fmt.Sprintf("/toolResults/%d/toolCallId", i)
		earlier, twice := came[r.ToolCallID]
		place, known := belongs[r.ToolCallID]
		switch {
		case i < len(calls) && calls[i].ID == r.ToolCallID && !twice:
		case !known:
			v.add(at, ruleMatch, "%s is not a call that this turn waits for.", quote(string(r.ToolCallID)))
		case twice:
			v.add(at, ruleMatch, "%s was answered by /toolResults/%d already.", quote(string(r.ToolCallID)), earlier)
		default:
			v.add(at, ruleMatch, "%s is out of order; its result belongs at /toolResults/%d.", quote(string(r.ToolCallID)), place)
		}
		if !twice {
			came[r.ToolCallID] = i
		}
	}
	for i, call := range calls {
		if _, ok := came[call.ID]; !ok {
			v.add("/toolResults", ruleMatch, "No result came for %s (%s), which belongs at /toolResults/%d.", quote(string(call.ID)), call.Name, i)
		}
	}
	return v
}
