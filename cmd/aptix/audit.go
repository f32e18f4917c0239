package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
)

func newAudit() *cobra.Command {
	cmd := &cobra.Command{Use: "audit", Short: "See who did what"}
	group(cmd)
	cmd.AddCommand(newAuditExport())
	return cmd
}

func newAuditExport() *cobra.Command {
	var r remote
	var since, until, format string
	var filter client.AuditFilter
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Print the audit log of the organisation, newest first",
		Long: `Prints the audit log of the organisation, newest first, a line for each entry. It needs
a credential of role admin. Entries have ids and never contents.`,
		Args: takes(0, 0, ""),
	}
	r.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "the earliest time, such as 2026-01-02T15:04:05Z or 2026-01-02")
	f.StringVar(&until, "until", "", "the first time that is too late")
	f.StringVar(&filter.Session, "session", "", "only entries of this session")
	f.StringVar(&filter.User, "user", "", "only entries of this user")
	f.StringVar(&filter.Action, "action", "", "only entries of this action, such as mode.changed")
	f.StringVar(&format, "format", "jsonl", "jsonl or table")
	completes(cmd, map[string]cobra.CompletionFunc{"session": r.offerSessions, "format": cobra.FixedCompletions([]cobra.Completion{"jsonl", "table"}, cobra.ShellCompDirectiveNoFileComp)})
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) (err error) {
		if format != "jsonl" && format != "table" {
			return usageError{fmt.Errorf("--format %q is unknown; want jsonl or table", format), cmd.CommandPath()}
		}
		if filter.Since, err = timeFlag("since", since); err != nil {
			return usageError{err, cmd.CommandPath()}
		}
		if filter.Until, err = timeFlag("until", until); err != nil {
			return usageError{err, cmd.CommandPath()}
		}
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		lines := json.NewEncoder(cmd.OutOrStdout())
		lines.SetEscapeHTML(false)
		table := newTable(cmd.OutOrStdout())
		print := func(e client.AuditEntry) error { return lines.Encode(e) }
		if format == "table" {
			table.row("WHEN", "ACTION", "USER", "ROLE", "SESSION", "SUBJECT", "REQUEST")
			print = func(e client.AuditEntry) error {
				table.row(when(e.At), e.Action, e.User, e.Role, e.SessionID, e.Subject, e.RequestID)
				return nil
			}
		}
		for page := (client.Page{Limit: 200}); ; {
			list, err := c.Audit(cmd.Context(), filter, page)
			if err != nil {
				return err
			}
			for _, e := range list.Data {
				if err := print(e); err != nil {
					return err
				}
			}
			if page.Cursor = list.NextCursor; page.Cursor == "" {
				return table.flush()
			}
		}
	})
	return cmd
}

// timeFlag reads a time, or a day in UTC.
func timeFlag(name, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		if t, err := time.Parse(layout, value); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("--%s %q is not a time such as 2026-01-02T15:04:05Z or 2026-01-02", name, value)
}
