package pipeline

import (
	"fmt"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/reasoner"
)

// enter finds out what the turn owes to the mode that its session has entered. A session
// enters its first mode when it is made, and any other with the change; the tools of a mode
// come with the turn after that (AGN-011 §4.4), so its bootstrap tools run at the beginning
// of that turn, and again with the next one when one of them failed.
func (o *opened) enter(m mode.Mode, begins bool) {
	if begins {
		o.welcome = m.WelcomeMessage
	}
	if o.session.Entry == agent.EntryReady {
		return
	}
	for i, t := range m.BootstrapTools {
		o.entering = append(o.entering, agent.ToolCall{
			ID: agent.CallID(fmt.Sprintf("bootstrap_%d", i+1)), Name: t.Name, Arguments: string(t.Arguments)})
	}
}

// steps are the first of the turn's journal. A turn that enters its mode is without its
// request, which says what the bootstrap tools gave; what it is built from then is kept,
// unless the journal has it since the turn was queued.
func (o opened) steps(x Execution, queued bool) ([]agent.Step, error) {
	accepted := agent.Step{Kind: agent.StepAccepted, Accepted: o.accepted(x)}
	if len(o.entering) == 0 {
		return []agent.Step{accepted, o.first.Asked(1, o.turn.Request.Mode)}, nil
	}
	entering := &agent.Entering{Context: o.turn.RAGContextBlock, Calls: o.entering}
	if !queued {
		var err error
		if entering.Execution, err = x.kept(); err != nil {
			return nil, err
		}
	}
	return []agent.Step{accepted, {Kind: agent.StepEntering, Entering: entering}}, nil
}

// askedBefore puts what a turn that enters its mode was asked for into its first request,
// as the journal has it.
func askedBefore(t *reasoner.Turn, s agent.Session, steps []agent.Step) error {
	x, err := executionOf(steps)
	if err != nil {
		return err
	}
	x.into(t, s)
	for _, step := range steps {
		if step.Entering != nil {
			t.RAGContextBlock = step.Entering.Context
		}
	}
	return nil
}

// entryOf returns how far a journal says that its session has entered its mode, "" when it
// says nothing. A turn that ends in the midst of it leaves the entry to the next one.
func entryOf(steps []agent.Step) agent.ModeEntry {
	var entry agent.ModeEntry
	for _, s := range steps {
		switch {
		case s.Kind == agent.StepEntering:
			entry = agent.EntryRunning
		case s.Kind == agent.StepEntered && s.Entered.Ready:
			entry = agent.EntryReady
		case s.Kind == agent.StepEntered:
			entry = agent.EntryFailed
		case s.Kind == agent.StepSettled && entry == agent.EntryRunning:
			entry = agent.EntryPending
		}
	}
	return entry
}

// notReady tells the user that the mode is not what it should be.
func notReady(e agent.Entered) string {
	return fmt.Sprintf("Mode %q is not ready: a bootstrap tool failed (%s). The next turn tries again.", e.Mode, e.Problem)
}

// welcomeOf returns the message with which a turn began its session.
func welcomeOf(steps []agent.Step) string {
	for _, s := range steps {
		if s.Accepted != nil {
			return s.Accepted.Welcome
		}
	}
	return ""
}
