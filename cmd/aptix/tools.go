package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func newTools() *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "List the tools that the server runs",
		Long: `Lists the tools that the server runs: its own, and those of MCP servers. A tool that is
withdrawn is not offered to models until what is wrong with it is mended.`,
		Args: takes(0, 0, ""),
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		tools, err := c.Tools(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), tools)
		}
		t := newTable(cmd.OutOrStdout())
		t.row("NAME", "STATE", "DESCRIPTION")
		for _, found := range tools {
			state := "offered"
			if found.Withdrawn != "" {
				state = "withdrawn: " + found.Withdrawn
			}
			t.row(found.Name, state, opening(found.Description))
		}
		return t.flush()
	})
	return cmd
}

// opening is so much of a text as a list has room for.
func opening(s string) string {
	const most = 80
	s, _, more := strings.Cut(strings.TrimSpace(s), "\n")
	if runes := []rune(s); len(runes) > most {
		s, more = string(runes[:most]), true
	}
	if more {
		s += "…"
	}
	return s
}
