package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/contract"
	"github.com/aptixhq/aptix/internal/llm"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/reasoner"
	"github.com/aptixhq/aptix/internal/store"
)

// Approval is a call that waits for a decision of its user, or has waited.
type Approval struct {
	agent.Approval
	// Decided is nil until somebody has, At when that was.
	Decided *agent.Decided
	At      time.Time
}

// approvals are what a turn of the session asks its user, in the mode in which its tools
// were frozen: the mode has the first word, the configuration the second.
func (p *Pipeline) approvals(ctx context.Context, s agent.Session, t agent.Turn, catalog *mode.Catalog) (reasoner.Approvals, error) {
	m, ok := catalog.Get(t.Mode)
	if !ok {
		m = catalog.Default() // as the tools (decision 12)
	}
	met, err := p.met(ctx, s, t)
	return reasoner.Approvals{Rules: []agent.ApprovalRules{m.Approvals, p.ApprovalRules}, Consent: p.Consent, Approved: s.Approved,
		Exposure: p.Exposure, Met: met}, err
}

// met returns the tools whose results the conversation has from before a turn. They are
// read only where somebody asks for them.
func (p *Pipeline) met(ctx context.Context, s agent.Session, t agent.Turn) ([]string, error) {
	if p.Exposure.IsZero() {
		return nil, nil
	}
	earlier, err := p.transcript(ctx, s, t.Ordinal)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, c := range llm.Read(earlier.items).Calls {
		if !slices.Contains(names, c.Name) {
			names = append(names, c.Name)
		}
	}
	return names, nil
}

// approvalsOf returns the approvals of a journal in their order.
func approvalsOf(steps []agent.Step) []Approval {
	var out []Approval
	for _, s := range steps {
		switch s.Kind {
		case agent.StepAskedUser:
			out = append(out, Approval{Approval: *s.AskedUser})
		case agent.StepDecided:
			if i := slices.IndexFunc(out, func(a Approval) bool { return a.ID == s.Decided.ID }); i >= 0 {
				out[i].Decided, out[i].At = s.Decided, s.At
			}
		}
	}
	return out
}

// pending returns those without a decision.
func pending(all []Approval) []agent.Approval {
	var out []agent.Approval
	for _, a := range all {
		if a.Decided == nil {
			out = append(out, a.Approval)
		}
	}
	return out
}

// askUser leaves the turn waiting for its user.
func (p *Pipeline) askUser(ctx context.Context, answer contract.ClientToolContinuation, asked []agent.Approval, j *journal) error {
	until := p.Now().Add(p.Limits.ApprovalTime).UTC().Truncate(time.Second)
	steps := make([]agent.Step, len(asked))
	for i := range asked {
		asked[i].Deadline = until
		steps[i] = agent.Step{Kind: agent.StepAskedUser, AskedUser: &asked[i]}
	}
	answer.Approvals = asked
	response, err := encode(answer)
	if err != nil {
		return err
	}
	return j.wait(ctx, agent.Delivery{Response: response}, until, steps...)
}

// Approvals returns what the turn waits for its user to decide, in the model's order; none
// when it does not.
func (p *Pipeline) Approvals(ctx context.Context, key agent.TurnKey) ([]agent.Approval, error) {
	t, err := p.Store.Turn(ctx, key)
	if err != nil || t.State != agent.TurnWaiting {
		return nil, err
	}
	steps, err := p.Store.Steps(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("read journal of turn %s: %w", key, err)
	}
	return pending(approvalsOf(steps)), nil
}

// Decide takes the decision of a user on a call that waits for it. With the last one the
// turn goes on. The same decision again is answered as the first time; another one is
// agent.KindApprovalDecided. An approval that there is not is agent.KindNotFound, one of a
// turn that has ended agent.KindTurnNotWaiting.
//
// This is the only way to a decision (decision 17), and by is who the credential says: no
// request to execute, and nothing that a model or a tool writes, leads here.
func (p *Pipeline) Decide(ctx context.Context, by agent.Caller, key agent.TurnKey, id agent.ApprovalID, v agent.Verdict) (Approval, error) {
	unlock := p.sessionLocks.lock(key.Org, key.Session)
	defer unlock()
	for range maxOvertaken {
		decided, err := p.decide(ctx, by, key, id, v)
		if !p.node.overtaken(err) { // else another node has taken a decision just now
			return decided, err
		}
	}
	return Approval{}, fmt.Errorf("decide on %s of turn %s: it does not stand still", id, key)
}

func (p *Pipeline) decide(ctx context.Context, by agent.Caller, key agent.TurnKey, id agent.ApprovalID, v agent.Verdict) (Approval, error) {
	t, err := p.Store.Turn(ctx, key)
	if err != nil {
		return Approval{}, err
	}
	steps, err := p.Store.Steps(ctx, key)
	if err != nil {
		return Approval{}, fmt.Errorf("read journal of turn %s: %w", key, err)
	}
	all := approvalsOf(steps)
	i := slices.IndexFunc(all, func(a Approval) bool { return a.ID == id })
	switch {
	case i < 0:
		return Approval{}, agent.Errorf(agent.KindNotFound, "Turn %q has no approval %q.", key.Turn, id)
	case all[i].Decided != nil:
		return all[i], all[i].settledAs(v)
	}
	a := &all[i]
	if err := a.takes(v); err != nil {
		return Approval{}, err
	}
	if t.State != agent.TurnWaiting {
		return Approval{}, agent.Errorf(agent.KindTurnNotWaiting, "Turn %q is %s and waits for no decision.", key.Turn, t.State)
	}
	if p.isDraining() {
		return Approval{}, errDraining()
	}
	if !a.Deadline.After(p.Now()) {
		if err := p.expireApprovals(ctx, t, steps); err != nil {
			return Approval{}, err
		}
		return Approval{}, errTooLate(*a)
	}
	a.Decided = &agent.Decided{ID: id, Call: a.Call, Verdict: v, User: by.User}
	return *a, p.take(ctx, t, steps, a, pending(all))
}

// take journals a decision; left are those that are still to come.
func (p *Pipeline) take(ctx context.Context, t agent.Turn, steps []agent.Step, a *Approval, left []agent.Approval) error {
	s, err := p.Store.Session(ctx, t.Key.Org, t.Key.Session)
	if err != nil {
		return err
	}
	var approved []string
	if a.Decided.Remember && !slices.Contains(s.Approved, a.Name) {
		approved = append(slices.Clone(s.Approved), a.Name)
	}
	decided := agent.Step{Kind: agent.StepDecided, Decided: a.Decided}
	if len(left) == 0 {
		_, err := p.wake(ctx, agent.Caller{Org: t.Key.Org, User: t.User}, s, t, steps, func(j *journal, deadline time.Time) error {
			err := j.decide(ctx, deadline, approved, decided)
			a.At = j.decidedAt()
			return err
		})
		return err
	}
	response, err := encode(contract.ClientToolContinuation{
		SessionID: t.Key.Session, TurnID: t.Key.Turn, Mode: s.Mode, ModeDisplayName: displayName(p.Catalog.Current(), s.Mode),
		ModeChange: lastSwitch(steps), WelcomeMessage: welcomeOf(steps), Approvals: left,
	})
	if err != nil {
		return err
	}
	j := newJournal(p, store.Claim{Key: t.Key, Epoch: t.Epoch}, steps)
	if err := j.waitOn(ctx, decided, agent.Delivery{Response: response}, approved); err != nil {
		return err
	}
	a.At = j.decidedAt()
	// The log of the delivery before may still be found, and knows nothing of this one.
	p.Hub.Forget(t.Key)
	p.tell(t.Key)
	return nil
}

// lastSwitch returns the last change of the mode in a journal.
func lastSwitch(steps []agent.Step) *agent.ModeSwitch {
	for _, s := range slices.Backward(steps) {
		if s.ToolFinished != nil && s.ToolFinished.ModeSwitch != nil {
			return s.ToolFinished.ModeSwitch
		}
	}
	return nil
}

// expireApprovals goes on with a turn whose user did not decide in time. The caller holds
// the session's lock.
func (p *Pipeline) expireApprovals(ctx context.Context, t agent.Turn, steps []agent.Step) error {
	if p.isDraining() {
		return nil // after the restart
	}
	s, err := p.Store.Session(ctx, t.Key.Org, t.Key.Session)
	if err != nil {
		return err
	}
	var expired []agent.Step
	for _, a := range pending(approvalsOf(steps)) {
		expired = append(expired, agent.Step{Kind: agent.StepDecided, Decided: &agent.Decided{
			ID: a.ID, Call: a.Call, Verdict: agent.Verdict{Decision: agent.DecisionExpired}}})
	}
	_, err = p.wake(ctx, agent.Caller{Org: t.Key.Org, User: t.User}, s, t, steps, func(j *journal, deadline time.Time) error {
		return j.decide(ctx, deadline, nil, expired...)
	})
	return err
}

// takes refuses a decision that the approval does not offer.
func (a Approval) takes(v agent.Verdict) error {
	if !slices.Contains(a.Options, v.Decision) {
		options := make([]string, len(a.Options))
		for i, o := range a.Options {
			options[i] = string(o)
		}
		return agent.Errorf(agent.KindInvalidRequest, "%q is no decision on this call of %s. Choose one of: %s.", v.Decision, a.Name, strings.Join(options, ", "))
	}
	switch {
	case v.Remember && v.Decision != agent.DecisionApprove:
		return agent.Errorf(agent.KindInvalidRequest, "Only decision approve can be remembered for the session.")
	case v.Remember && !a.MayRemember:
		return agent.Errorf(agent.KindInvalidRequest, "Each call of %s must be approved by itself; leave remember out.", a.Name)
	}
	return nil
}

// settledAs returns nil when the decision was this one, and else says that it was another.
func (a Approval) settledAs(v agent.Verdict) error {
	switch a.Decided.Verdict {
	case v:
		return nil
	case agent.Verdict{Decision: agent.DecisionExpired}:
		return errTooLate(a)
	}
	return agent.Errorf(agent.KindApprovalDecided, "%s decided %q on %s already.", a.Decided.User, a.Decided.Decision, a.ID)
}

func errTooLate(a Approval) error {
	return agent.Errorf(agent.KindApprovalDecided, "Nobody decided on %s before %s, so the call of %s did not run.", a.ID, a.Deadline.Format(time.RFC3339), a.Name)
}
