// Package architecture holds the source tree to ARCHITECTURE.md: every package has a
// row in its table, imports point down the tiers, and a few habits of the house
// (package comments, no init functions, no endless files, a reason for each
// dependency) are kept. It reads the files in the test's own process, so that the
// test cache notices a change of any of them. It has no part in a turn.
package architecture

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/aptixhq/aptix/internal/house"
)

// tests is the tier of packages that only tests use.
const tests = -1

// maxLines is how long a source file may grow; beyond it there is a second noun in it.
const maxLines = 700

// tiers reads the table of ARCHITECTURE.md: folder → tier.
func tiers(document string) (map[string]int, error) {
	rows, err := house.Rows(document, "Tier", "Folder", "Holds")
	if err != nil {
		return nil, fmt.Errorf("read the tiers: %w", err)
	}
	if len(rows) == 0 {
		return nil, errors.New("read the tiers: no table with the columns Tier, Folder, Holds")
	}
	out := make(map[string]int, len(rows))
	for _, row := range rows {
		folder := strings.Trim(row.Cells[1], "`")
		tier, err := strconv.Atoi(row.Cells[0])
		switch {
		case row.Cells[0] == "tests":
			tier = tests
		case err != nil || tier < 0:
			return nil, fmt.Errorf("read the tiers: line %d: %q is no tier", row.Line, row.Cells[0])
		}
		if _, twice := out[folder]; twice {
			return nil, fmt.Errorf("read the tiers: line %d: %s is there twice", row.Line, folder)
		}
		out[folder] = tier
	}
	return out, nil
}

// folder is a package as its files show it, its external test package included.
type folder struct {
	files    []file
	comments int // package comments
}

type file struct {
	name      string
	lines     int
	test      bool // _test.go
	generated bool
	inits     int
	imports   []string
}

// load reads every Go file of the tree, by folder.
func load(tree fs.FS) (map[string]*folder, error) {
	folders := make(map[string]*folder)
	fset := token.NewFileSet()
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.ContainsAny(d.Name()[:1], "._") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go":
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		dir := folders[path.Dir(name)]
		if dir == nil {
			dir = &folder{}
			folders[path.Dir(name)] = dir
		}
		if f.Doc != nil {
			dir.comments++
		}
		dir.files = append(dir.files, describe(name, data, f))
		return nil
	})
	return folders, err
}

func describe(name string, data []byte, f *ast.File) file {
	out := file{
		name:      name,
		lines:     bytes.Count(data, []byte("\n")),
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(f),
	}
	for _, decl := range f.Decls {
		if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			out.inits++
		}
	}
	for _, imp := range f.Imports {
		out.imports = append(out.imports, strings.Trim(imp.Path.Value, "`\""))
	}
	return out
}

// check returns every breach of the table and of the habits, one line each.
func check(tier map[string]int, folders map[string]*folder, module string) []string {
	var out []string
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, dir := range slices.Sorted(maps.Keys(tier)) {
		if folders[dir] == nil {
			say("%s has a row in ARCHITECTURE.md, but holds no Go file", dir)
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(folders)) {
		if _, ok := tier[dir]; !ok {
			say("%s has no row in ARCHITECTURE.md", dir)
			continue
		}
		if n := folders[dir].comments; n != 1 {
			say("%s has %d package comments, want one: what it is for, and where it sits in a turn", dir, n)
		}
		for _, f := range folders[dir].files {
			if f.inits > 0 {
				say("%s has an init function: let main build it, in sight", f.name)
			}
			if f.lines > maxLines && !f.test && !f.generated {
				say("%s has %d lines, more than %d: look for the second noun in it", f.name, f.lines, maxLines)
			}
			for _, imp := range f.imports {
				if why := refuse(tier, dir, f.test, imp, module); why != "" {
					say("%s imports %s: %s", f.name, imp, why)
				}
			}
		}
	}
	return out
}

// refuse says why a file of the folder may not import a package, "" when it may.
func refuse(tier map[string]int, dir string, test bool, imp, module string) string {
	target, ours := strings.CutPrefix(imp, module+"/")
	if imp == module {
		target, ours = ".", true
	}
	own := tier[dir]
	if !ours {
		if first, _, _ := strings.Cut(imp, "/"); own == 0 && !test && strings.Contains(first, ".") {
			return "tier 0 uses the standard library only"
		}
		return ""
	}
	to, known := tier[target]
	switch {
	case !known:
		return "it has no row in ARCHITECTURE.md"
	case own == tests || test && to == tests:
		return ""
	case to == tests:
		return "only tests use it"
	case test && to > own:
		return fmt.Sprintf("a test of tier %d does not reach up to tier %d", own, to)
	case test || to < own:
		return ""
	case to == own && strings.HasPrefix(dir, target+"/"):
		return "" // a folder within it
	}
	return fmt.Sprintf("tier %d imports only what is below it, not tier %d", own, to)
}
