package acceptance_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/aptixhq/aptix/internal/acceptance"
)

// tree builds a source tree of module m from an archive.
func tree(t *testing.T, archive string) fs.FS {
	t.Helper()
	fsys := fstest.MapFS{}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		fsys[f.Name] = &fstest.MapFile{Data: f.Data}
	}
	return fsys
}

func TestScan(t *testing.T) {
	const head = `
package mode_test

import (
	"testing"

	"m/internal/prove"
)
`
	tests := []struct {
		name, archive  string
		want, problems []string
	}{
		{
			name: "in a test and in its subtest",
			archive: "-- internal/mode/a_test.go --" + head + `
func TestLoad(t *testing.T) {
	prove.Rule(t, "R-1", "R-2")
	t.Run("sub", func(t *testing.T) { prove.Rule(t, ` + "`R-3`" + `) })
}
func FuzzLoad(f *testing.F) { prove.Rule(f, "R-4") }
`,
			want: []string{
				"R-1 internal/mode: TestLoad", "R-2 internal/mode: TestLoad",
				"R-3 internal/mode: TestLoad", "R-4 internal/mode: FuzzLoad",
			},
		},
		{
			name: "under another import name",
			archive: `-- a_test.go --
package a
import ("testing"; p "m/internal/prove")
func TestA(t *testing.T) { p.Rule(t, "R-1") }
`,
			want: []string{"R-1 .: TestA"},
		},
		{
			name: "another package's Rule proves nothing",
			archive: `-- a_test.go --
package a
import ("testing"; "other/internal/prove")
func TestA(t *testing.T) { prove.Rule(t, "R-1") }
`,
		},
		{
			name: "in helpers, a table of functions and a method",
			archive: "-- internal/mode/a_test.go --" + head + `
func TestAll(t *testing.T) {
	for _, run := range table { run(t) }
	suite{}.last(t)
}
var table = []func(*testing.T){first, second}
func first(t *testing.T) { deeper(t) }
func deeper(t *testing.T) { prove.Rule(t, "R-1") }
func second(t *testing.T) { prove.Rule(t, "R-2") }
type suite struct{}
func (suite) last(t *testing.T) { prove.Rule(t, "R-3") }
`,
			want: []string{"R-1 internal/mode: TestAll", "R-2 internal/mode: TestAll", "R-3 internal/mode: TestAll"},
		},
		{
			name: "in a suite that several packages run",
			archive: `-- internal/store/storetest/suite.go --
package storetest
import ("testing"; "m/internal/prove")
func Run(t *testing.T, open func() any) { t.Run("x", func(t *testing.T) { erase(t) }) }
func erase(t *testing.T) { prove.Rule(t, "R-1") }
-- internal/store/sqlite/a_test.go --
package sqlite_test
import ("testing"; "m/internal/store/storetest")
func TestStore(t *testing.T) { storetest.Run(t, nil) }
-- internal/store/postgres/a_test.go --
package postgres
import ("testing"; suite "m/internal/store/storetest")
func TestStore(t *testing.T) { suite.Run(t, nil) }
`,
			want: []string{"R-1 internal/store/postgres: TestStore", "R-1 internal/store/sqlite: TestStore"},
		},
		{
			name: "a field and a method call do not mention a function of their name",
			archive: "-- internal/mode/a_test.go --" + head + `
func TestA(t *testing.T) {
	_ = struct{ Run int }{Run: 1}
	t.Run("x", nil)
}
func Run(t *testing.T) { prove.Rule(t, "R-1") }
`,
			problems: []string{"internal/mode/a_test.go:13: Run names rules, but no test mentions it"},
		},
		{
			name: "what go test does not run proves nothing",
			archive: "-- internal/mode/a_test.go --" + head + `
func Testify(t *testing.T) { prove.Rule(t, "R-1") }
func (suite) TestMethod(t *testing.T) { prove.Rule(t, "R-2") }
func TestMain(m *testing.M) { prove.Rule(nil, "R-3") }
-- internal/mode/a.go --
package mode
import "m/internal/prove"
func TestNotInATestFile() { prove.Rule(nil, "R-4") }
`,
			problems: []string{
				"internal/mode/a.go:3: TestNotInATestFile names rules, but no test mentions it",
				"internal/mode/a_test.go:10: TestMethod names rules, but no test mentions it",
				"internal/mode/a_test.go:11: TestMain names rules, but no test mentions it",
				"internal/mode/a_test.go:9: Testify names rules, but no test mentions it",
			},
		},
		{
			name: "only string literals",
			archive: "-- internal/mode/a_test.go --" + head + `
func TestA(t *testing.T) {
	for _, tt := range tests { prove.Rule(t, tt.rule) }
	prove.Rule(t, ids...)
	prove.Rule(t)
}
`,
			problems: []string{
				"internal/mode/a_test.go:10: prove.Rule takes string literals only, so that the table can be made from the source",
				"internal/mode/a_test.go:11: prove.Rule takes string literals only, so that the table can be made from the source",
				"internal/mode/a_test.go:12: prove.Rule names no rule",
			},
		},
		{
			name: "scenario files",
			archive: `-- internal/pipeline/testdata/turns/consent.txtar --
The user agrees.
proves: R-1 R-2
-- cmd/aptix/testdata/script/tour.txtar --
# proves: R-3
exec aptix
-- cmd/aptix/testdata/script/quiet.txtar --
exec aptix
-- internal/x/testdata/other/lost.txtar --
proves: R-4
-- docs/loose.txtar --
proves: R-5
`,
			want: []string{
				"R-1 internal/pipeline: TestTurns/consent.txtar", "R-2 internal/pipeline: TestTurns/consent.txtar",
				"R-3 cmd/aptix: TestScript/tour",
			},
			problems: []string{"internal/x/testdata/other/lost.txtar: claims rules, but only files in testdata/turns and testdata/script have a test that runs them"},
		},
		{
			name: "folders the go command does not look into",
			archive: "-- internal/mode/testdata/a_test.go --" + head + `
func TestA(t *testing.T) { prove.Rule(t, "R-1") }
-- .hidden/a_test.go --` + head + `
func TestA(t *testing.T) { prove.Rule(t, "R-2") }
-- _old/a_test.go --` + head + `
func TestA(t *testing.T) { prove.Rule(t, "R-3") }
`,
		},
		{
			name: "one claim, however often it is made",
			archive: "-- internal/mode/a_test.go --" + head + `
func TestA(t *testing.T) { prove.Rule(t, "R-1"); prove.Rule(t, "R-1") }
`,
			want: []string{"R-1 internal/mode: TestA"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			claims, problems, err := acceptance.Scan(tree(t, tt.archive), "m")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, c := range claims {
				got = append(got, c.Rule+" "+c.Test.String())
			}
			if diff := cmp.Diff(got, tt.want); diff != "" {
				t.Errorf("claims: -got +want\n%s", diff)
			}
			if diff := cmp.Diff(problems, tt.problems); diff != "" {
				t.Errorf("problems: -got +want\n%s", diff)
			}
		})
	}
}

func TestScan_BrokenSource(t *testing.T) {
	_, _, err := acceptance.Scan(tree(t, "-- a_test.go --\npackage a\nfunc {\n"), "m")
	if err == nil || !strings.Contains(err.Error(), "a_test.go:2") {
		t.Errorf("error = %v, want one that names a_test.go:2", err)
	}
}
