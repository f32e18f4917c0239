package main

import (
	"strconv"

	"github.com/spf13/cobra"
)

func newUsage() *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show the budgets, and what was spent of them",
		Long: `Shows what turns, sessions and the organisation may spend, and what the organisation
has spent of the day's and the month's. Budgets are set in the configuration file of
the server; without any, nothing is counted.`,
		Args: takes(0, 0, ""),
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		u, err := c.Usage(cmd.Context())
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		if asJSON {
			return printJSON(out, u)
		}
		if len(u.Budgets) == 0 {
			say(out, "The server has no budgets for %s, and counts nothing.", u.Org)
			return nil
		}
		t := newTable(out)
		t.row("OF", "UNIT", "LIMIT", "SPENT", "LEFT", "RESETS")
		for _, b := range u.Budgets {
			resets := ""
			if b.ResetsAt != nil {
				resets = when(*b.ResetsAt)
			}
			t.row(b.Of, b.Unit, number(&b.Limit), number(b.Spent), number(b.Left), resets)
		}
		return t.flush()
	})
	return cmd
}

// number renders what may not be there.
func number(n *float64) string {
	if n == nil {
		return ""
	}
	return strconv.FormatFloat(*n, 'f', -1, 64)
}
