package agent

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"time"
)

// ApprovalPolicy says whether a call of a tool waits for a decision of the user.
type ApprovalPolicy string

// The policies, from the laxest to the strictest.
const (
	// ApprovalNever lets a call run at once.
	ApprovalNever ApprovalPolicy = "never"
	// ApprovalAsk asks, until the user says that the tool is approved for the session.
	ApprovalAsk ApprovalPolicy = "ask"
	// ApprovalAlwaysAsk asks for every call.
	ApprovalAlwaysAsk ApprovalPolicy = "always-ask"
)

var approvalPolicies = []ApprovalPolicy{ApprovalNever, ApprovalAsk, ApprovalAlwaysAsk}

// ApprovalRules are policies by the name of a tool, or by a pattern of names as path.Match
// has them, such as github__*.
type ApprovalRules map[string]ApprovalPolicy

// Of returns the policy of a tool: that of its name, or else the strictest one of the
// patterns that match it. ok is false when nothing speaks of the tool.
func (r ApprovalRules) Of(name string) (policy ApprovalPolicy, ok bool) {
	if policy, ok = r[name]; ok {
		return policy, true
	}
	strictest := -1
	for pattern, p := range r {
		// A pattern that is none was refused when it was read.
		if matches, err := path.Match(pattern, name); err == nil && matches {
			strictest = max(strictest, slices.Index(approvalPolicies, p))
		}
	}
	if strictest < 0 {
		return "", false
	}
	return approvalPolicies[strictest], true
}

// Problems returns what is wrong with the rules, each with the rule that it is about.
func (r ApprovalRules) Problems() []string {
	var wrong []string
	for _, pattern := range slices.Sorted(maps.Keys(r)) {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" {
			wrong = append(wrong, fmt.Sprintf("%q is neither the name of a tool nor a pattern of names", pattern))
		}
		if !slices.Contains(approvalPolicies, r[pattern]) {
			wrong = append(wrong, fmt.Sprintf("%s: %q is unknown; want never, ask or always-ask", pattern, r[pattern]))
		}
	}
	return wrong
}

// ApprovalID names an approval within its turn.
type ApprovalID string

// Decision is what came of a question to the user.
type Decision string

// The decisions. A tool is approved or denied; of a change of the mode the user takes one
// of the three options of TUL-007 §4.1.
const (
	DecisionApprove         Decision = "approve"
	DecisionDeny            Decision = "deny"
	DecisionStay            Decision = "stay"
	DecisionSwitch          Decision = "switch"
	DecisionSwitchAndBranch Decision = "switch_and_branch"
	// DecisionExpired is nobody's: the deadline came first.
	DecisionExpired Decision = "expired"
)

// Allows reports whether the call may run.
func (d Decision) Allows() bool {
	return d == DecisionApprove || d == DecisionSwitch || d == DecisionSwitchAndBranch
}

// Approval is a tool call that waits for a decision of the user. Nothing that a model, a
// tool or a client's tool result says can be one.
type Approval struct {
	ID ApprovalID `json:"approvalId"`
	// Call, Name and Arguments are the call, as in ToolCall.
	Call      CallID `json:"toolCallId"`
	Name      string `json:"name"`
	Arguments string `json:"argumentsJson"`
	// Options are the decisions that the user has.
	Options []Decision `json:"options"`
	// MayRemember tells that the user may approve the tool for the whole session.
	MayRemember bool `json:"mayRemember,omitempty"`
	// ModeChange is what a call of agent_change_mode asks for; nil for any other tool.
	ModeChange *ModeSwitch `json:"modeChange,omitempty"`
	// Deadline is when the call counts as refused.
	Deadline time.Time `json:"deadline"`
}

// Verdict is a decision as a user gives it.
type Verdict struct {
	Decision Decision `json:"decision"`
	// Remember approves the tool for the rest of the session.
	Remember bool `json:"remember,omitempty"`
}

// Decided is the outcome of an approval.
type Decided struct {
	ID   ApprovalID `json:"approvalId"`
	Call CallID     `json:"toolCallId"`
	Verdict
	// User is who decided; empty when nobody did in time.
	User UserID `json:"decidedBy,omitempty"`
}
