package reasoner

import (
	"context"
	"fmt"
	"slices"

	"github.com/aptixhq/aptix/internal/agent"
)

// entry is how far the turn has entered its mode.
type entry struct {
	calls []agent.ToolCall // the bootstrap tools
	over  bool
}

// has reports whether a call is one of the mode's own.
func (e entry) has(id agent.CallID) bool {
	return slices.ContainsFunc(e.calls, func(c agent.ToolCall) bool { return c.ID == id })
}

// enters reports whether bootstrap tools are still to run.
func (s *state) enters() bool { return len(s.entry.calls) > 0 && !s.entry.over }

// entered are the results of the bootstrap tools.
func (s *state) entered() []agent.ToolResult {
	var out []agent.ToolResult
	for _, c := range s.entry.calls {
		if res, done := s.results[c.ID]; done {
			out = append(out, res)
		}
	}
	return out
}

// enter runs the bootstrap tools of the mode, one after the other, until one fails. They
// are journalled as every tool call is, and end with the turn's deadline. The model is
// told what they gave; a mode of which one failed is kept, and is not ready.
func (r *run) enter(ctx context.Context) error {
	end := agent.Entered{Mode: r.turn.Request.Mode, Ready: true}
	for _, call := range r.entry.calls {
		if _, done := r.results[call.ID]; !done {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := r.runServerTool(ctx, call); err != nil {
				return err
			}
		}
		if res := r.results[call.ID]; res.Code != agent.OutcomeOK {
			end.Ready, end.Problem = false, fmt.Sprintf("%s: %s", call.Name, res.Err)
			r.log.WarnContext(ctx, "a bootstrap tool of the mode failed", "turn", r.turn.Key.String(), "mode", end.Mode, "tool", call.Name, "error", res.Err)
			break
		}
	}
	return r.record(ctx, agent.Step{Kind: agent.StepEntered, Entered: &end})
}
