package acceptance_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/house"
)

// named is a test as a table names it.
var named = regexp.MustCompile("`([a-z0-9/]+): (\\w+)`")

// TestSecurity holds the table of docs/security.md to the tests.
func TestSecurity(t *testing.T) {
	var ids []string
	for n := range 29 {
		ids = append(ids, fmt.Sprintf("S-%d", n+1))
	}
	holdTable(t, "security.md", ids, "Id", "Case", "Tests")
}

// TestLimits holds the figures of docs/limits.md to the tests and benchmarks that show them.
func TestLimits(t *testing.T) {
	var ids []string
	for n := range 12 {
		ids = append(ids, fmt.Sprintf("L-%d", n+1))
	}
	holdTable(t, "limits.md", append(ids, "D-6"), "Id", "What was done", "What was seen", "Tests")
}

// holdTable holds a table, whose last column has tests, to them: each row is there, and has a
// test or says that it is open; each test that it names exists, and its comment names the row.
func holdTable(t *testing.T, document string, ids []string, columns ...string) {
	t.Helper()
	root, err := house.Root()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "docs", document))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := house.Rows(string(text), columns...)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) != len(ids) {
		t.Fatalf("%d rows, want %d", len(rows), len(ids))
	}
	for i, row := range rows {
		id, cell := row.Cells[0], row.Cells[len(columns)-1]
		if id != ids[i] {
			t.Fatalf("line %d: row %s, want %s", row.Line, id, ids[i])
		}
		tests := named.FindAllStringSubmatch(cell, -1)
		if len(tests) != strings.Count(cell, "`")/2 || len(tests) == 0 && !strings.Contains(cell, "**open**") {
			t.Errorf("line %d: %s names no test, or one that cannot be read: %s", row.Line, id, cell)
		}
		for _, m := range tests {
			comment, ok := commentOf(t, filepath.Join(root, m[1]), m[2])
			if !ok {
				t.Errorf("line %d: there is no test %s in %s", row.Line, m[2], m[1])
			} else if !regexp.MustCompile(regexp.QuoteMeta(id) + `\b`).MatchString(comment) {
				t.Errorf("line %d: the comment of %s in %s does not name %s", row.Line, m[2], m[1], id)
			}
		}
	}
}

// commentOf returns the comment of a test of a folder.
func commentOf(t *testing.T, folder, test string) (comment string, ok bool) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, is := d.(*ast.FuncDecl); is && fn.Name.Name == test && fn.Recv == nil {
				return fn.Doc.Text(), true
			}
		}
	}
	return "", false
}
