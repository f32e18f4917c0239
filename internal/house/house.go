// Package house holds what the checks of the source tree share: where the
// repository begins, what its module is called, and how a table in one of its
// documents is read. It has no part in a turn; only tests and their tools use it.
package house

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Root returns the folder that holds go.mod, found upwards from the working
// directory.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("find the repository: no go.mod here or above")
		}
		dir = up
	}
}

// Module returns the module path that the go.mod of tree declares.
func Module(tree fs.FS) (string, error) {
	data, err := fs.ReadFile(tree, "go.mod")
	if err != nil {
		return "", fmt.Errorf("read the module's name: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if name, ok := strings.CutPrefix(line, "module "); ok {
			return strings.TrimSpace(name), nil
		}
	}
	return "", errors.New("read the module's name: go.mod has no module line")
}

// Row is one row of a table in a document.
type Row struct {
	// Section is the heading that the row stands under, without its #.
	Section string
	Line    int
	Cells   []string
}

// Rows returns the rows of every Markdown table of the document that has exactly
// these column titles. Tables with other titles are passed over; a row with another
// number of cells is an error, for it would be read wrongly.
func Rows(document string, titles ...string) ([]Row, error) {
	var (
		rows    []Row
		section string
		inside  bool // a table with our titles
		table   bool // any table
	)
	sc := bufio.NewScanner(strings.NewReader(document))
	for n := 1; sc.Scan(); n++ {
		line := strings.TrimSpace(sc.Text())
		if !strings.HasPrefix(line, "|") {
			inside, table = false, false
			if h := strings.TrimLeft(line, "#"); h != line {
				section = strings.TrimSpace(h)
			}
			continue
		}
		cells := split(line)
		switch {
		case !table:
			table, inside = true, slices.Equal(cells, titles)
		case !inside || strings.Trim(line, "|-: ") == "":
		case len(cells) != len(titles):
			return nil, fmt.Errorf("line %d: the row has %d cells, the table %d columns", n, len(cells), len(titles))
		default:
			rows = append(rows, Row{Section: section, Line: n, Cells: cells})
		}
	}
	return rows, sc.Err()
}

// split returns the cells of a table's line; \| is a bar within a cell.
func split(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(line, `\|`, bar)
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	cells := strings.Split(line, "|")
	for i, c := range cells {
		cells[i] = strings.TrimSpace(strings.ReplaceAll(c, bar, "|"))
	}
	return cells
}
