package chat

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/terminal"
)

// errUndecided tells that nobody was there to decide. The turn waits on.
var errUndecided = errors.New("nobody decided")

// choice is a key with which the user decides.
type choice struct {
	key     string
	verdict client.Verdict
	help    string
}

// choices are what an approval offers. None of them is the usual one: a decision is made
// with its key or not at all.
func choices(a client.Approval) []choice {
	all := []choice{
		{"a", client.Verdict{Decision: client.DecisionApprove}, "approve"},
		{"d", client.Verdict{Decision: client.DecisionDeny}, "deny"},
		{"1", client.Verdict{Decision: client.DecisionStay}, "stay"},
		{"2", client.Verdict{Decision: client.DecisionSwitch}, "switch"},
		{"3", client.Verdict{Decision: client.DecisionSwitchAndBranch}, "switch and start a new session"},
	}
	if a.MayRemember {
		all = append(all, choice{"s", client.Verdict{Decision: client.DecisionApprove, Remember: true}, "approve for this session"})
	}
	return slices.DeleteFunc(all, func(c choice) bool { return !slices.Contains(a.Options, c.verdict.Decision) })
}

// decide asks the user about each call that waits for him and sends what he decides.
func (c *chat) decide(ctx context.Context, turn string, approvals []client.Approval) error {
	for _, a := range approvals {
		verdict, err := c.verdict(ctx, a)
		if err != nil {
			return err
		}
		_, err = c.Client.Decide(ctx, c.session, turn, a.ApprovalID, verdict)
		switch client.CodeOf(err) {
		case client.CodeApprovalDecided, client.CodeTurnNotWaiting: // at another terminal, or too late
			c.out.fail(err)
		default:
			if err != nil {
				c.out.fail(err)
				return errUndecided
			}
		}
	}
	return nil
}

// verdict shows exactly what waits and reads the decision.
func (c *chat) verdict(ctx context.Context, a client.Approval) (client.Verdict, error) {
	if m := a.ModeChange; m != nil {
		c.out.line("The assistant wants to change the mode from %s to %s:", terminal.Visible(m.PreviousMode), terminal.Visible(m.Mode))
		c.out.quote(m.Reason)
	} else {
		c.out.line("The assistant wants the server to run %s:", terminal.Visible(a.Name))
		c.out.quote(a.ArgumentsJSON)
	}
	offered := choices(a)
	question := ""
	for _, o := range offered {
		question += "[" + o.key + "] " + o.help + "  "
	}
	for range 3 {
		key, err := c.answer(ctx, question+"> ")
		if errors.Is(err, io.EOF) {
			return client.Verdict{}, errUndecided
		}
		if err != nil {
			return client.Verdict{}, err
		}
		if i := slices.IndexFunc(offered, func(o choice) bool { return o.key == key }); i >= 0 {
			return offered[i].verdict, nil
		}
	}
	return client.Verdict{}, errUndecided
}
