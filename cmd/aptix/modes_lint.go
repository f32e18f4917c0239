package main

import (
	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/node"
)

func newModesLint() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "lint [DIR]",
		Short: "Check the mode files in a folder",
		Long: `Checks the mode files in a folder as the server does when it starts, and lists
everything that is wrong, as FILE:LINE: MESSAGE. Without DIR it checks the folder that
is configured, or the built-in modes. It needs no server.

Errors, with which a server would not start, end it with exit code 1: YAML that cannot
be read, members that are unknown or there twice, keys, ids and defaults that two files
have, tools that the server does not have, patterns that do not compile. Warnings do
not: prompts that are too long, and modes that nothing leads to.`,
		Args: takes(0, 1, ""),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the problems as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg, err := config.Load(config.Options{})
		if err != nil {
			return err // it says which tools there are, too
		}
		if len(args) > 0 {
			cfg.Modes = args[0]
		}
		problems, err := parts(cfg, nil).Lint()
		if err != nil {
			return err
		}
		if err := printProblems(cmd, cfg.Modes, problems, asJSON); err != nil {
			return err
		}
		if problems.Fatal() {
			return errReported
		}
		return nil
	}
	return cmd
}

func printProblems(cmd *cobra.Command, dir string, problems mode.Problems, asJSON bool) error {
	if asJSON {
		if problems == nil {
			problems = mode.Problems{}
		}
		return printJSON(cmd.OutOrStdout(), struct {
			Modes    string        `json:"modes"`
			Problems mode.Problems `json:"problems"`
		}{node.ModesName(dir), problems})
	}
	for _, p := range problems {
		say(cmd.OutOrStdout(), "%s", p)
	}
	if !problems.Fatal() {
		say(cmd.OutOrStdout(), "%s: no errors", node.ModesName(dir))
	}
	return nil
}

func newModesSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of mode files",
		Long: `Prints the JSON Schema of mode files. An editor that speaks to yaml-language-server
completes and checks a mode file that names it in its first line:

  # yaml-language-server: $schema=mode.schema.json`,
		Args: takes(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := mode.Schema()
			if err != nil {
				return err
			}
			return exactly(cmd.OutOrStdout(), string(b))
		},
	}
}
