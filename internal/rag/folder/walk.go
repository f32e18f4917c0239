package folder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"unicode/utf8"
)

// Folder is a folder that can be indexed.
type Folder struct {
	// Path is absolute.
	Path string
	// MaxFile is the size of the largest file that is indexed; 1 MiB when zero.
	MaxFile int64
	// MaxFiles is how many files there may be; 100,000 when zero.
	MaxFiles int
}

const (
	defaultMaxFile  = 1 << 20
	defaultMaxFiles = 100_000
)

// walk calls do with the path of each file that may be indexed, in lexical order: no
// links, nothing that git ignores, nothing of git itself.
func (f Folder) walk(ctx context.Context, root fs.FS, do func(path string) error) error {
	ig, err := newIgnore(f.Path)
	if err != nil {
		return fmt.Errorf("read what git ignores: %w", err)
	}
	most := f.MaxFiles
	if most <= 0 {
		most = defaultMaxFiles
	}
	return fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && path != "." && (errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist)):
			return nil // not for us, or gone meanwhile
		case err != nil:
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case path == ".":
			return ig.enter(root, path)
		case d.Name() == ".git", ig.skips(path, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir():
			return ig.enter(root, path)
		case !d.Type().IsRegular() || !utf8.ValidString(path):
			return nil
		}
		if most--; most < 0 {
			return errors.New("there are more files than an index takes; index the folders below it one by one, each under its own --name")
		}
		return do(path)
	})
}

// sniffed is how much of a file is looked at to tell text from other data.
const sniffed = 8000

// read returns a file's text; ok is false when it has none, or too much of it.
func (f Folder) read(root *os.Root, path string) (text []byte, ok bool, err error) {
	most := f.MaxFile
	if most <= 0 {
		most = defaultMaxFile
	}
	file, err := root.Open(path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer func() { _ = file.Close() }() // it was only read
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > most {
		return nil, false, err
	}
	text, err = io.ReadAll(io.LimitReader(file, most+1))
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", path, err)
	}
	return text, int64(len(text)) <= most && isText(text), nil
}

func isText(b []byte) bool {
	return bytes.IndexByte(b[:min(len(b), sniffed)], 0) < 0 && utf8.Valid(b) && bytes.IndexByte(b, 0) < 0
}
