package acceptance

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aptixhq/aptix/internal/prove"
)

// Scan finds the claims in a source tree: prove.Rule in tests and in what tests
// reach, such as a behaviour suite of another package, and the "proves:" lines of
// scenario files. The problems, one line each, are claims it cannot tie to a test.
//
// A test reaches what its source mentions by name, and so on from there. Mentions
// are not calls, so Scan may claim too much, never too little; the check of the test
// run (Run.Unproved) finds a claim that no run bears out.
func Scan(tree fs.FS, module string) (claims []Claim, problems []string, err error) {
	s := &scanner{module: module, fset: token.NewFileSet(), nodes: make(map[symbol]*node)}
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && strings.ContainsAny(d.Name()[:1], "._"):
			return fs.SkipDir
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		inData := strings.Contains("/"+path.Dir(name)+"/", "/testdata/")
		switch path.Ext(name) {
		case ".go":
			if inData {
				return nil
			}
		case ".txtar":
			if !inData {
				return nil
			}
		default:
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if path.Ext(name) == ".txtar" {
			s.scenario(name, data)
			return nil
		}
		return s.file(name, data)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("scan for claims: %w", err)
	}
	s.tie()
	slices.SortFunc(s.claims, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Test.Dir, b.Test.Dir), cmp.Compare(a.Test.Name, b.Test.Name))
	})
	slices.Sort(s.problems)
	return slices.Compact(s.claims), s.problems, nil
}

// symbol names something declared at the top of a package: pkg tells a folder's
// package from its external test package. Methods of one name are one symbol, its
// name led by a dot, for the receiver's type is not known here.
type symbol struct{ dir, pkg, name string }

// node is a symbol's declaration: the rules it names and the symbols it mentions.
type node struct {
	at       token.Position
	rules    []string
	mentions []symbol
	claimed  bool // some test reaches it
}

type scanner struct {
	module   string
	fset     *token.FileSet
	nodes    map[symbol]*node
	tests    []symbol
	claims   []Claim
	problems []string
}

func (s *scanner) problem(format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
}

// scenario takes the claims of a scenario file, which belong to the test that runs
// the files of its folder.
func (s *scanner) scenario(name string, data []byte) {
	ids := prove.Named(data)
	if len(ids) == 0 {
		return
	}
	folder, file := path.Dir(name), path.Base(name)
	test := Test{Dir: path.Dir(path.Dir(folder))}
	switch strings.TrimPrefix(folder, test.Dir+"/") {
	case "testdata/turns":
		test.Name = "TestTurns/" + file
	case "testdata/script": // testscript drops the ending
		test.Name = "TestScript/" + strings.TrimSuffix(file, ".txtar")
	default:
		s.problem("%s: claims rules, but only files in testdata/turns and testdata/script have a test that runs them", name)
		return
	}
	for _, id := range ids {
		s.claims = append(s.claims, Claim{Rule: id, Test: test})
	}
}

// file adds a source file's declarations to the graph.
func (s *scanner) file(name string, data []byte) error {
	f, err := parser.ParseFile(s.fset, name, data, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	v := visitor{scanner: s, dir: path.Dir(name), pkg: f.Name.Name, imports: make(map[string]string)}
	for _, imp := range f.Imports {
		full, err := strconv.Unquote(imp.Path.Value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rel, ours := strings.CutPrefix(full, s.module+"/")
		if !ours {
			continue
		}
		local := path.Base(full)
		if imp.Name != nil {
			local = imp.Name.Name
		}
		v.imports[local] = rel
	}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			sym := symbol{v.dir, v.pkg, d.Name.Name}
			if d.Recv != nil {
				sym.name = "." + sym.name
			} else if strings.HasSuffix(name, "_test.go") && isTest(sym.name) {
				s.tests = append(s.tests, sym)
			}
			v.declare(sym, d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if vs, ok := spec.(*ast.ValueSpec); ok {
					for _, id := range vs.Names {
						v.declare(symbol{v.dir, v.pkg, id.Name}, vs)
					}
				}
			}
		}
	}
	return nil
}

// isTest reports whether go test runs a function of this name, with or without a
// fuzzer behind it.
func isTest(name string) bool {
	for _, prefix := range []string{"Test", "Fuzz"} {
		if rest, ok := strings.CutPrefix(name, prefix); ok && name != "TestMain" {
			r, _ := utf8.DecodeRuneInString(rest)
			return rest == "" || !unicode.IsLower(r)
		}
	}
	return false
}

// visitor walks the declarations of one file.
type visitor struct {
	*scanner
	dir, pkg string
	imports  map[string]string // local name → folder, of packages of this module
}

// declare adds what a declaration names and mentions to its symbol.
func (v visitor) declare(sym symbol, decl ast.Node) {
	n := v.nodes[sym]
	if n == nil {
		n = &node{at: v.fset.Position(decl.Pos())}
		v.nodes[sym] = n
	}
	var visit func(ast.Node) bool
	visit = func(at ast.Node) bool {
		switch e := at.(type) {
		case *ast.KeyValueExpr:
			// The key names a field, not a function of that name; and so below.
			ast.Inspect(e.Value, visit)
			return false
		case *ast.Field:
			ast.Inspect(e.Type, visit)
			return false
		case *ast.CallExpr:
			if v.isRule(e.Fun) {
				v.rules(n, e)
			}
		case *ast.SelectorExpr:
			if x, ok := e.X.(*ast.Ident); ok {
				if dir, ours := v.imports[x.Name]; ours {
					n.mentions = append(n.mentions, symbol{dir: dir, name: e.Sel.Name})
					return false
				}
			}
			n.mentions = append(n.mentions, symbol{v.dir, v.pkg, "." + e.Sel.Name})
			ast.Inspect(e.X, visit)
			return false
		case *ast.Ident:
			n.mentions = append(n.mentions, symbol{v.dir, v.pkg, e.Name})
		}
		return true
	}
	ast.Inspect(decl, visit)
}

// isRule reports whether fun is prove.Rule.
func (v visitor) isRule(fun ast.Expr) bool {
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Rule" {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return ok && v.imports[x.Name] == "internal/prove"
}

// rules takes the ids of a call of prove.Rule, which must be string literals: what a
// test proves is to be read in its source.
func (v visitor) rules(n *node, call *ast.CallExpr) {
	at := v.fset.Position(call.Pos())
	if len(call.Args) < 2 {
		v.problem("%s:%d: prove.Rule names no rule", at.Filename, at.Line)
		return
	}
	for _, arg := range call.Args[1:] {
		lit, ok := arg.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			v.problem("%s:%d: prove.Rule takes string literals only, so that the table can be made from the source", at.Filename, at.Line)
			return
		}
		id, err := strconv.Unquote(lit.Value)
		if err != nil {
			v.problem("%s:%d: prove.Rule: %v", at.Filename, at.Line, err)
			return
		}
		n.rules = append(n.rules, id)
	}
}

// tie follows the mentions of every test to the rules it reaches, and names the
// claims that no test reaches.
func (s *scanner) tie() {
	s.resolve()
	for _, test := range s.tests {
		seen := map[symbol]bool{test: true}
		for todo := []symbol{test}; len(todo) > 0; {
			n := s.nodes[todo[0]]
			todo = todo[1:]
			n.claimed = true
			for _, id := range n.rules {
				s.claims = append(s.claims, Claim{Rule: id, Test: Test{Dir: test.dir, Name: test.name}})
			}
			for _, m := range n.mentions {
				if s.nodes[m] != nil && !seen[m] {
					seen[m] = true
					todo = append(todo, m)
				}
			}
		}
	}
	for sym, n := range s.nodes {
		if len(n.rules) > 0 && !n.claimed {
			s.problem("%s:%d: %s names rules, but no test mentions it", n.at.Filename, n.at.Line, strings.TrimPrefix(sym.name, "."))
		}
	}
}

// resolve fills in the package of mentions that came through an import: the one of
// the folder that is not its external test package.
func (s *scanner) resolve() {
	pkgs := make(map[string]string)
	for sym := range s.nodes {
		if !strings.HasSuffix(sym.pkg, "_test") {
			pkgs[sym.dir] = sym.pkg
		}
	}
	for _, n := range s.nodes {
		for i, m := range n.mentions {
			if m.pkg == "" {
				n.mentions[i].pkg = pkgs[m.dir]
			}
		}
	}
}
