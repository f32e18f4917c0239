package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/node"
)

func newModesGolden() *cobra.Command {
	var out string
	var check bool
	cmd := &cobra.Command{
		Use:   "golden [DIR]",
		Short: "Record the request that each mode sends, or check that it is still the same",
		Long: `Writes one file per mode: the first request that 'aptix chat' would send in a new
session in that mode, in its canonical form and as it is posted, with their SHA-256.
The words of the user and the model are placeholders; no model is called and no server
is needed. Commit the files. With --check nothing is written: what differs is shown
line by line, and the exit code is 1.

The files go to DIR/golden, or to the folder that --out names. Without DIR it is about
the modes that are configured, or those built in.`,
		Args: takes(0, 1, ""),
	}
	cmd.Flags().StringVar(&out, "out", "", "folder of the golden files (default DIR/golden)")
	cmd.Flags().BoolVar(&check, "check", false, "compare instead of writing")
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		dir, err := configuredModes(args)
		if err != nil {
			return err
		}
		if out == "" && dir == "" {
			return usageError{errors.New("the built-in modes have no folder of their own: say with --out where the golden files are"), cmd.CommandPath()}
		}
		if out == "" {
			out = filepath.Join(dir, "golden")
		}
		now, err := goldenRequests(cmd.Context(), dir)
		if err != nil {
			return err
		}
		if !check {
			return writeGolden(cmd, out, now)
		}
		drifts, err := now.drift(out)
		if err != nil {
			return err
		}
		for _, d := range drifts {
			say(cmd.OutOrStdout(), "%s", d)
		}
		if len(drifts) > 0 {
			say(cmd.OutOrStdout(), "If that is meant, run 'aptix modes golden' and commit what it writes.")
			return errReported
		}
		say(cmd.OutOrStdout(), "%s: %d requests as recorded in %s", node.ModesName(dir), len(now), out)
		return nil
	})
	return cmd
}

// writeGolden records the requests, and says which of them are others than before.
func writeGolden(cmd *cobra.Command, dir string, now goldens) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, g := range now {
		path := filepath.Join(dir, g.file())
		if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, g.text) {
			continue
		}
		if err := os.WriteFile(path, g.text, 0o644); err != nil {
			return err
		}
		say(cmd.OutOrStdout(), "wrote %s", path)
	}
	orphans, err := now.orphans(dir)
	if err != nil {
		return err
	}
	for _, path := range orphans {
		if err := os.Remove(path); err != nil {
			return err
		}
		say(cmd.OutOrStdout(), "removed %s: there is no such mode any more", path)
	}
	return nil
}
