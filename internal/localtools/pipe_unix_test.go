//go:build unix

package localtools_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/aptixhq/aptix/internal/localtools"
)

func TestPipesAreNotOpened(t *testing.T) {
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	tools := open(t, dir, localtools.Limits{})
	check(t, call(t, tools, "read_file", `{"path":"pipe"}`), "error: cannot read pipe: it is not a regular file")
	check(t, call(t, tools, "write_file", `{"path":"pipe","content":"x"}`), "error: cannot write pipe: it is not a regular file")
	check(t, call(t, tools, "search_files", `{"query":"x"}`), `{"matches":[],"more":false,"searchedFiles":0,"skippedFiles":0}`)
	check(t, call(t, tools, "list_files", ``), `{"path":".","entries":[{"path":"pipe","type":"other"}],"more":false}`)
}
