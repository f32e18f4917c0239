package folder

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// ignore knows what git would leave out. Patterns of a folder weigh more than those of
// the folders above it.
type ignore struct {
	// above is the way from the top of the repository to the walked folder.
	above    []string
	patterns []gitignore.Pattern
}

// maxIgnoreFile bounds a file of patterns.
const maxIgnoreFile = 1 << 20

// newIgnore reads what holds above a folder: the repository's own exclusions, and the
// .gitignore files from its top down to the folder's parent.
func newIgnore(dir string) (*ignore, error) {
	ig := &ignore{}
	top := dir
	for {
		if _, err := os.Stat(filepath.Join(top, ".git")); err == nil {
			break
		}
		parent := filepath.Dir(top)
		if parent == top {
			return ig, nil // no repository: nothing above holds
		}
		top = parent
	}
	if err := ig.read(os.DirFS(top), ".git/info/exclude", nil); err != nil {
		return nil, err
	}
	way, err := filepath.Rel(top, dir)
	if err != nil {
		return nil, err
	}
	if way == "." {
		return ig, nil
	}
	ig.above = strings.Split(filepath.ToSlash(way), "/")
	for i := range ig.above {
		at := filepath.Join(append([]string{top}, ig.above[:i]...)...)
		if err := ig.read(os.DirFS(at), ".gitignore", ig.above[:i]); err != nil {
			return nil, err
		}
	}
	return ig, nil
}

// enter adds the patterns of a folder below the walked one.
func (ig *ignore) enter(root fs.FS, dir string) error {
	domain := ig.above
	name := ".gitignore"
	if dir != "." {
		domain = slices.Concat(ig.above, strings.Split(dir, "/"))
		name = dir + "/.gitignore"
	}
	return ig.read(root, name, domain)
}

func (ig *ignore) read(fsys fs.FS, name string, domain []string) error {
	f, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) || err != nil && isLink(fsys, name) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	lines := bufio.NewScanner(io.LimitReader(f, maxIgnoreFile))
	lines.Buffer(nil, maxIgnoreFile)
	for lines.Scan() {
		if p := strings.TrimSuffix(lines.Text(), "\r"); strings.TrimSpace(p) != "" && !strings.HasPrefix(p, "#") {
			ig.patterns = append(ig.patterns, gitignore.ParsePattern(p, domain))
		}
	}
	return lines.Err()
}

// isLink tells a link, which may lead out of the folder and is not followed.
func isLink(fsys fs.FS, name string) bool {
	info, err := fs.Lstat(fsys, name)
	return err == nil && info.Mode()&fs.ModeSymlink != 0
}

// skips reports whether git would leave a path below the walked folder out.
func (ig *ignore) skips(path string, isDir bool) bool {
	return gitignore.NewMatcher(ig.patterns).Match(slices.Concat(ig.above, strings.Split(path, "/")), isDir)
}
