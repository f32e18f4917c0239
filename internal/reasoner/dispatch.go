package reasoner

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/failpoint"
	"github.com/aptixhq/aptix/internal/tool"
)

// dispatch runs the open server calls in call order and returns the client's. A
// tool that fails, and a tool that does not exist, give a result that the model
// sees; neither ends the turn (decision 15).
//
// The first call that waits for the user holds back all behind it, so that the order stays
// the model's. What is then returned are the questions about all of them, asked at once.
func (r *run) dispatch(ctx context.Context, open []agent.ToolCall) (asked []agent.Approval, client []agent.ToolCall, err error) {
	for i, call := range open {
		// A call that was started here stays here, also when the server has since lost
		// or changed the tool and its schema reads like a client's.
		if r.turn.Tools.IsClient(call.Name) && !r.started[call.ID] {
			if why := r.refusal(call); why != "" {
				r.hold(agent.Step{Kind: agent.StepToolStarted, ToolStarted: &call}) // nothing is dispatched
				r.finish(call, agent.ToolResult{Code: agent.OutcomeError, Err: why}, nil)
				continue
			}
			client = append(client, call)
			continue
		}
		if ctx.Err() != nil {
			return nil, nil, context.Cause(ctx)
		}
		if _, needed := r.question(call); needed {
			return r.questions(open[i:]), nil, nil
		}
		if err := r.runServerTool(ctx, call); err != nil {
			return nil, nil, err
		}
	}
	return nil, client, nil
}

// refusal says why a call must not go to the client: the mode with which the turn's tools
// were frozen bounds the files that its calls may name (D77). It is empty when it may.
func (r *run) refusal(call agent.ToolCall) string {
	m, ok := r.turn.Catalog.Get(r.turn.Request.Mode)
	if !ok {
		m = r.turn.Catalog.Default() // as the tools (decision 12)
	}
	return m.ClientTools.Refusal(call.Name, call.Arguments)
}

// runServerTool journals the dispatch, runs the tool and holds the result.
func (r *run) runServerTool(ctx context.Context, call agent.ToolCall) error {
	t, known := r.registry.Get(call.Name)
	// The frozen set decides, not the registry: a tool of another mode is as
	// unknown as one that never existed (AGN-011 §4.4).
	known = known && r.turn.Tools.IsServer(call.Name)

	consent := r.consent(call.ID)
	if consent != nil && !consent.Decision.Allows() {
		if !r.started[call.ID] {
			r.hold(agent.Step{Kind: agent.StepToolStarted, ToolStarted: &call}) // nothing is dispatched
		}
		r.finish(call, r.withheld(call, consent.Decision), nil)
		return nil
	}
	// A dispatched call without a result means that a process died, or was stopped,
	// while the tool ran. Only a tool that says it is idempotent runs again.
	if r.started[call.ID] && (!known || !t.Definition().Idempotent) {
		r.finish(call, agent.ToolResult{Code: agent.OutcomeUnknown,
			Err: "The outcome of this call is unknown: the server stopped while the tool ran. Check before you repeat it."}, nil)
		return nil
	}
	granted := known && r.granted(call, t.Definition())
	if start := (agent.Step{Kind: agent.StepToolStarted, ToolStarted: &call}); !granted {
		r.hold(start) // nothing is dispatched
	} else if !r.started[call.ID] {
		if err := r.record(ctx, start); err != nil {
			return err
		}
	}
	switch {
	case !known:
		r.log.WarnContext(ctx, "model called a tool that this turn does not have", "turn", r.turn.Key.String(), "tool", call.Name)
		r.finish(call, agent.ToolResult{Code: agent.OutcomeError,
			Err: fmt.Sprintf("There is no tool %q in this turn. Use one of: %s.", call.Name, strings.Join(r.toolNames(), ", "))}, nil)
		return nil
	case !granted:
		r.finish(call, agent.ToolResult{Code: agent.OutcomeError,
			Err: fmt.Sprintf("%s was not called: the arguments do not fit the tool, so the user was not asked for approval. Correct them and call again.", call.Name)}, nil)
		return nil
	}
	began := r.now()
	failpoint.Hit(failpoint.BeforeTool)
	res := r.execute(ctx, t, consented(call, consent))
	failpoint.Hit(failpoint.AfterTool)
	if ctx.Err() != nil && res.Code != agent.OutcomeOK {
		// The tool was broken off together with the turn. What it says of that is
		// not its result; a success is one, and happened.
		return context.Cause(ctx)
	}
	res.Ms = r.now().Sub(began).Milliseconds()
	if call.Name != tool.ChangeMode {
		r.finish(call, res, nil)
		return nil
	}
	sw, err := r.modeChange(ctx, call.ID, res)
	if err != nil {
		return err
	}
	r.finish(call, res, sw)
	return nil
}

func (r *run) finish(call agent.ToolCall, res agent.ToolResult, sw *agent.ModeSwitch) {
	failpoint.Hit(failpoint.BeforeResult)
	defer failpoint.Hit(failpoint.AfterResult)
	res.CallID, res.Name, res.By = call.ID, call.Name, agent.ByServer
	r.noteResult(res, sw)
	r.hold(agent.Step{Kind: agent.StepToolFinished, ToolFinished: &agent.ToolFinished{Result: res, ModeSwitch: sw, Refused: r.refuses(call, res)}})
}

// modeChange reads a successful result of agent_change_mode and verifies that the
// session holds the mode it names; the tool has written it, the loop does not write
// again (AGN-011 §5.2, decision 11). It returns nil when the mode is the one the
// request is in already and the history has no entry of the call. With several changes in a turn the last successful one
// wins, which the order of the calls gives by itself.
func (r *run) modeChange(ctx context.Context, call agent.CallID, res agent.ToolResult) (*agent.ModeSwitch, error) {
	if r.modeCalls > 1 {
		r.log.WarnContext(ctx, "the model changed the mode several times in one turn; the last successful change wins",
			"turn", r.turn.Key.String(), "calls", r.modeCalls)
	}
	if res.Code != agent.OutcomeOK {
		return nil, nil
	}
	var payload struct {
		Mode   agent.ModeKey `json:"mode"`
		Branch bool          `json:"branch"`
		Reason string        `json:"reason"`
	}
	if err := json.Unmarshal([]byte(res.Result), &payload); err != nil {
		return nil, fmt.Errorf("read result of %s in turn %s: %w", tool.ChangeMode, r.turn.Key, err)
	}
	// The change has happened and is taken down, also when the turn was broken off
	// just now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.limits.ToolTime)
	defer cancel()
	s, err := r.sessions.Session(ctx, r.turn.Key.Org, r.turn.Key.Session)
	if err != nil {
		return nil, fmt.Errorf("verify mode of session %s: %w", r.turn.Key.Session, err)
	}
	if s.Mode != payload.Mode {
		// The user may have switched by hand in this very moment; the session's
		// mode is the authority, and a change it does not hold is not announced.
		r.log.WarnContext(ctx, "the session does not hold the mode that the tool reports", "session", s.ID, "reported", payload.Mode, "mode", s.Mode)
		return nil, nil
	}
	change, made, err := r.sessions.ModeChangeOf(ctx, r.turn.Key, call)
	if err != nil {
		return nil, fmt.Errorf("read mode change of call %s in turn %s: %w", call, r.turn.Key, err)
	}
	sw := &agent.ModeSwitch{PreviousMode: r.mode, Mode: payload.Mode, Branch: payload.Branch, Reason: payload.Reason}
	switch {
	case made: // the user may have switched by hand since the turn began
		sw.PreviousMode = change.Previous
		if m, ok := r.turn.Catalog.Get(payload.Mode); ok {
			sw.WelcomeMessage = m.WelcomeMessage // the call has entered it, nobody before
		}
	case payload.Mode == r.mode:
		return nil, nil
	}
	return sw, nil
}

func (r *run) toolNames() []string {
	var out []string
	for _, raw := range r.turn.Tools.Schemas {
		var s struct {
			Name string `json:"name"`
		}
		if json.Unmarshal(raw, &s) == nil {
			out = append(out, s.Name)
		}
	}
	return out
}
