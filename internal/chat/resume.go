package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/aptixhq/aptix/client"
)

// resume takes up a session: its tools become the ones of this terminal, and a turn that
// is not finished is offered.
func (c *chat) resume(ctx context.Context) error {
	s, err := c.Client.SetTools(ctx, c.Session, c.tools())
	if err != nil {
		return err
	}
	c.session, c.mode = s.SessionID, s.Mode
	c.out.note("Session %s at %s, %s so far. The assistant may read files in %s.", c.session, c.Client.URL(), turns(s.Turns), c.Tools.Dir())
	return c.unfinished(ctx)
}

func turns(n int64) string {
	if n == 1 {
		return "1 turn"
	}
	return fmt.Sprintf("%d turns", n)
}

// unfinished goes on with the turn of the session that is not over, if there is one.
func (c *chat) unfinished(ctx context.Context) error {
	t, err := c.Client.ActiveTurn(ctx, c.session)
	if err != nil {
		c.out.fail(err)
		return nil
	}
	if t == nil {
		return nil
	}
	c.lastTurn = t.TurnID
	c.out.note("The last turn of this session is not finished (%s). It says:", t.State)
	waits, err := c.show(ctx, t.TurnID, func(ctx context.Context) iter.Seq2[client.Event, error] {
		return c.Client.Events(ctx, c.session, t.TurnID, 0)
	})
	if err != nil {
		c.out.fail(err)
		return ctx.Err()
	}
	if waits.nothing() {
		return nil
	}
	if len(waits.approvals) > 0 {
		return c.goOn(ctx, t.TurnID, waits)
	}
	names := make([]string, len(waits.calls))
	for i, call := range waits.calls {
		names[i] = call.Name
	}
	c.out.line("It waits for the results of: %s.", strings.Join(names, ", "))
	yes, err := c.ask(ctx, "Go on with it? (no cancels it)", true)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, ErrInterrupted):
		return nil // nobody decided, so it goes on waiting
	case err != nil:
		return err
	case !yes:
		c.abandon(ctx, t.TurnID)
		return nil
	}
	return c.goOn(ctx, t.TurnID, waits)
}
