package localtools

import (
	"fmt"
	"path"
	"path/filepath"
	"strings"
)

// glob selects files. Without a slash it is matched with the file's name, else with its
// path below the folder, where ** stands for any number of folders.
type glob struct{ pattern string }

func newGlob(pattern string) (glob, error) {
	pattern = strings.TrimPrefix(pattern, "./")
	if len(pattern) > maxPath {
		return glob{}, fmt.Errorf("the glob is longer than %d bytes", maxPath)
	}
	for segment := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(segment, ""); err != nil {
			return glob{}, fmt.Errorf("the glob %q is not valid: %w", pattern, err)
		}
	}
	return glob{pattern}, nil
}

// matches reports whether a path, relative to the folder, is selected. An empty glob
// selects everything.
func (g glob) matches(rel string) bool {
	switch {
	case g.pattern == "":
		return true
	case !strings.Contains(g.pattern, "/"):
		ok, _ := path.Match(g.pattern, path.Base(rel))
		return ok
	}
	return matchSegments(strings.Split(g.pattern, "/"), strings.Split(rel, "/"))
}

// matchSegments matches segment by segment. Only the last ** met can usefully take more
// segments than it did, so going back to that one is enough, and the cost stays
// quadratic.
func matchSegments(pattern, segments []string) bool {
	p, s := 0, 0
	star, taken := -1, 0
	for s < len(segments) {
		if p < len(pattern) {
			if pattern[p] == "**" {
				star, taken = p, s
				p++
				continue
			}
			if ok, _ := path.Match(pattern[p], segments[s]); ok {
				p, s = p+1, s+1
				continue
			}
		}
		if star < 0 {
			return false
		}
		taken++
		p, s = star+1, taken
	}
	for p < len(pattern) && pattern[p] == "**" {
		p++
	}
	return p == len(pattern)
}

// evalExisting returns where the folder name of dir really lies, relative to dir, as far
// as it exists. It is for showing only; access goes through the os.Root.
func evalExisting(dir, name string) (string, error) {
	rest := ""
	for {
		real, err := filepath.EvalSymlinks(filepath.Join(dir, filepath.FromSlash(name)))
		if err == nil {
			rel, err := filepath.Rel(dir, real)
			return path.Join(filepath.ToSlash(rel), rest), err
		}
		if name == "." {
			return "", err
		}
		rest = path.Join(path.Base(name), rest)
		name = path.Dir(name)
	}
}
