package acceptance_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/acceptance"
	"github.com/aptixhq/aptix/internal/house"
)

var update = flag.Bool("update", false, "write docs/acceptance.md")

// TestAcceptance holds the tests of the repository to its rules: `make acceptance`
// brings the table up to date, the rest is for whoever writes the missing test.
func TestAcceptance(t *testing.T) {
	root, err := house.Root()
	if err != nil {
		t.Fatal(err)
	}
	docs := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	rules, err := acceptance.ReadRules(docs("rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	reasons, err := acceptance.ReadReasons(docs("unenforceable.md"))
	if err != nil {
		t.Fatal(err)
	}
	module, err := house.Module(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	claims, problems, err := acceptance.Scan(os.DirFS(root), module)
	if err != nil {
		t.Fatal(err)
	}

	if problems := append(problems, acceptance.Judge(rules, reasons, claims)...); len(problems) > 0 {
		t.Errorf("%d problems:\n%s", len(problems), strings.Join(problems, "\n"))
	}
	table := acceptance.Render(rules, reasons, claims)
	if *update {
		if err := os.WriteFile(filepath.Join(root, "docs", "acceptance.md"), []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got := docs("acceptance.md"); got != table {
		t.Errorf("docs/acceptance.md is not up to date, run `make acceptance`; it first differs here:\n%s", firstDifference(got, table))
	}
}

// firstDifference shows the first line in which two texts differ. The whole
// difference of two tables would bury the problems above it.
func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	i := 0
	for i < len(g)-1 && i < len(w)-1 && g[i] == w[i] {
		i++
	}
	return "got  " + g[i] + "\nwant " + w[i]
}
