package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/aptixhq/aptix/internal/agent"
	"github.com/aptixhq/aptix/internal/mode"
	"github.com/aptixhq/aptix/internal/mode/interchange"
	"github.com/aptixhq/aptix/internal/node"
)

func newModesImport() *cobra.Command {
	var imp modeImport
	cmd := &cobra.Command{
		Use:   "import FILE|DIR...",
		Short: "Make mode files of the modes of other agents",
		Long: `Reads modes of Roo Code and Kilo Code (.roomodes, custom_modes.yaml, .kilocodemodes;
YAML or JSON) and custom agents of GitHub Copilot (*.agent.md), and writes one mode
file for each to the folder that --to names. In a DIR it looks for them under their
usual names. Rules beside them (.roo/rules-SLUG) become instructions.

It says of every mode what was taken, merged, changed, left out and refused. Rights are
never widened. A file that is there is kept, unless --force is given. When the folder
has no mode general, in which sessions start, the built-in one is added.

The exit code is 1 when a mode was refused; the others are written all the same.`,
		Args: takes(1, -1, "a file or a folder to import from"),
	}
	f := cmd.Flags()
	f.StringVar(&imp.to, "to", "", "folder of the mode files")
	f.BoolVar(&imp.dry, "dry-run", false, "say what would be done, and write nothing")
	f.BoolVar(&imp.force, "force", false, "replace mode files that are there")
	f.BoolVar(&imp.asJSON, "json", false, "print the report as JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if imp.to == "" {
			return usageError{errors.New("say with --to which folder the mode files go to"), cmd.CommandPath()}
		}
		return imp.run(cmd.OutOrStdout(), args)
	}
	return cmd
}

// modeImport is one run of modes import.
type modeImport struct {
	to                 string
	dry, force, asJSON bool
}

func (i modeImport) run(out io.Writer, args []string) error {
	sources, err := sourcesOf(args)
	if err != nil {
		return err
	}
	modes := interchange.Import(sources)
	files, err := i.plan(modes)
	if err != nil {
		return err
	}
	if !i.dry {
		if err := i.write(files); err != nil {
			return err
		}
	}
	if err := i.report(out, modes, files); err != nil {
		return err
	}
	if slices.ContainsFunc(modes, func(m interchange.Imported) bool { return !m.Taken() }) {
		return errReported
	}
	return nil
}

// sourcesOf finds the files that the arguments name.
func sourcesOf(args []string) ([]interchange.Source, error) {
	var sources []interchange.Source
	for _, arg := range args {
		info, err := os.Stat(arg)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			sources = append(sources, interchange.Source{FS: os.DirFS(filepath.Dir(arg)), Name: filepath.Base(arg), Shown: arg})
			continue
		}
		found := interchange.Find(os.DirFS(arg), filepath.ToSlash(arg))
		if len(found) == 0 {
			return nil, fmt.Errorf("%s has no .roomodes, custom_modes.yaml, .kilocodemodes or *.agent.md; name the file", arg)
		}
		sources = append(sources, found...)
	}
	return sources, nil
}

// plannedFile is a mode file that is to be there afterwards.
type plannedFile struct {
	path string
	text []byte
	// state is new, replaced or as it was.
	state string
}

// plan decides what is written. A mode whose file must be kept is refused.
func (i modeImport) plan(modes []interchange.Imported) ([]plannedFile, error) {
	var files []plannedFile
	for n := range modes {
		m := &modes[n]
		if !m.Taken() {
			continue
		}
		f := plannedFile{path: filepath.Join(i.to, m.Name()), text: m.File, state: "new"}
		was, err := os.ReadFile(f.path)
		switch {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, err
		case bytes.Equal(was, f.text):
			f.state = "as it was"
		case i.force:
			f.state = "replaced"
		default:
			m.Why = f.path + " is there already; --force replaces it"
			continue
		}
		files = append(files, f)
	}
	return i.withGeneral(files)
}

// withGeneral adds the mode in which sessions start, when there is none.
func (i modeImport) withGeneral(files []plannedFile) ([]plannedFile, error) {
	path := filepath.Join(i.to, string(agent.ModeGeneral)+".yaml")
	_, err := os.Stat(path)
	if err == nil || len(files) == 0 || slices.ContainsFunc(files, func(f plannedFile) bool { return f.path == path }) {
		return files, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	general, _ := mode.Builtin().Get(agent.ModeGeneral)
	text, err := interchange.File(general)
	return append(files, plannedFile{path: path, text: text, state: "added, since sessions start in it"}), err
}

// write puts the files in place. A server that reads the folder meanwhile sees each of
// them whole or not at all.
func (i modeImport) write(files []plannedFile) error {
	if err := os.MkdirAll(i.to, 0o755); err != nil {
		return err
	}
	for _, f := range files {
		if f.state == "as it was" {
			continue
		}
		// Names that begin with a dot are not read.
		draft := filepath.Join(i.to, "."+filepath.Base(f.path)+".new")
		if err := os.WriteFile(draft, f.text, 0o644); err != nil {
			return err
		}
		if err := os.Rename(draft, f.path); err != nil {
			return errors.Join(err, os.Remove(draft))
		}
	}
	return nil
}

func (i modeImport) report(out io.Writer, modes []interchange.Imported, files []plannedFile) error {
	if i.asJSON {
		return printJSON(out, struct {
			DryRun bool                   `json:"dryRun"`
			To     string                 `json:"to"`
			Modes  []interchange.Imported `json:"modes"`
		}{i.dry, i.to, modes})
	}
	taken := 0
	for _, m := range modes {
		switch {
		case m.Taken():
			taken++
			say(out, "%s: %s is %s", m.Source, m.Slug, filepath.Join(i.to, m.Name()))
		case m.Slug == "":
			say(out, "%s: refused: %s", m.Source, m.Why)
		default:
			say(out, "%s: %s is refused: %s", m.Source, m.Slug, m.Why)
		}
		sayNotes(out, m.Notes)
	}
	for _, f := range files {
		if f.state != "new" {
			say(out, "%s: %s", f.path, f.state)
		}
	}
	if i.dry {
		say(out, "%d of %d modes can be taken. Nothing was written.", taken, len(modes))
		return nil
	}
	say(out, "%d of %d modes were taken.", taken, len(modes))
	return nil
}

func sayNotes(out io.Writer, notes []interchange.Note) {
	for _, n := range notes {
		say(out, "  %-8s  %s", n.Kind, n.Text)
	}
}

func newModesExport() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "export [DIR]",
		Short: "Write modes as a .roomodes file",
		Long: `Writes the modes in a folder as a .roomodes file, to standard output or to the file
that --file names, and says on standard error what the format cannot hold. Without DIR
it takes the modes that are configured, or those built in.`,
		Args: takes(0, 1, ""),
	}
	cmd.Flags().StringVar(&file, "file", "", "file to write, which must not be there yet")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		dir, err := configuredModes(args)
		if err != nil {
			return err
		}
		files, err := node.ModeFiles(dir)
		if err != nil {
			return err
		}
		catalog, err := mode.Load(files)
		if err != nil {
			return err
		}
		text, report, err := interchange.Export(catalog.All())
		if err != nil {
			return err
		}
		if err := writeExport(cmd.OutOrStdout(), file, text); err != nil {
			return err
		}
		for _, e := range report {
			say(cmd.ErrOrStderr(), "%s is %s", e.Key, e.Slug)
			sayNotes(cmd.ErrOrStderr(), e.Notes)
		}
		return nil
	}
	return cmd
}

func writeExport(out io.Writer, name string, text []byte) (err error) {
	if name == "" {
		return exactly(out, string(text))
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(text)
	return err
}
