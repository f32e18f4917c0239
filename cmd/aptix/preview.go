package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/terminal"
)

func newPreview() *cobra.Command {
	var (
		r                       remote
		session                 string
		asJSON, canonical, wire bool
	)
	cmd := &cobra.Command{
		Use:   "preview TEXT",
		Short: "Show the request that a turn would send to the model",
		Long: `Shows the request that a turn would send, byte for byte, in both forms: the
canonical one of the specification and the wire one that is posted, each with its
SHA-256. Nothing is stored and no model is called.

--canonical and --wire print only those bytes, so that
'aptix preview --wire TEXT | sha256sum' gives the hash.`,
		Args: takes(1, -1, "the text of the turn"),
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&session, "session", "", "session in which the turn would run")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole answer as JSON")
	cmd.Flags().BoolVar(&canonical, "canonical", false, "print the bytes of the canonical request")
	cmd.Flags().BoolVar(&wire, "wire", false, "print the bytes of the wire request")
	completes(cmd, map[string]cobra.CompletionFunc{"session": r.offerSessions})
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		if asJSON && (canonical || wire) || canonical && wire {
			return usageError{errors.New("--json, --canonical and --wire exclude each other"), cmd.CommandPath()}
		}
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		text, err := instruction(cmd.InOrStdin(), args)
		if err != nil {
			return err
		}
		p, err := c.Preview(cmd.Context(), client.UserTurn{SessionID: session, Instruction: text})
		if err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		switch {
		case asJSON:
			return printJSON(out, p)
		case canonical:
			return exactly(out, p.Canonical)
		case wire:
			return exactly(out, p.Wire)
		}
		say(out, "mode       %s", p.Mode)
		say(out, "canonical  sha256 %s\n%s", p.CanonicalSHA256, p.Canonical)
		say(out, "wire       sha256 %s\n%s", p.WireSHA256, p.Wire)
		return nil
	})
	return cmd
}

// exactly prints bytes as they are, except on a terminal, which would act on some.
func exactly(w io.Writer, text string) error {
	if isTerminal(w) {
		text = terminal.Visible(text) + "\n"
	}
	_, err := fmt.Fprint(w, text)
	return err
}
