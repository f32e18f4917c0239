// Command aptix is the one binary of Aptix: the server and everything to talk to it
// from a terminal. main hands over to the commands, one file each; serve.go runs the server
// that package node puts together. Everything that talks to a server does so through the
// public client, as any other program would.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/terminal"
)

func main() { os.Exit(run(os.Args[1:])) }

// The exit codes (api.md, Command line).
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// errInterrupted tells that the user stopped the command.
var errInterrupted = errors.New("interrupted")

// errReported ends a command with exit code 1 after it has said itself what is wrong.
var errReported = errors.New("reported")

// usageError is a mistake on the command line.
type usageError struct {
	error
	command string // the command whose help has more
}

// run executes the command line and returns the exit code.
func run(args []string) int {
	root := newRoot()
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(context.Background())
	if err == nil {
		return exitOK
	}
	stderr := cmd.ErrOrStderr()
	usage := usageError{}
	switch {
	case errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.Is(err, errReported):
		return exitFailed
	case errors.As(err, &usage):
		say(stderr, "aptix: %v\nRun '%s --help' to see how it is used.", usage.error, usage.command)
		return exitUsage
	case errors.Is(err, client.ErrUnreachable):
		say(stderr, "aptix: %v", err)
		say(stderr, "Start a server with 'aptix serve', or name another one with --url or APTIX_URL.")
		return exitFailed
	}
	say(stderr, "aptix: %v", err)
	if client.CodeOf(err) == client.CodeUnauthenticated {
		say(stderr, "Set APTIX_API_KEY to a key of this server, or APTIX_API_KEY_FILE to a file that holds one.")
	}
	return exitFailed
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "aptix",
		Short: "Run agents in modes: a server, and what talks to it from a terminal",
		Long: `Aptix runs agents the same way every time: the server owns the mode of a
session, the tools of that mode, and the record of who changed it and why.

Start with 'aptix serve', and in a second terminal 'aptix ask "hello"' or
'aptix chat'. Nothing needs to be configured for that.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	group(root)
	root.AddCommand(newServe(), newChat(), newAsk(), newACP(), newPreview(), newModes(), newTools(), newMCP(), newSessions(), newUsage(), newIndex(), newKeys(),
		newWebhooks(), newAudit(), newBackup(), newErase(), newDoctor(), newVersion())
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return usageError{err, cmd.CommandPath()} })
	return root
}

// group makes a command that only has commands under it show its help when it stands
// alone, and refuse what it does not know.
func group(cmd *cobra.Command) {
	cmd.Args = cobra.ArbitraryArgs
	cmd.SuggestionsMinimumDistance = 2
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		err := fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0])
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			err = fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
		}
		return usageError{err, cmd.CommandPath()}
	}
}

// takes returns the check of a command's arguments: the number of them, and how they are
// called in the message.
func takes(least, most int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return usageError{fmt.Errorf("%s needs %s", cmd.CommandPath(), what), cmd.CommandPath()}
		case most >= 0 && len(args) > most:
			return usageError{fmt.Errorf("%s does not take %q", cmd.CommandPath(), args[most]), cmd.CommandPath()}
		}
		return nil
	}
}

// stoppable runs a command so that Ctrl-C ends its context and its exit code says so.
func stoppable(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		cmd.SetContext(ctx)
		err := run(cmd, args)
		if err != nil && ctx.Err() != nil {
			return errInterrupted
		}
		return err
	}
}

// say prints a line that may hold text of others: what a terminal would act on is left
// out.
func say(w io.Writer, format string, args ...any) {
	// Whoever closed the other end of a pipe does not want to hear of it.
	_, _ = fmt.Fprintln(w, terminal.Strip(fmt.Sprintf(format, args...)))
}

// isTerminal reports whether a person sits at the other end.
func isTerminal(v any) bool {
	f, ok := v.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
