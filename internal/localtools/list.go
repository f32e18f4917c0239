package localtools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
)

type listArgs struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
	Glob      string `json:"glob"`
}

type listResult struct {
	Path    string  `json:"path"`
	Entries []entry `json:"entries"`
	// More tells that there are more entries than were returned.
	More bool `json:"more"`
}

type entry struct {
	Path string `json:"path"`
	Type string `json:"type"` // file, dir, symlink, other
	Size *int64 `json:"size,omitempty"`
}

func (t *Tools) listFiles() localTool {
	return localTool{
		Definition: Definition{
			Name: "list_files",
			Description: "Lists the files of the user's project directory. Paths are relative to that directory and use forward slashes. " +
				"The folder .git is left out of recursive listings. Narrow the listing when the result says that there is more.",
			Parameters: json.RawMessage(`{"type":"object","properties":{` +
				`"path":{"type":"string","description":"Folder to list; the project directory itself when left out."},` +
				`"recursive":{"type":"boolean","description":"Whether to list everything below the folder too."},` +
				`"glob":{"type":"string","description":"Only files that match: *.go by name, src/**/*.go by path below the folder."}},` +
				`"additionalProperties":false}`),
		},
		prepare: func(raw []byte) (Action, error) {
			a, err := arguments[listArgs](raw)
			if err != nil {
				return Action{}, err
			}
			name, err := local(a.Path)
			if err != nil {
				return Action{}, err
			}
			match, err := newGlob(a.Glob)
			if err != nil {
				return Action{}, err
			}
			return Action{run: func(ctx context.Context) (any, error) { return t.list(ctx, name, a.Recursive, match) }}, nil
		},
	}
}

func (t *Tools) list(ctx context.Context, dir string, recursive bool, match glob) (any, error) {
	out := listResult{Path: dir, Entries: []entry{}}
	err := t.walk(ctx, dir, recursive, func(rel string, d fs.DirEntry) error {
		// A glob asks for files; a folder that cannot match would only be in the way.
		if match.pattern != "" && (d.IsDir() || !match.matches(rel)) {
			return nil
		}
		if len(out.Entries) >= t.limits.Entries {
			out.More = true
			return fs.SkipAll
		}
		e := entry{Path: path.Join(dir, rel), Type: "other"}
		switch mode := d.Type(); {
		case mode.IsDir():
			e.Type = "dir"
		case mode&fs.ModeSymlink != 0:
			e.Type = "symlink"
		case mode.IsRegular():
			e.Type = "file"
			if info, err := d.Info(); err == nil {
				size := info.Size()
				e.Size = &size
			}
		}
		out.Entries = append(out.Entries, e)
		return nil
	})
	if errors.Is(err, errTooMany) {
		out.More, err = true, nil
	}
	if err != nil {
		return nil, failed("list", dir, err)
	}
	return out, nil
}

// errTooMany ends a walk that has seen as much as it may.
var errTooMany = errors.New("too many files")

// walk visits what lies below a folder, in lexical order, with paths relative to it. It
// does not follow symbolic links, and passes over what it cannot read.
func (t *Tools) walk(ctx context.Context, dir string, recursive bool, visit func(rel string, d fs.DirEntry) error) error {
	info, err := t.root.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("it is not a directory")
	}
	sub, err := t.root.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Close() }()
	visits := 0
	return fs.WalkDir(sub.FS(), ".", func(rel string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("stopped: %w", context.Cause(ctx))
		case err != nil && rel == ".":
			return err
		case err != nil, rel == ".":
			return nil
		}
		if visits++; visits > t.limits.Visits {
			return errTooMany
		}
		if recursive && d.Name() == ".git" {
			return skip(d)
		}
		if err := visit(rel, d); err != nil {
			return err
		}
		if d.IsDir() && !recursive {
			return fs.SkipDir
		}
		return nil
	})
}

func skip(d fs.DirEntry) error {
	if d.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// where tells where a path of the directory really lies, when a symbolic link on the way
// leads to another place; "" when it lies where it says.
func (t *Tools) where(name string) string {
	real, err := evalExisting(t.dir, path.Dir(name))
	if err != nil {
		return ""
	}
	real = path.Join(real, path.Base(name))
	if real == name {
		return ""
	}
	return real
}

// exists returns what is at a path, not following a link; nil when nothing is.
func exists(root *os.Root, name string) (fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return info, err
}
