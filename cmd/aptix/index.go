package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/config"
	"github.com/aptixhq/aptix/internal/node"
	"github.com/aptixhq/aptix/internal/rag"
	"github.com/aptixhq/aptix/internal/rag/folder"
)

func newIndex() *cobra.Command {
	var d dataFile
	var x indexing
	cmd := &cobra.Command{
		Use:   "index DIR",
		Short: "Make the files of a folder known to the agent",
		Long: `Indexes the text files of a folder, or brings its index up to date: only what changed
since the last time is read into passages and embedded again, and what is gone is taken
out. A server that runs finds them at once, and shows the model of each turn the
passages that fit its question; the answer names them as sources.

What git ignores is left out, and so are links, files that are no text and large ones.
Ctrl-C leaves what is done; the next run goes on from there. The index is a file beside
the data file, and can be made again at any time.`,
		Example: `  aptix index .
  aptix index --name docs ~/handbook
  aptix index list`,
	}
	group(cmd)
	cmd.AddCommand(newIndexList(), newIndexRemove())
	d.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&x.name, "name", "", "name of the index (default: that of the folder)")
	f.StringVar(&x.repo, "repo", "", "repository that the folder belongs to, for ragScope (default: the name)")
	f.StringVar(&x.org, "org", localOrg, "organisation whose turns may see it")
	f.BoolVar(&x.rebuild, "rebuild", false, "build it anew, such as with another embedder or for a folder that was moved")
	f.Int64Var(&x.maxFile, "max-file", 1<<20, "size of the largest file that is indexed, in bytes")
	help := cmd.RunE
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			return help(cmd, args)
		case len(args) > 1:
			return usageError{fmt.Errorf("%s does not take %q", cmd.CommandPath(), args[1]), cmd.CommandPath()}
		}
		cfg, err := d.config(cmd)
		if err != nil {
			return err
		}
		return x.run(cmd, cfg, args[0])
	})
	return cmd
}

// indexing is one run over a folder.
type indexing struct {
	name, repo, org string
	rebuild         bool
	maxFile         int64
}

func (x indexing) run(cmd *cobra.Command, cfg config.Config, dir string) (err error) {
	want, err := x.index(dir)
	if err != nil {
		return usageError{err, cmd.CommandPath()}
	}
	vectors, err := node.Embedder(cfg)
	if err != nil {
		return err
	}
	keeper, err := node.OpenIndexes(cmd.Context(), cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, keeper.Close()) }()
	ctx := cmd.Context()
	if x.rebuild {
		if err := keeper.Remove(ctx, want.Org, want.Name); err != nil && !errors.Is(err, rag.ErrNoIndex) {
			return err
		}
	}
	shown := newProgress(cmd.ErrOrStderr())
	update := folder.Updater{Keeper: keeper, Folder: folder.Folder{Path: want.Root, MaxFile: x.maxFile}, Embedder: vectors, Progress: shown.step}
	began := time.Now()
	report, err := update.Update(ctx, want)
	shown.end()
	if err != nil {
		if ctx.Err() != nil {
			say(cmd.ErrOrStderr(), "Stopped. %d changed files are indexed; the next run goes on from there.", report.Changed)
		}
		return err
	}
	say(cmd.OutOrStdout(), "%s: %d files, %d of them new or changed (%d passages), %d removed, %d skipped, in %s",
		want.Name, report.Files, report.Changed, report.Chunks, report.Removed, report.Skipped, time.Since(began).Round(time.Millisecond))
	return nil
}

var notInName = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// index returns the index that is wanted.
func (x indexing) index(dir string) (rag.Index, error) {
	root, err := filepath.Abs(dir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return rag.Index{}, err
	}
	name := x.name
	if name == "" {
		name = notInName.ReplaceAllString(filepath.Base(root), "-")
	}
	repo := x.repo
	if repo == "" {
		repo = name
	}
	switch {
	case !agent.ValidID(name):
		return rag.Index{}, fmt.Errorf("--name: %q has other characters than A-Z a-z 0-9 _ . -, or more than 128", name)
	case x.org == "":
		return rag.Index{}, errors.New("--org: must not be empty")
	case x.maxFile < 1:
		return rag.Index{}, errors.New("--max-file: must be 1 or more")
	}
	return rag.Index{Org: agent.OrgID(x.org), Name: name, Repo: repo, Root: root}, nil
}

func newIndexList() *cobra.Command {
	var d dataFile
	var org string
	cmd := &cobra.Command{Use: "list", Short: "List the indexes", Args: takes(0, 0, "")}
	d.flags(cmd)
	cmd.Flags().StringVar(&org, "org", localOrg, "organisation whose indexes are listed")
	cmd.RunE = stoppable(func(cmd *cobra.Command, _ []string) (err error) {
		cfg, err := d.config(cmd)
		if err != nil {
			return err
		}
		keeper, err := node.OpenIndexes(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keeper.Close()) }()
		return listIndexes(cmd.Context(), keeper, agent.OrgID(org), cmd.OutOrStdout())
	})
	return cmd
}

func listIndexes(ctx context.Context, keeper rag.Keeper, org agent.OrgID, out io.Writer) error {
	list, err := keeper.Indexes(ctx, org)
	if err != nil {
		return err
	}
	t := newTable(out)
	t.row("INDEX", "REPO", "FILES", "PASSAGES", "EMBEDDER", "CHANGED", "FOLDER")
	for _, x := range list {
		files, chunks, err := keeper.Count(ctx, x)
		if err != nil {
			return err
		}
		vectors := "none"
		if x.Embedder != "" {
			vectors = fmt.Sprintf("%s/%d", x.Embedder, x.Dimension)
		}
		t.row(x.Name, x.Repo, files, chunks, vectors, when(x.UpdatedAt), x.Root)
	}
	return t.flush()
}

func newIndexRemove() *cobra.Command {
	var d dataFile
	var org string
	cmd := &cobra.Command{Use: "remove NAME", Short: "Remove an index", Args: takes(1, 1, "the name of an index")}
	d.flags(cmd)
	cmd.Flags().StringVar(&org, "org", localOrg, "organisation whose index it is")
	cmd.RunE = stoppable(func(cmd *cobra.Command, args []string) (err error) {
		cfg, err := d.config(cmd)
		if err != nil {
			return err
		}
		keeper, err := node.OpenIndexes(cmd.Context(), cfg)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, keeper.Close()) }()
		err = keeper.Remove(cmd.Context(), agent.OrgID(org), args[0])
		if errors.Is(err, rag.ErrNoIndex) {
			return fmt.Errorf("there is no index %q; 'aptix index list' lists them", args[0])
		}
		if err != nil {
			return err
		}
		say(cmd.OutOrStdout(), "Index %s is removed.", args[0])
		return nil
	})
	return cmd
}
