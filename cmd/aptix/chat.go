package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/chat"
	"github.com/aptixhq/aptix/internal/localtools"
)

// keyboard returns the terminal at which lines can be edited, nil when there is none or
// the output goes elsewhere.
func keyboard(cmd *cobra.Command) *os.File {
	if in, ok := cmd.InOrStdin().(*os.File); ok && isTerminal(in) && isTerminal(cmd.OutOrStdout()) && os.Getenv("TERM") != "dumb" {
		return in
	}
	return nil
}

func newChat() *cobra.Command {
	var (
		r                  remote
		session, mode, dir string
	)
	cmd := &cobra.Command{
		Use:   "chat",
		Short: "Talk to the agent, with tools on your own files",
		Long: `Holds a conversation, line by line. The agent may list, read and search files in
--dir; it asks before it writes a file or runs a command. The file tools cannot
leave the directory.

Ctrl-C cancels a turn, twice at the prompt it leaves; so does Ctrl-D. The session
stays on the server: --session takes it up again.`,
		Args: takes(0, 0, ""),
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&session, "session", "", "session to go on with")
	cmd.Flags().StringVar(&mode, "mode", "", "mode in which a new session starts")
	cmd.Flags().StringVar(&dir, "dir", ".", "directory that the agent may see")
	completes(cmd, map[string]cobra.CompletionFunc{"session": r.offerSessions, "mode": r.offerModes})
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if session != "" && mode != "" {
			return usageError{errors.New("--mode is for a new session; leave --session out, or change the mode with /mode"), cmd.CommandPath()}
		}
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		tools, err := localtools.Open(dir, localtools.Limits{})
		if err != nil {
			return err
		}
		defer func() { _ = tools.Close() }()

		// Here Ctrl-C ends a turn and not the program, so the chat gets it itself.
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, os.Interrupt)
		defer signal.Stop(interrupts)
		err = chat.Run(cmd.Context(), chat.Config{
			Client: c, Tools: tools, In: cmd.InOrStdin(), Out: cmd.OutOrStdout(),
			Terminal:   isTerminal(cmd.InOrStdin()),
			Colour:     isTerminal(cmd.OutOrStdout()) && os.Getenv("NO_COLOR") == "",
			Interrupts: interrupts, Session: session, Mode: mode, Keyboard: keyboard(cmd),
		})
		if errors.Is(err, chat.ErrInterrupted) {
			return errInterrupted
		}
		if err != nil {
			return fmt.Errorf("chat: %w", err)
		}
		return nil
	}
	return cmd
}
