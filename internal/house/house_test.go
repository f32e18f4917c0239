package house_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/aptixhq/aptix/internal/house"
)

func TestRoot_HoldsGoMod(t *testing.T) {
	root, err := house.Root()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Errorf("Root() = %q: %v", root, err)
	}
}

func TestRoot_OutsideOfAModule(t *testing.T) {
	t.Chdir(t.TempDir())
	if root, err := house.Root(); err == nil {
		t.Errorf("Root() = %q in a folder without go.mod, want an error", root)
	}
}

func TestModule(t *testing.T) {
	tests := []struct{ name, gomod, want string }{
		{"named", "// comment\nmodule example.com/x\n\ngo 1.26\n", "example.com/x"},
		{"without a name", "go 1.26\n", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := house.Module(fstest.MapFS{"go.mod": {Data: []byte(tt.gomod)}})
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("Module() = %q, %v; want %q", got, err, tt.want)
			}
		})
	}
	if got, err := house.Module(fstest.MapFS{}); err == nil {
		t.Errorf("Module() = %q without go.mod, want an error", got)
	}
}

func TestRows(t *testing.T) {
	const doc = `# Title
| id | why |
|---|:--|
| a | one \| two |
| b | |

## Other

| id | what |
|---|---|
| c | passed over |

### Deep

| id | why |
|---|---|
| d | last |
`
	got, err := house.Rows(doc, "id", "why")
	if err != nil {
		t.Fatal(err)
	}
	want := []house.Row{
		{Section: "Title", Line: 4, Cells: []string{"a", "one | two"}},
		{Section: "Title", Line: 5, Cells: []string{"b", ""}},
		{Section: "Deep", Line: 17, Cells: []string{"d", "last"}},
	}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
}

func TestRows_WrongNumberOfCells(t *testing.T) {
	if rows, err := house.Rows("| id | why |\n|---|---|\n| a | b | c |\n", "id", "why"); err == nil {
		t.Errorf("Rows() = %v, want an error that names line 3", rows)
	}
}
