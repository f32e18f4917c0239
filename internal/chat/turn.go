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

// deliver shows a stream, and goes on as long as the turn waits for tools.
func (c *chat) deliver(ctx context.Context, turn string, events follow) error {
	calls, err := c.show(ctx, turn, events)
	switch {
	case client.CodeOf(err) == client.CodeTurnInProgress:
		c.out.fail(err)
		return c.unfinished(ctx)
	case err != nil:
		c.out.fail(err)
		return ctx.Err()
	}
	return c.goOn(ctx, turn, calls)
}

// goOn runs the tools that a turn waits for and hands their results back, until it waits
// no more.
func (c *chat) goOn(ctx context.Context, turn string, calls []client.ToolCall) error {
	for len(calls) > 0 {
		results, err := c.runTools(ctx, calls)
		if errors.Is(err, ErrInterrupted) {
			c.abandon(ctx, turn)
			return nil
		}
		if err != nil {
			return err
		}
		done := client.ToolContinuation{SessionID: c.session, TurnID: turn, ToolResults: results}
		calls, err = c.show(ctx, turn, func(ctx context.Context) iter.Seq2[client.Event, error] {
			return c.Client.StreamContinue(ctx, done)
		})
		if err != nil {
			c.out.fail(err)
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// abandon cancels a turn that waits for this terminal.
func (c *chat) abandon(ctx context.Context, turn string) {
	if c.cancel(ctx, turn) {
		c.out.note("The turn was cancelled.")
	}
}

// show shows a stream to its end and returns the tool calls that the turn then waits
// for. Ctrl-C cancels the turn; a second one stops following it.
func (c *chat) show(ctx context.Context, turn string, events follow) (calls []client.ToolCall, err error) {
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
	for {
		select {
		case r, ok := <-received:
			switch {
			case !ok:
				return v.waiting, nil
			case r.err != nil:
				return nil, r.err
			}
			v.event(r.event)
		case <-c.Interrupts:
			if interrupts++; interrupts > 1 {
				c.out.note("No longer following the turn; it may go on without this terminal.")
				return nil, nil
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
	shown   bool              // text of the answer was shown
	waiting []client.ToolCall // of the last event, when that was turn.waiting
}

func (v *view) event(e client.Event) {
	v.waiting = nil
	switch e.Type {
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
	v.waiting = a.ToolCalls
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
	if m.Branch {
		v.out.note("  For the new session that was asked for: aptix chat%s --mode %s", v.at(), m.Mode)
	}
}
