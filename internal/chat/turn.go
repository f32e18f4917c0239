package chat

import (
	"context"
	"errors"
	"iter"

	"github.com/aptixhq/aptix/client"
)

// turn sends a line and shows what becomes of it. Its error ends the conversation; what
// goes wrong within a turn is shown and does not.
func (c *chat) turn(ctx context.Context, text string) error {
	u := client.UserTurn{SessionID: c.session, TurnID: client.NewID(), Instruction: text}
	c.lastTurn = u.TurnID
	return c.deliver(ctx, u.TurnID, func(ctx context.Context) iter.Seq2[client.Event, error] {
		return c.Client.Stream(ctx, u)
	})
}

// follow makes a stream of events.
type follow func(ctx context.Context) iter.Seq2[client.Event, error]

// owed is what a turn waits for: results of tools of this machine, or decisions of the
// user.
type owed struct {
	calls     []client.ToolCall
	approvals []client.Approval
	after     int64 // the sequence of the last event
}

func (o owed) nothing() bool { return len(o.calls)+len(o.approvals) == 0 }

// deliver shows a stream, and goes on as long as the turn waits for tools or decisions.
func (c *chat) deliver(ctx context.Context, turn string, events follow) error {
	waits, err := c.show(ctx, turn, events)
	switch {
	case client.CodeOf(err) == client.CodeTurnInProgress:
		c.out.fail(err)
		return c.unfinished(ctx)
	case err != nil:
		c.out.fail(err)
		return ctx.Err()
	}
	return c.goOn(ctx, turn, waits)
}

// goOn gives a turn what it waits for, until it waits no more, and then offers the new
// session that it may have asked for.
func (c *chat) goOn(ctx context.Context, turn string, waits owed) error {
	for !waits.nothing() {
		next, err := c.give(ctx, turn, waits)
		switch {
		case errors.Is(err, ErrInterrupted):
			c.abandon(ctx, turn)
			return nil
		case errors.Is(err, errUndecided):
			c.out.note("The turn waits for the decision; aptix chat%s --session %s asks again.", c.at(), c.session)
			return nil
		case err != nil:
			return err
		}
		if waits, err = c.show(ctx, turn, next); err != nil {
			c.out.fail(err)
			return ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return c.offerBranch(ctx)
}

// give runs the tools that a turn waits for, or takes the user's decisions, and returns how
// the turn goes on.
func (c *chat) give(ctx context.Context, turn string, waits owed) (follow, error) {
	if len(waits.approvals) > 0 {
		err := c.decide(ctx, turn, waits.approvals)
		return func(ctx context.Context) iter.Seq2[client.Event, error] {
			return c.Client.Events(ctx, c.session, turn, waits.after)
		}, err
	}
	results, err := c.runTools(ctx, waits.calls)
	done := client.ToolContinuation{SessionID: c.session, TurnID: turn, ToolResults: results}
	return func(ctx context.Context) iter.Seq2[client.Event, error] { return c.Client.StreamContinue(ctx, done) }, err
}

// abandon cancels a turn that waits for this terminal.
func (c *chat) abandon(ctx context.Context, turn string) {
	if c.cancel(ctx, turn) {
		c.out.note("The turn was cancelled.")
	}
}

// show shows a stream to its end and returns what the turn then waits for. Ctrl-C cancels
// the turn; a second one stops following it.
func (c *chat) show(ctx context.Context, turn string, events follow) (waits owed, err error) {
	ctx, stop := context.WithCancel(ctx)
	received := pump(events(ctx))
	defer func() {
		stop()
		for range received { // returns when the goroutine behind it has
		}
		c.out.endText()
	}()

	v := view{chat: c}
	interrupts := 0
	wheel := c.wheel()
	defer wheel.stop()
	for {
		select {
		case <-wheel.ticks:
			wheel.turn()
		case r, ok := <-received:
			wheel.hide()
			switch {
			case !ok:
				return v.waits, nil
			case r.err != nil:
				return owed{}, r.err
			}
			v.event(r.event)
		case <-c.Interrupts:
			wheel.hide()
			if interrupts++; interrupts > 1 {
				c.out.note("No longer following the turn; it may go on without this terminal.")
				return owed{}, nil
			}
			c.out.note("Cancelling; Ctrl-C once more stops waiting for it.")
			c.cancel(ctx, turn)
		}
	}
}

// received is one step of a stream.
type received struct {
	event client.Event
	err   error
}

// pump runs a stream in a goroutine of its own, which ends when the stream does. The
// channel must be read until it is closed.
func pump(events iter.Seq2[client.Event, error]) <-chan received {
	out := make(chan received)
	go func() {
		defer close(out)
		for e, err := range events {
			out <- received{e, err}
		}
	}()
	return out
}

// view is one stream as it is shown.
type view struct {
	*chat
	shown bool // text of the answer was shown
	waits owed // of the last event, when that was turn.waiting
}

func (v *view) event(e client.Event) {
	v.waits = owed{after: e.Sequence}
	switch e.Type {
	case client.EventTurnStarted:
		v.welcome(e.WelcomeMessage)
	case client.EventTextDelta:
		v.shown = true
		v.out.text(e.Text)
	case client.EventToolStarted:
		v.out.note("· %s", e.Name)
	case client.EventToolFinished:
		if e.Outcome != "ok" {
			v.out.note("· %s: %s", e.Name, e.Outcome)
		}
	case client.EventModeChanged:
		if e.ModeChange != nil {
			v.changed(*e.ModeChange)
			v.welcome(e.WelcomeMessage)
		}
	case client.EventModeEntered:
		if e.Entry != nil && !e.Entry.Ready {
			v.out.note("» mode %s is not ready: %s", e.Entry.Mode, e.Entry.Problem)
		}
	case client.EventTurnResumed:
		if v.shown {
			v.out.note("The server was restarted and answers again.")
			v.shown = false
		}
	case client.EventTurnCompleted, client.EventTurnWaiting:
		if e.Response != nil {
			v.answer(*e.Response)
		}
	case client.EventTurnFailed:
		v.out.problem(e.Problem)
	case client.EventTurnCancelled:
		v.out.note("The turn was cancelled.")
	}
}

// answer takes over what an answer says. Its mode is the one that counts (AGN-011 §3.4).
func (v *view) answer(a client.Answer) {
	v.mode = a.Mode
	v.waits.calls, v.waits.approvals = a.ToolCalls, a.Approvals
	if !v.shown && a.PrimaryOutputText != "" {
		v.out.text(a.PrimaryOutputText)
	}
	for _, s := range a.Sources {
		v.out.note("Source: %s", s)
	}
	for _, w := range a.UserWarnings {
		v.out.note("Warning: %s", w)
	}
}

func (v *view) changed(m client.ModeChange) {
	v.mode = m.Mode
	v.out.note("» mode %s → %s: %s", m.PreviousMode, m.Mode, m.Reason)
	v.branches = m.Branch
}

// welcome shows the message of a mode that is entered.
func (c *chat) welcome(message string) {
	if message != "" {
		c.out.line("%s", message)
	}
}
