package prompt

import (
	"cmp"
	"encoding/json"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/fence"
)

// ToolResultsHeader opens the block of tool results (AGN-003 §5.3).
const ToolResultsHeader = "[TOOL_RESULTS]"

// BuildFromToolResultsJSON turns the JSON array of the previous call's tool results
// into text that a person can read (AGN-003 §5.3). It returns "" when there are none
// and when raw does not parse (decision 24). How long a tool took is left out: it
// differs from run to run.
func BuildFromToolResultsJSON(raw string) string {
	var results []*agent.ToolResult
	if err := json.Unmarshal([]byte(raw), &results); err != nil {
		return ""
	}
	var b strings.Builder
	for _, r := range results {
		if r == nil {
			continue
		}
		writeResult(&b, *r)
	}
	if b.Len() == 0 {
		return ""
	}
	return ToolResultsHeader + "\n" + valid(b.String())
}

// modeEntryHeader opens the block of what a mode's bootstrap tools gave.
const modeEntryHeader = "[MODE_ENTRY]"

// ModeEntryBlock shows the results of the tools that ran when the session entered its
// mode. It returns "" when there are none.
func ModeEntryBlock(results []agent.ToolResult) string {
	if len(results) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString(modeEntryHeader + "\nThe server ran these tools when the session entered the mode.\n")
	for _, r := range results {
		writeResult(&b, r)
	}
	return valid(b.String())
}

func writeResult(b *strings.Builder, r agent.ToolResult) {
	outcome := agent.OutcomeOK
	if r.Err != "" {
		outcome = agent.OutcomeError
	}
	b.WriteByte('\n')
	fence.Field(b, "tool", r.Name)
	fence.Field(b, "call", string(r.CallID))
	fence.Field(b, "outcome", string(cmp.Or(r.Code, outcome)))
	switch {
	case r.Err != "":
		b.WriteString("error:\n")
		fence.Text(b, "", r.Err)
	case r.Result != "":
		b.WriteString("result:\n")
		fence.Text(b, "", r.Result)
	default:
		b.WriteString("result: empty\n")
	}
}
