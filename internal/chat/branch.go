package chat

import (
	"context"
	"errors"
	"io"

	"github.com/aptixhq/aptix/client"
)

// branchCommand goes on in a new session that remembers this one.
func (c *chat) branchCommand(ctx context.Context, mode string) error {
	s, err := c.Client.Branch(ctx, c.session, client.NewBranch{SessionID: client.NewID(), Mode: mode})
	if err != nil {
		return err
	}
	left := c.session
	c.session, c.mode, c.lastTurn = s.SessionID, s.Mode, ""
	c.out.note("Session %s, branched off %s, which stays as it is.", c.session, left)
	c.welcome(s.WelcomeMessage)
	return nil
}

// offerBranch acts on a change of the mode that means a new session (AGN-011 §5.6). Only
// somebody who types is asked.
func (c *chat) offerBranch(ctx context.Context) error {
	if !c.branches {
		return nil
	}
	c.branches = false
	if !c.Terminal {
		c.out.note("A new session was asked for; /branch starts it.")
		return nil
	}
	yes, err := c.ask(ctx, "Go on in a new session that remembers this one?", true)
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, ErrInterrupted), err == nil && !yes:
		return nil
	case err != nil:
		return err
	}
	if err := c.branchCommand(ctx, ""); err != nil {
		c.out.fail(err)
	}
	return ctx.Err()
}
