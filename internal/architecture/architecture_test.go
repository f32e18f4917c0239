package architecture

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/aptixhq/aptix/internal/house"
)

// repository is the tree that this test stands in.
func repository(t *testing.T) fs.FS {
	t.Helper()
	root, err := house.Root()
	if err != nil {
		t.Fatal(err)
	}
	return os.DirFS(root)
}

func read(t *testing.T, tree fs.FS, name string) string {
	t.Helper()
	data, err := fs.ReadFile(tree, name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func inspect(t *testing.T, tree fs.FS) []string {
	t.Helper()
	tier, err := tiers(read(t, tree, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	folders, err := load(tree)
	if err != nil {
		t.Fatal(err)
	}
	module, err := house.Module(tree)
	if err != nil {
		t.Fatal(err)
	}
	return check(tier, folders, module)
}

// TestArchitecture holds this repository to the table in ARCHITECTURE.md.
func TestArchitecture(t *testing.T) {
	if problems := inspect(t, repository(t)); len(problems) > 0 {
		t.Errorf("%d problems:\n%s", len(problems), strings.Join(problems, "\n"))
	}
}

// TestDependencies asks for a reason, in docs/dependencies.md, for each dependency.
func TestDependencies(t *testing.T) {
	tree := repository(t)
	gomod := read(t, tree, "go.mod")
	rows, err := house.Rows(read(t, tree, "docs/dependencies.md"), "Module", "Why")
	if err != nil {
		t.Fatal(err)
	}
	named := make(map[string]bool)
	for _, row := range rows {
		module := strings.Trim(row.Cells[0], "`")
		named[module] = true
		if row.Cells[1] == "" {
			t.Errorf("docs/dependencies.md:%d: %s has no reason", row.Line, module)
		}
		if !strings.Contains(gomod, module+" v") {
			t.Errorf("docs/dependencies.md:%d: go.mod does not require %s", row.Line, module)
		}
	}
	for _, module := range modules(gomod) {
		if !named[module] {
			t.Errorf("%s has no line in docs/dependencies.md", module)
		}
	}
}

func TestModules(t *testing.T) {
	const gomod = `module m

go 1.26.0 // the language

require example.com/alone v1.0.0

require (
	example.com/direct v1.0.0
	example.com/indirect v1.0.0 // indirect
	example.com/tool v1.0.0 // indirect
	example.com/toolbox v1.0.0 // indirect
	example.com/single v1.0.0 // indirect
)

replace example.com/direct => example.com/fork v1.0.0

tool (
	example.com/tool/cmd/x
)

tool example.com/single
`
	want := []string{"example.com/alone", "example.com/direct", "example.com/single", "example.com/tool"}
	if diff := cmp.Diff(modules(gomod), want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

// sound is a tree without a breach; each case below adds or replaces files.
const sound = `
-- go.mod --
module m
-- ARCHITECTURE.md --
| Tier | Folder | Holds |
|---|---|---|
| 2 | ` + "`cmd/m`" + ` | command |
| 2 | ` + "`.`" + ` | the module itself |
| 1 | ` + "`mode`" + ` | modes |
| 1 | ` + "`mode/lint`" + ` | part of modes |
| 1 | ` + "`tool`" + ` | tools |
| 0 | ` + "`agent`" + ` | nouns |
| tests | ` + "`prove`" + ` | support |
-- m.go --
// Package m is.
package m
-- agent/a.go --
// Package agent is.
package agent
import "fmt"
-- agent/a_test.go --
package agent_test
import ("m/prove"; "example.com/cmp")
-- mode/a.go --
// Package mode is.
package mode
import ("m/agent"; "example.com/yaml")
-- mode/lint/a.go --
// Package lint is.
package lint
import ("m/agent"; "m/mode")
-- tool/a.go --
// Package tool is.
package tool
-- tool/a_test.go --
package tool
import "m/mode"
-- prove/a.go --
// Package prove is.
package prove
import "m/mode"
-- cmd/m/main.go --
// Command m is.
package main
import ("m/agent"; "m/mode"; "m/tool")
-- mode/testdata/x/a.go --
package x
func init() {}
-- _old/a.go --
package old
`

func TestCheck(t *testing.T) {
	tests := []struct {
		name, change string
		want         []string
	}{
		{"sound", "", nil},
		{"upwards", "-- mode/b.go --\npackage mode\nimport `m/cmd/m`\n",
			[]string{"mode/b.go imports m/cmd/m: tier 1 imports only what is below it, not tier 2"}},
		{"sideways", "-- mode/b.go --\npackage mode\nimport \"m/tool\"\n",
			[]string{"mode/b.go imports m/tool: tier 1 imports only what is below it, not tier 1"}},
		{"up to the root of the module", "-- mode/b.go --\npackage mode\nimport \"m\"\n",
			[]string{"mode/b.go imports m: tier 1 imports only what is below it, not tier 2"}},
		{"a folder its own subfolder", "-- mode/b.go --\npackage mode\nimport \"m/mode/lint\"\n",
			[]string{"mode/b.go imports m/mode/lint: tier 1 imports only what is below it, not tier 1"}},
		{"test support in the product", "-- mode/b.go --\npackage mode\nimport \"m/prove\"\n",
			[]string{"mode/b.go imports m/prove: only tests use it"}},
		{"a test upwards", "-- agent/b_test.go --\npackage agent\nimport \"m/mode\"\n",
			[]string{"agent/b_test.go imports m/mode: a test of tier 0 does not reach up to tier 1"}},
		{"the vocabulary with a dependency", "-- agent/b.go --\npackage agent\nimport \"example.com/uuid\"\n",
			[]string{"agent/b.go imports example.com/uuid: tier 0 uses the standard library only"}},
		{"a package without a row", "-- new/a.go --\n// Package new is.\npackage new\n-- cmd/m/b.go --\npackage main\nimport \"m/new\"\n",
			[]string{"cmd/m/b.go imports m/new: it has no row in ARCHITECTURE.md", "new has no row in ARCHITECTURE.md"}},
		{"a row without a package", "-- tool/a.go --\n-- tool/a_test.go --\n",
			[]string{"tool has a row in ARCHITECTURE.md, but holds no Go file"}},
		{"no package comment", "-- tool/a.go --\n\npackage tool\n",
			[]string{"tool has 0 package comments, want one: what it is for, and where it sits in a turn"}},
		{"two package comments", "-- tool/b.go --\n// Package tool is, too.\npackage tool\n",
			[]string{"tool has 2 package comments, want one: what it is for, and where it sits in a turn"}},
		{"init", "-- tool/b.go --\npackage tool\nfunc init() {}\n",
			[]string{"tool/b.go has an init function: let main build it, in sight"}},
		{"a method called init", "-- tool/b.go --\npackage tool\nfunc (t T) init() {}\n", nil},
		{"long", "-- tool/b.go --\npackage tool\n" + strings.Repeat("\n", 700),
			[]string{"tool/b.go has 701 lines, more than 700: look for the second noun in it"}},
		{"as long as may be", "-- tool/b.go --\npackage tool\n" + strings.Repeat("\n", 699), nil},
		{"long, generated", "-- tool/b.go --\n// Code generated by x. DO NOT EDIT.\n\npackage tool\n" + strings.Repeat("\n", 700), nil},
		{"long, a test", "-- tool/b_test.go --\npackage tool\n" + strings.Repeat("\n", 700), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tree := fstest.MapFS{}
			for _, f := range slices.Concat(txtar.Parse([]byte(sound)).Files, txtar.Parse([]byte(tt.change)).Files) {
				tree[f.Name] = &fstest.MapFile{Data: f.Data}
				if len(f.Data) == 0 {
					delete(tree, f.Name)
				}
			}
			got := inspect(t, tree)
			slices.Sort(got)
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("-got +want\n%s", diff)
			}
		})
	}
}

func TestTiers_Refused(t *testing.T) {
	const head = "| Tier | Folder | Holds |\n|---|---|---|\n"
	for _, doc := range []string{"", head + "| high | `a` | x |\n", head + "| -1 | `a` | x |\n", head + "| 1 | `a` | x |\n| 2 | `a` | x |\n"} {
		if got, err := tiers(doc); err == nil {
			t.Errorf("tiers(%q) = %v, want an error", doc, got)
		}
	}
}
