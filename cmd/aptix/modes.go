package main

import (
	"encoding/json"
	"io"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/mode/interchange"
	"github.com/aptixhq/aptix/internal/terminal"
)

func newModes() *cobra.Command {
	cmd := &cobra.Command{Use: "modes", Short: "List, show, check, import and export modes"}
	group(cmd)
	cmd.AddCommand(newModesList(), newModesShow(), newModesLint(), newModesSchema(), newModesGolden(), newModesImport(), newModesExport())
	return cmd
}

func newModesList() *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{Use: "list", Short: "List the modes of the server", Args: takes(0, 0, "")}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print them as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		modes, err := c.Modes(cmd.Context())
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), modes)
		}
		t := newTable(cmd.OutOrStdout())
		t.row("KEY", "NAME", "STATUS", "WHEN TO USE")
		for _, m := range modes {
			name := m.DisplayName
			if m.IsDefault {
				name += " (default)"
			}
			t.row(m.Key, name, m.Status, m.WhenToUse)
		}
		return t.flush()
	})
	return cmd
}

func newModesShow() *cobra.Command {
	var r remote
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show a mode of the server, as the file that would make it",
		Args:  takes(1, 1, "the key of a mode; 'aptix modes list' has them"),

		ValidArgsFunction: first(r.offerModes),
	}
	r.flags(cmd)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		m, err := c.Mode(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return printJSON(cmd.OutOrStdout(), m)
		}
		return printMode(cmd.OutOrStdout(), m)
	})
	return cmd
}

// printMode prints a mode as the file that would make it.
func printMode(w io.Writer, shown *client.Mode) error {
	b, err := json.Marshal(shown)
	if err != nil {
		return err
	}
	var m mode.Mode
	if err := json.Unmarshal(b, &m); err != nil {
		return err
	}
	if b, err = interchange.File(m); err != nil {
		return err
	}
	_, err = io.WriteString(w, terminal.Strip(string(b)))
	return err
}

// configuredModes returns the folder that a command works on: the one on its command
// line, else the one that is configured; "" is the built-in modes.
func configuredModes(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	cfg, err := config.Load(config.Options{})
	return cfg.Modes, err
}
