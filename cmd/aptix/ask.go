package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/terminal"
)

func newAsk() *cobra.Command {
	var (
		r             remote
		session, mode string
		asJSON        bool
	)
	cmd := &cobra.Command{
		Use:   "ask TEXT",
		Short: "Run one turn and print its answer",
		Long: `Runs one turn and prints its answer: as it comes when a terminal shows it,
in one piece otherwise. TEXT - reads the text from the input.

Without --session the turn has a session of its own. No tools of this machine are
offered; 'aptix chat' does that.`,
		Example: `  aptix ask "What can you do?"
  git diff | aptix ask -
  aptix ask --session s1 --json "And then?"`,
		Args: takes(1, -1, "the text of the turn"),
	}
	r.flags(cmd)
	cmd.Flags().StringVar(&session, "session", "", "session to run the turn in; made when it does not exist")
	cmd.Flags().StringVar(&mode, "mode", "", "make the session, in this mode")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole answer as JSON")
	completes(cmd, map[string]cobra.CompletionFunc{"session": r.offerSessions, "mode": r.offerModes})
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		text, err := instruction(cmd.InOrStdin(), args)
		if err != nil {
			return err
		}
		u := client.UserTurn{SessionID: session, TurnID: client.NewID(), Instruction: text}
		if u.SessionID == "" {
			u.SessionID = client.NewID()
		}
		if mode != "" {
			if _, err := c.CreateSession(cmd.Context(), client.NewSession{SessionID: u.SessionID, Mode: mode}); err != nil {
				return err
			}
		}
		a := asking{client: c, turn: u, out: cmd.OutOrStdout(), notes: cmd.ErrOrStderr()}
		switch {
		case asJSON:
			err = a.whole(cmd.Context(), func(w io.Writer, answer *client.Answer) error {
				_, err := fmt.Fprintf(w, "%s\n", answer.JSON())
				return err
			})
		case isTerminal(cmd.OutOrStdout()):
			err = a.streamed(cmd.Context())
		default:
			err = a.whole(cmd.Context(), printText)
		}
		if cmd.Context().Err() != nil {
			a.cancel(cmd.Context())
		}
		return err
	})
	return cmd
}

// maxInstruction bounds a text that is read from the input; the server takes less.
const maxInstruction = 16 << 20

// instruction returns the text of the turn.
func instruction(in io.Reader, args []string) (string, error) {
	if len(args) != 1 || args[0] != "-" {
		return strings.Join(args, " "), nil
	}
	b, err := io.ReadAll(io.LimitReader(in, maxInstruction+1))
	if err != nil {
		return "", fmt.Errorf("read the input: %w", err)
	}
	if len(b) > maxInstruction {
		return "", fmt.Errorf("the input has more than %d bytes", maxInstruction)
	}
	return string(b), nil
}

// asking is one turn on its way.
type asking struct {
	client *client.Client
	turn   client.UserTurn
	out    io.Writer
	notes  io.Writer // what is beside the answer
}

// whole waits for the answer and prints it in one piece.
func (a asking) whole(ctx context.Context, print func(io.Writer, *client.Answer) error) error {
	answer, err := a.client.Execute(ctx, a.turn)
	if err != nil {
		return err
	}
	if err := print(a.out, answer); err != nil {
		return err
	}
	return a.conclude(*answer)
}

func printText(w io.Writer, answer *client.Answer) error {
	if answer.PrimaryOutputText == "" {
		return nil
	}
	_, err := fmt.Fprintln(w, strings.TrimSuffix(terminal.Strip(answer.PrimaryOutputText), "\n"))
	return err
}

// streamed prints the answer as it comes.
func (a asking) streamed(ctx context.Context) error {
	var text terminal.Stripper
	begun := false // a line is
	show := func(piece string) {
		if piece = text.Strip(piece); piece != "" {
			_, _ = io.WriteString(a.out, piece)
			begun = !strings.HasSuffix(piece, "\n")
		}
	}
	newline := func() {
		if begun {
			_, _ = io.WriteString(a.out, "\n")
			begun = false
		}
	}
	defer newline()
	shown := false
	for e, err := range a.client.Stream(ctx, a.turn) {
		if err != nil {
			return err
		}
		switch e.Type {
		case client.EventTextDelta:
			shown = true
			show(e.Text)
		case client.EventTurnResumed:
			newline()
			say(a.notes, "The server was restarted and answers again.")
			shown = false
		case client.EventTurnCompleted, client.EventTurnWaiting:
			if e.Response == nil {
				return errors.New("the turn ended without an answer")
			}
			if !shown {
				show(e.Response.PrimaryOutputText)
			}
			newline()
			return a.conclude(*e.Response)
		case client.EventTurnFailed:
			if e.Problem == nil {
				return errors.New("the turn failed without saying why")
			}
			return e.Problem
		case client.EventTurnCancelled:
			return errors.New("the turn was cancelled")
		}
	}
	return errors.New("the stream ended before the turn did")
}

// conclude says what goes with the answer. A turn that waits for client tools is not
// answered, so the command fails.
func (a asking) conclude(answer client.Answer) error {
	if m := answer.ModeChange; m != nil {
		say(a.notes, "The mode changed from %s to %s: %s", m.PreviousMode, m.Mode, m.Reason)
		if m.Branch {
			say(a.notes, "A new session was asked for: /branch in 'aptix chat --session %s' starts it.", a.turn.SessionID)
		}
	}
	for _, s := range answer.Sources {
		say(a.notes, "Source: %s", s)
	}
	for _, w := range answer.UserWarnings {
		say(a.notes, "Warning: %s", w)
	}
	if n := len(answer.Approvals); n > 0 {
		return fmt.Errorf("the turn waits for your decision on %s; 'aptix chat --session %s' asks for it", answer.Approvals[0].Name, answer.SessionID)
	}
	if answer.Kind == client.AnswerClientToolContinuation {
		return fmt.Errorf("the turn waits for tools of this session's client; go on with 'aptix chat --session %s'", answer.SessionID)
	}
	if isTerminal(a.notes) {
		say(a.notes, "(mode %s; go on with --session %s)", answer.Mode, answer.SessionID)
	}
	return nil
}

// cancel ends the turn of a command that was stopped; nobody waits for its answer.
func (a asking) cancel(ctx context.Context) {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer stop()
	if err := a.client.Cancel(ctx, a.turn.SessionID, a.turn.TurnID); err != nil {
		say(a.notes, "aptix: the turn may go on: %v", err)
	}
}
