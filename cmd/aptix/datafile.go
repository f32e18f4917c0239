package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/client"
	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/node"
	"github.com/aptixhq/aptix/internal/store/postgres"
	"github.com/aptixhq/aptix/internal/store/sqlite"
)

// dataFile are the flags of a command that works on the data file itself.
type dataFile struct{ file string }

func (d *dataFile) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.String("data", "", "folder of the data file (default ./aptix-data)")
	f.String("database", "", "path of the data file (default: in the data folder), or postgres://…")
	f.StringVar(&d.file, "config", "", "configuration file (default "+config.DefaultFile+" if it is there)")
}

// config returns how a server would be run.
func (d *dataFile) config(cmd *cobra.Command) (config.Config, error) {
	return config.Load(config.Options{File: d.file, Flags: changedFlags(cmd)})
}

func newErase() *cobra.Command {
	var r remote
	var d dataFile
	var session, user, org string
	var yes, server bool
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Erase a session, a user, or all of an organisation",
		Long: `Erases a session with its turns, its history and the files that no other session uses;
what runs of it is broken off. The server does it.

With --user it erases every session that the user created; in the sessions of others his
name goes, and what he wrote there stays. The server does it, in pieces, and finishes it
after a crash, too; the command waits for it.

With --org it erases every session of an organisation and its indexes, in the data file
itself: stop the server first. In a PostgreSQL database it does so while servers run;
what they run of it is broken off. With --server the running server does it, as for a
user; the organisation is then that of the credential, and --org names it once more.

What is erased is overwritten in the data file, which gets smaller; PostgreSQL gives
the space free when it vacuums. It cannot be undone. Copies that were made, with
'aptix backup' or PostgreSQL's own means, keep what they have.`,
		Args: takes(0, 0, ""),
	}
	r.flags(cmd)
	d.flags(cmd)
	cmd.Flags().StringVar(&session, "session", "", "id of the session")
	cmd.Flags().StringVar(&user, "user", "", "id of the user")
	cmd.Flags().BoolVar(&server, "server", false, "let the running server erase the organisation")
	cmd.Flags().StringVar(&org, "org", "", "id of the organisation")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	completes(cmd, map[string]cobra.CompletionFunc{"session": r.offerSessions})
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		switch {
		case !exactlyOne(session, user, org):
			return usageError{errors.New("name what to erase, with one of --session, --user and --org"), cmd.CommandPath()}
		case server && org == "":
			return usageError{errors.New("--server goes with --org; the server does the others in any case"), cmd.CommandPath()}
		case !yes:
			return usageError{errors.New("it cannot be undone; add --yes to do it"), cmd.CommandPath()}
		case org != "" && !server:
			return d.eraseOrg(cmd, org)
		}
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		switch {
		case user != "":
			e, err := c.EraseUser(cmd.Context(), user)
			return finished(cmd, c, e, err)
		case org != "":
			e, err := c.EraseOrganisation(cmd.Context(), org)
			return finished(cmd, c, e, err)
		}
		if err := c.DeleteSession(cmd.Context(), session); err != nil {
			return err
		}
		say(cmd.OutOrStdout(), "Session %s is erased.", session)
		return nil
	})
	return cmd
}

func exactlyOne(names ...string) bool {
	n := 0
	for _, name := range names {
		if name != "" {
			n++
		}
	}
	return n == 1
}

// erasurePoll is how often is asked how far an erasure is.
const erasurePoll = 200 * time.Millisecond

// finished waits until the server has done an erasure. Whoever stops waiting does not stop
// it, and whoever erases himself cannot wait: his key has ended.
func finished(cmd *cobra.Command, c *client.Client, e *client.Erasure, err error) error {
	over := waiting(cmd.ErrOrStderr(), "erasing")
	for err == nil && e.State != "finished" {
		select {
		case <-cmd.Context().Done():
			over()
			say(cmd.ErrOrStderr(), "The server goes on with erasure %s.", e.ErasureID)
			return context.Cause(cmd.Context())
		case <-time.After(erasurePoll):
		}
		id := e.ErasureID
		if e, err = c.Erasure(cmd.Context(), id); client.CodeOf(err) == client.CodeUnauthenticated {
			say(cmd.OutOrStdout(), "The server goes on with erasure %s. The key of this command has ended with it.", id)
			return nil
		}
	}
	over()
	if err != nil {
		return err
	}
	say(cmd.OutOrStdout(), "%d sessions are erased.", e.Sessions)
	return nil
}

func (d *dataFile) eraseOrg(cmd *cobra.Command, org string) (err error) {
	cfg, err := d.config(cmd)
	if err != nil {
		return err
	}
	store, err := openErasable(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	over := waiting(cmd.ErrOrStderr(), "erasing")
	n, err := store.EraseOrg(cmd.Context(), agent.OrgID(org))
	over()
	if err != nil {
		return fmt.Errorf("%d sessions are erased; then: %w", n, err)
	}
	keeper, err := node.OpenIndexes(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keeper.Close()) }()
	removed, err := keeper.RemoveAll(cmd.Context(), agent.OrgID(org))
	if err != nil {
		return fmt.Errorf("%d sessions are erased; then: %w", n, err)
	}
	say(cmd.OutOrStdout(), "%d sessions of %s are erased.", n, org)
	if removed > 0 {
		say(cmd.OutOrStdout(), "%d indexes of %s are removed.", removed, org)
	}
	return nil
}

// erasable is a store from which a whole organisation can be erased.
type erasable interface {
	EraseOrg(context.Context, agent.OrgID) (int, error)
	Close() error
}

// openErasable opens a store that is there; it makes no data file.
func openErasable(ctx context.Context, cfg config.Config) (erasable, error) {
	silent := slog.New(slog.DiscardHandler)
	if connection, ok := cfg.PostgreSQL(); ok {
		return postgres.Open(ctx, connection, silent)
	}
	if _, err := os.Stat(cfg.DatabasePath()); err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, cfg.DatabasePath(), silent)
}
