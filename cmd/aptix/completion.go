package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
)

const (
	// completeWithin is how long somebody who presses Tab waits for the server.
	completeWithin = 2 * time.Second
	// completeMost is how many sessions are offered, the newest.
	completeMost = 50
)

// completes has the shell offer what a server has where one of its names is wanted.
func completes(cmd *cobra.Command, flags map[string]cobra.CompletionFunc) {
	for name, offer := range flags {
		if err := cmd.RegisterFlagCompletionFunc(name, offer); err != nil {
			panic(fmt.Sprintf("%s has no flag --%s to be completed", cmd.Name(), name)) // a mistake in this program, which every start shows
		}
	}
}

// offerSessions offers the newest sessions.
func (r *remote) offerSessions(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return r.offer(cmd, func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
		found, err := c.Sessions(ctx, client.Page{Limit: completeMost})
		if err != nil {
			return nil, err
		}
		var out []cobra.Completion
		for _, s := range found.Data {
			out = append(out, cobra.CompletionWithDesc(s.SessionID, fmt.Sprintf("%s, %s, %s", s.Mode, counted(int(s.Turns), "turn"), when(s.UpdatedAt))))
		}
		return out, nil
	})
}

// offerModes offers the keys of the modes.
func (r *remote) offerModes(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return r.offer(cmd, func(ctx context.Context, c *client.Client) ([]cobra.Completion, error) {
		modes, err := c.Modes(ctx)
		if err != nil {
			return nil, err
		}
		var out []cobra.Completion
		for _, m := range modes {
			out = append(out, cobra.CompletionWithDesc(m.Key, oneLine(m.Description)))
		}
		return out, nil
	})
}

// offer asks the server, and offers nothing when it does not answer: whoever presses Tab is
// not told of errors. The shell takes what fits to what is typed.
func (r *remote) offer(cmd *cobra.Command, ask func(context.Context, *client.Client) ([]cobra.Completion, error)) ([]cobra.Completion, cobra.ShellCompDirective) {
	c, err := r.client(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeWithin)
	defer cancel()
	found, err := ask(ctx, c)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return found, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
}

// first offers for a command's first argument alone.
func first(offer cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return offer(cmd, args, toComplete)
	}
}
