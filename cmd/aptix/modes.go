package main

import (
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/terminal"
)

func newModes() *cobra.Command {
	cmd := &cobra.Command{Use: "modes", Short: "List, show and check modes"}
	group(cmd)
	cmd.AddCommand(newModesList(), newModesShow(), newModesLint())
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
		return printMode(cmd.OutOrStdout(), *m)
	})
	return cmd
}

// modeFile is a mode as its file has it (api.md, Catalogue).
type modeFile struct {
	ID                  string   `yaml:"id"`
	Key                 string   `yaml:"key"`
	DisplayName         string   `yaml:"displayName"`
	Description         string   `yaml:"description"`
	WhenToUse           string   `yaml:"whenToUse"`
	SystemPromptSummary string   `yaml:"systemPromptSummary"`
	IsDefault           bool     `yaml:"isDefault"`
	Status              string   `yaml:"status"`
	Version             string   `yaml:"version"`
	Instructions        []string `yaml:"instructions"`
	Tools               []string `yaml:"tools"`
	HumanRoleHints      []string `yaml:"humanRoleHints"`
	ExampleUtterances   []string `yaml:"exampleUtterances"`
	RAG                 struct {
		Prefer  []string `yaml:"prefer"`
		Exclude []string `yaml:"exclude"`
	} `yaml:"rag"`
}

func printMode(w io.Writer, m client.Mode) error {
	f := modeFile{
		ID: m.ID, Key: m.Key, DisplayName: m.DisplayName, Description: m.Description, WhenToUse: m.WhenToUse,
		SystemPromptSummary: m.SystemPromptSummary, IsDefault: m.IsDefault, Status: m.Status, Version: m.Version,
		Instructions: m.Instructions, Tools: m.Tools, HumanRoleHints: m.HumanRoleHints, ExampleUtterances: m.ExampleUtterances,
	}
	f.RAG.Prefer, f.RAG.Exclude = m.RAG.Prefer, m.RAG.Exclude
	b, err := yaml.Marshal(f)
	if err != nil {
		return err
	}
	_, err = io.WriteString(w, terminal.Strip(string(b)))
	return err
}

func newModesLint() *cobra.Command {
	return &cobra.Command{
		Use:   "lint [DIR]",
		Short: "Check the mode files in a folder",
		Long: `Checks the mode files in a folder as the server does when it starts, and lists
everything that is wrong. Without DIR it checks the folder that is configured, or
the built-in modes. It needs no server.`,
		Args: takes(0, 1, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir := ""
			if len(args) > 0 {
				dir = args[0]
			} else {
				cfg, err := config.Load(config.Options{})
				if err != nil {
					return err
				}
				dir = cfg.Modes
			}
			problems, err := lint(dir)
			if err != nil {
				return err
			}
			for _, p := range problems {
				say(cmd.OutOrStdout(), "%s", p)
			}
			if problems.Fatal() {
				return errReported
			}
			say(cmd.OutOrStdout(), "%s: no errors", nameOf(dir))
			return nil
		},
	}
}

// modeFiles returns the folder of the mode files; "" is the built-in catalogue.
func modeFiles(dir string) (fs.FS, error) {
	if dir == "" {
		return mode.Files(), nil
	}
	info, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("mode files: %w", err)
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("mode files: %s is not a folder", dir)
	}
	return os.DirFS(dir), nil
}

func nameOf(dir string) string {
	if dir == "" {
		return "built-in modes"
	}
	return dir
}

// lint returns what is wrong with the mode files in a folder, tools that the server
// does not have included.
func lint(dir string) (mode.Problems, error) {
	files, err := modeFiles(dir)
	if err != nil {
		return nil, err
	}
	// The names of the tools do not depend on the catalogue, which may be broken.
	registry, err := serverTools(&lateSessions{}, mode.Builtin(), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return mode.Lint(files, registry.Names()), nil
}
