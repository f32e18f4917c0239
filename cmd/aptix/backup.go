package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/store/sqlite"
)

func newBackup() *cobra.Command {
	var d dataFile
	var force bool
	cmd := &cobra.Command{
		Use:   "backup FILE",
		Short: "Copy the data file, also while the server runs",
		Long: `Copies the data file as it is at one moment, also while a server writes to it. The
copy is one file, compact, checked and synced before it gets its name.

To restore it, stop the server, put the copy in the place of the data file, remove
the -wal and -shm files beside that, and start the server again.

A PostgreSQL database has means of its own, pg_dump and pg_basebackup; use those.`,
		Args: takes(1, 1, "the name of the copy"),
	}
	d.flags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "replace a file of that name")
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		cfg, err := d.config(cmd)
		if err != nil {
			return err
		}
		if _, ok := cfg.PostgreSQL(); ok {
			return notAFile(cfg, "copy it with pg_dump, or with pg_basebackup and its log to be able to go back to any moment; both work while servers run")
		}
		began := time.Now()
		over := waiting(cmd.ErrOrStderr(), "copying and checking")
		size, err := sqlite.Backup(cmd.Context(), cfg.DatabasePath(), args[0], force)
		over()
		if errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s is there already; choose another name, or replace it with --force", args[0])
		}
		if err != nil {
			return err
		}
		say(cmd.OutOrStdout(), "%s: %s in %s", args[0], bytesOf(size), time.Since(began).Round(time.Millisecond))
		return nil
	})
	return cmd
}

// bytesOf renders a size for people.
func bytesOf(n int64) string {
	const unit = 1024
	switch {
	case n < unit:
		return fmt.Sprintf("%d B", n)
	case n < unit*unit:
		return fmt.Sprintf("%.1f KiB", float64(n)/unit)
	case n < unit*unit*unit:
		return fmt.Sprintf("%.1f MiB", float64(n)/unit/unit)
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/unit/unit/unit)
	}
}
