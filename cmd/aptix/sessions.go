package main

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
)

func newSessions() *cobra.Command {
	cmd := &cobra.Command{Use: "sessions", Short: "List sessions, and show one and its modes"}
	group(cmd)
	cmd.AddCommand(newSessionsList(), newSessionsShow(), newSessionsHistory())
	return cmd
}

// sessionOutput is what --json prints of a session.
type sessionOutput struct {
	client.Session
	AllTurns []client.Turn `json:"allTurns"`
}

func newSessionsList() *cobra.Command {
	var r remote
	var asJSON bool
	limit := 50
	cmd := &cobra.Command{Use: "list", Short: "List the sessions, newest first", Args: takes(0, 0, "")}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	cmd.Flags().IntVar(&limit, "limit", limit, "how many")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		if limit < 1 {
			return usageError{errors.New("--limit must be 1 or more"), cmd.CommandPath()}
		}
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		sessions, more, err := collect(limit, func(p client.Page) (client.List[client.Session], error) { return c.Sessions(cmd.Context(), p) })
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), sessions)
		}
		t := newTable(cmd.OutOrStdout())
		t.row("SESSION", "MODE", "TURNS", "CREATED", "CHANGED")
		for _, s := range sessions {
			t.row(s.SessionID, s.Mode, s.Turns, when(s.CreatedAt), when(s.UpdatedAt))
		}
		if err := t.flush(); err != nil {
			return err
		}
		if more {
			say(cmd.ErrOrStderr(), "There are more; --limit shows them.")
		}
		return nil
	})
	return cmd
}

func newSessionsShow() *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{Use: "show ID", Short: "Show a session and its turns", Args: takes(1, 1, "the id of a session"), ValidArgsFunction: first(r.offerSessions)}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		s, err := c.Session(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		turns, more, err := collect(maxListed, func(p client.Page) (client.List[client.Turn], error) {
			return c.Turns(cmd.Context(), args[0], p)
		})
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if asJSON {
			return printJSON(out, sessionOutput{*s, turns})
		}
		t := newTable(out)
		t.row("session", s.SessionID)
		t.row("mode", s.Mode+" ("+s.ModeDisplayName+")")
		t.row("context", s.AgentContextID+"/"+s.ConversationContextID)
		t.row("client tools", len(s.Tools))
		t.row("created", when(s.CreatedAt))
		t.row("changed", when(s.UpdatedAt))
		if s.SystemPrompt != "" {
			t.row("system prompt", s.SystemPrompt)
		}
		if err := t.flush(); err != nil {
			return err
		}
		say(out, "")
		t = newTable(out)
		t.row("#", "TURN", "STATE", "MODE", "ACCEPTED")
		for _, v := range turns {
			t.row(v.Ordinal, v.TurnID, v.State, v.Mode, when(v.CreatedAt))
		}
		if err := t.flush(); err != nil {
			return err
		}
		if more {
			say(cmd.ErrOrStderr(), "There are more turns; the HTTP API has them all.")
		}
		return nil
	})
	return cmd
}

func newSessionsHistory() *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{Use: "history ID", Short: "Show who changed a session's mode, when and why", Args: takes(1, 1, "the id of a session"), ValidArgsFunction: first(r.offerSessions)}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		history, _, err := collect(maxListed, func(p client.Page) (client.List[client.ModeHistoryEntry], error) {
			return c.ModeHistory(cmd.Context(), args[0], p)
		})
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), history)
		}
		t := newTable(cmd.OutOrStdout())
		t.row("WHEN", "FROM", "TO", "BY", "USER", "TURN", "REASON")
		for _, h := range history {
			t.row(when(h.At), h.PreviousMode, h.Mode, h.Actor, h.Org+"/"+h.User, h.TurnID, h.Reason)
		}
		return t.flush()
	})
	return cmd
}

// maxListed bounds a list that is shown whole.
const maxListed = 10_000

// collect reads pages until there are enough entries or no more.
func collect[T any](limit int, read func(client.Page) (client.List[T], error)) (all []T, more bool, err error) {
	all = []T{}
	page := client.Page{}
	for {
		page.Limit = min(limit-len(all), 200)
		l, err := read(page)
		if err != nil {
			return nil, false, err
		}
		all = append(all, l.Data...)
		if !l.HasMore || l.NextCursor == "" || len(l.Data) == 0 {
			return all, false, nil
		}
		if len(all) >= limit {
			return all, true, nil
		}
		page.Cursor = l.NextCursor
	}
}
