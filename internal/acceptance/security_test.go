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

// TestSecurity holds the table of docs/security.md to the tests: each row is there, and has
// a test or says that it is open; each test that it names exists, and its comment names
// the row.
func TestSecurity(t *testing.T) {
	root, err := house.Root()
	if err != nil {
		t.Fatal(err)
	}
	document, err := os.ReadFile(filepath.Join(root, "docs", "security.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := house.Rows(string(document), "Id", "Case", "Tests")
	if err != nil {
		t.Fatal(err)
	}
	const last = 29
	for i, row := range rows {
		if want := fmt.Sprintf("S-%d", i+1); row.Cells[0] != want {
			t.Fatalf("line %d: row %s, want %s", row.Line, row.Cells[0], want)
		}
		tests := named.FindAllStringSubmatch(row.Cells[2], -1)
		if len(tests) != strings.Count(row.Cells[2], "`")/2 || len(tests) == 0 && !strings.Contains(row.Cells[2], "**open**") {
			t.Errorf("line %d: %s names no test, or one that cannot be read: %s", row.Line, row.Cells[0], row.Cells[2])
		}
		for _, m := range tests {
			comment, ok := commentOf(t, filepath.Join(root, m[1]), m[2])
			if !ok {
				t.Errorf("line %d: there is no test %s in %s", row.Line, m[2], m[1])
			} else if !regexp.MustCompile(regexp.QuoteMeta(row.Cells[0]) + `\b`).MatchString(comment) {
				t.Errorf("line %d: the comment of %s in %s does not name %s", row.Line, m[2], m[1], row.Cells[0])
			}
		}
	}
	if len(rows) != last {
		t.Errorf("%d rows, want %d", len(rows), last)
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
