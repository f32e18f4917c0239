package rag

import (
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing/format/gitignore"
)

// Hints are what a mode says about retrieval. Each is the name of an index, or a
// pattern of paths as a .gitignore file has them: docs, *.md, /internal/**/testdata.
type Hints struct {
	// Prefer lifts what it names: it counts as if one more search had found it.
	Prefer []string
	// Exclude keeps out what it names.
	Exclude []string
}

// patterns is a list of hints, ready to be asked.
type patterns struct {
	names []string
	paths gitignore.Matcher
}

func newPatterns(hints []string) patterns {
	var list []gitignore.Pattern
	for _, h := range hints {
		list = append(list, gitignore.ParsePattern(h, nil))
	}
	return patterns{names: hints, paths: gitignore.NewMatcher(list)}
}

func (p patterns) empty() bool { return len(p.names) == 0 }

func (p patterns) match(index, path string) bool {
	return slices.Contains(p.names, index) || p.paths.Match(strings.Split(path, "/"), false)
}
