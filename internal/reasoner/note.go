package reasoner

import (
	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/telemetry"
)

// note tells a model call what was heard of it.
func note(call *telemetry.ModelCall, ev llm.Event, err error) {
	switch {
	case err != nil:
		call.Failed(agent.KindOf(err))
	case ev.Response != nil:
		call.Answered(ev.Response.ID, ev.Response.Usage, ev.Response.Items)
	case ev.Delta != "":
		call.Delta()
	}
}

// noteResult counts the result of a call. The name of a tool that the turn does not have is
// the model's invention.
func (r *run) noteResult(res agent.ToolResult, sw *agent.ModeSwitch) {
	name := res.Name
	if !r.turn.Tools.IsServer(name) {
		name = ""
	}
	r.turn.Run.Tool(name, res.Code)
	if sw != nil {
		r.turn.Run.ModeChanged(*sw)
	}
}
