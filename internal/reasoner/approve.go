package reasoner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/tool"
)

// Approvals say which calls of a turn wait for a decision of the user.
type Approvals struct {
	// Rules are asked one after the other; the first that speaks of a tool counts, and
	// after all of them the tool's own definition.
	Rules []agent.ApprovalRules
	// Consent tells that changes of the mode wait too (decision 17). No rule speaks of them.
	Consent bool
	// Approved are the tools that the user approved for the rest of the session.
	Approved []string
	// Exposure says which tools must not come together without the user, whatever the
	// rules say and whatever he approved; Met are those whose results earlier turns have.
	Exposure agent.Exposure
	Met      []string
}

// consents are what the journal has of the user's decisions.
type consents struct {
	asked   []agent.Approval
	decided map[agent.CallID]agent.Decided
}

// remembered reports whether the user approved the tool for the session in this turn.
func (c consents) remembered(name string) bool {
	return slices.ContainsFunc(c.asked, func(a agent.Approval) bool {
		return a.Name == name && c.decided[a.Call].Remember
	})
}

// consent returns the decision that lets a call run, nil when none was asked for.
func (r *run) consent(call agent.CallID) *agent.Decided {
	if d, ok := r.consents.decided[call]; ok {
		return &d
	}
	return nil
}

// questions returns the approvals that open calls need, with all that the user must know
// to give them.
func (r *run) questions(open []agent.ToolCall) []agent.Approval {
	var out []agent.Approval
	for _, call := range open {
		if a, needed := r.question(call); needed {
			a.ID = agent.ApprovalID(fmt.Sprintf("apr_%d", len(r.consents.asked)+len(out)+1))
			out = append(out, a)
		}
	}
	return out
}

// question returns the approval that a call needs before it runs, if it needs one. A call
// that does not fit its tool is not worth a question: the model is told so (see granted).
func (r *run) question(call agent.ToolCall) (agent.Approval, bool) {
	t, known := r.registry.Get(call.Name)
	_, decided := r.consents.decided[call.ID]
	if !known || !r.turn.Tools.IsServer(call.Name) || decided || r.started[call.ID] || !tool.Fits(t.Definition(), call.Arguments) {
		return agent.Approval{}, false
	}
	if call.Name == tool.ChangeMode {
		return r.modeQuestion(call)
	}
	policy := r.policy(t.Definition())
	return agent.Approval{
		Call: call.ID, Name: call.Name, Arguments: call.Arguments,
		Options:     []agent.Decision{agent.DecisionApprove, agent.DecisionDeny},
		MayRemember: policy == agent.ApprovalAsk,
	}, policy != agent.ApprovalNever
}

// granted reports whether a call may run: nobody needs to be asked, or the user has said
// so. It is asked last before a tool runs, whatever was asked before: a tool need not check
// its arguments, and one that waits for its user must not run because they are wrong. The
// mode's own calls are the operator's. Changes of the mode have a gate of their own
// (session.Manager.SetSessionMode).
func (r *run) granted(call agent.ToolCall, d tool.Definition) bool {
	return call.Name == tool.ChangeMode || r.consent(call.ID) != nil || r.entry.has(call.ID) || r.policy(d) == agent.ApprovalNever
}

// policy returns what is asked before a call of a tool now: what the first rules say that
// speak of it, or what the tool says itself; nothing when the user approved the tool for the
// session. What is none of the policies asks, and so does what would carry out what the
// session has met.
func (r *run) policy(d tool.Definition) agent.ApprovalPolicy {
	policy := d.Approval
	for _, rules := range r.turn.Approvals.Rules {
		if said, ok := rules.Of(d.Name); ok {
			policy = said
			break
		}
	}
	switch {
	case r.turn.Approvals.Exposure.Asks(d.Name, r.turn.Approvals.Met, r.met):
		return agent.ApprovalAlwaysAsk
	case policy == "", policy == agent.ApprovalNever:
		return agent.ApprovalNever
	case policy == agent.ApprovalAsk && (slices.Contains(r.turn.Approvals.Approved, d.Name) || r.consents.remembered(d.Name)):
		return agent.ApprovalNever
	case policy == agent.ApprovalAsk:
		return agent.ApprovalAsk
	}
	return agent.ApprovalAlwaysAsk
}

// modeQuestion offers the three options of TUL-007 §4.1.
func (r *run) modeQuestion(call agent.ToolCall) (agent.Approval, bool) {
	var args modeArguments
	if !r.turn.Approvals.Consent || json.Unmarshal([]byte(call.Arguments), &args) != nil || strings.TrimSpace(args.Reason) == "" {
		return agent.Approval{}, false
	}
	if _, known := r.turn.Catalog.Get(args.Mode); !known || args.Mode == r.mode {
		return agent.Approval{}, false
	}
	return agent.Approval{
		Call: call.ID, Name: call.Name, Arguments: call.Arguments,
		Options:    []agent.Decision{agent.DecisionStay, agent.DecisionSwitch, agent.DecisionSwitchAndBranch},
		ModeChange: &agent.ModeSwitch{PreviousMode: r.mode, Mode: args.Mode, Branch: args.Branch, Reason: args.Reason},
	}, true
}

// modeArguments are those of agent_change_mode (TUL-007 §3.3).
type modeArguments struct {
	Mode   agent.ModeKey `json:"mode"`
	Branch bool          `json:"branch"`
	Reason string        `json:"reason"`
}

// consented returns a call as its user wants it: which of the two ways to switch is not
// the model's to choose.
func consented(call agent.ToolCall, d *agent.Decided) agent.ToolCall {
	var args modeArguments
	if d == nil || d.Decision != agent.DecisionSwitch && d.Decision != agent.DecisionSwitchAndBranch || json.Unmarshal([]byte(call.Arguments), &args) != nil {
		return call
	}
	args.Branch = d.Decision == agent.DecisionSwitchAndBranch
	if b, err := json.Marshal(args); err == nil {
		call.Arguments = string(b)
	}
	return call
}

// withheld is the result of a call that its user did not let run.
func (r *run) withheld(call agent.ToolCall, d agent.Decision) agent.ToolResult {
	switch d {
	case agent.DecisionExpired:
		return agent.ToolResult{Code: agent.OutcomeExpired,
			Err: fmt.Sprintf("The user did not decide in time whether %s may run, so it did not. Ask the user before you call it again.", call.Name)}
	case agent.DecisionStay:
		return agent.ToolResult{Code: agent.OutcomeDenied,
			Err: fmt.Sprintf("The user chose to stay in mode %q. Go on in it, and propose no other mode unless the user asks for one.", r.mode)}
	}
	return agent.ToolResult{Code: agent.OutcomeDenied,
		Err: fmt.Sprintf("The user did not allow this call of %s. Go on without it, or ask the user what to do instead.", call.Name)}
}
