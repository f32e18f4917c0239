package client

import (
	"context"
	"net/http"
	"time"
)

// Decision is what a user decides about a call that waits for him.
type Decision string

// The decisions. An Approval names those that it takes.
const (
	DecisionApprove         Decision = "approve"
	DecisionDeny            Decision = "deny"
	DecisionStay            Decision = "stay"
	DecisionSwitch          Decision = "switch"
	DecisionSwitchAndBranch Decision = "switch_and_branch"
	// DecisionExpired is nobody's: the deadline came first.
	DecisionExpired Decision = "expired"
)

// Approval is a call of a server tool that waits for a decision of the user.
type Approval struct {
	ApprovalID string `json:"approvalId"`
	ToolCallID string `json:"toolCallId"`
	Name       string `json:"name"`
	// ArgumentsJSON is as the model wrote it.
	ArgumentsJSON string     `json:"argumentsJson"`
	Options       []Decision `json:"options"`
	// MayRemember tells that the tool may be approved for the whole session.
	MayRemember bool `json:"mayRemember,omitempty"`
	// ModeChange is what the call asks for, when it is one of agent_change_mode.
	ModeChange *ModeChange `json:"modeChange,omitempty"`
	// Deadline is when the call counts as refused.
	Deadline time.Time `json:"deadline"`
}

// Verdict is a decision as it is sent.
type Verdict struct {
	Decision Decision `json:"decision"`
	// Remember approves the tool for the rest of the session.
	Remember bool `json:"remember,omitempty"`
}

// Decided is an approval with its decision.
type Decided struct {
	Approval
	Verdict
	DecidedBy string    `json:"decidedBy"`
	DecidedAt time.Time `json:"decidedAt"`
}

// Approvals returns what a turn waits for its user to decide, in the model's order.
func (c *Client) Approvals(ctx context.Context, sessionID, turnID string) ([]Approval, error) {
	return all[Approval](ctx, c, at("v1", "sessions", sessionID, "turns", turnID, "approvals"))
}

// Decide decides. With the last decision the turn goes on: follow it with Events, or send
// it again. The same decision again is answered alike, another one is a *Problem of code
// CodeApprovalDecided.
func (c *Client) Decide(ctx context.Context, sessionID, turnID, approvalID string, v Verdict) (*Decided, error) {
	var out Decided
	err := c.call(ctx, request{method: http.MethodPost, body: v, repeat: true,
		path: at("v1", "sessions", sessionID, "turns", turnID, "approvals", approvalID)}, &out)
	return orNil(&out, err)
}
