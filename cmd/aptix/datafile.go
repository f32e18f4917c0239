package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
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
	var session, org string
	var yes bool
	cmd := &cobra.Command{
		Use:   "erase",
		Short: "Erase a session, or all of an organisation",
		Long: `Erases a session with its turns, its history and the files that no other session uses;
what runs of it is broken off. The server does it.

With --org it erases every session of an organisation and its indexes, in the data file
itself: stop the server first. In a PostgreSQL database it does so while servers run;
what they run of it is broken off.

What is erased is overwritten in the data file, which gets smaller; PostgreSQL gives
the space free when it vacuums. It cannot be undone. Copies that were made, with
'aptix backup' or PostgreSQL's own means, keep what they have.`,
		Args: takes(0, 0, ""),
	}
	r.flags(cmd)
	d.flags(cmd)
	cmd.Flags().StringVar(&session, "session", "", "id of the session")
	cmd.Flags().StringVar(&org, "org", "", "id of the organisation")
	cmd.Flags().BoolVar(&yes, "yes", false, "do it")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) error {
		switch {
		case (session == "") == (org == ""):
			return usageError{errors.New("name what to erase, with either --session or --org"), cmd.CommandPath()}
		case !yes:
			return usageError{errors.New("it cannot be undone; add --yes to do it"), cmd.CommandPath()}
		case org != "":
			return d.eraseOrg(cmd, org)
		}
		c, err := r.client(cmd)
		if err != nil {
			return err
		}
		if err := c.DeleteSession(cmd.Context(), session); err != nil {
			return err
		}
		say(cmd.OutOrStdout(), "Session %s is erased.", session)
		return nil
	})
	return cmd
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
	n, err := store.EraseOrg(cmd.Context(), agent.OrgID(org))
	if err != nil {
		return fmt.Errorf("%d sessions are erased; then: %w", n, err)
	}
	keeper, err := openIndexes(cmd.Context(), cfg)
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
