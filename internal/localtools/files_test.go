package localtools_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aptixhq/aptix/internal/localtools"
)

func TestListFiles(t *testing.T) {
	dir := project(t, map[string]string{
		"a.go": "package a", "b.txt": "b", "src/c.go": "c", "src/deep/d.go": "d", "src/deep/e.md": "",
		".git/config": "x", "src/.git/config": "x", "link": "-> a.go",
	})
	tools := open(t, dir, localtools.Limits{Entries: 6})
	for name, tc := range map[string]struct{ args, want string }{
		"top": {``, `{"path":".","entries":[{"path":".git","type":"dir"},{"path":"a.go","type":"file","size":9},{"path":"b.txt","type":"file","size":1},{"path":"link","type":"symlink"},{"path":"src","type":"dir"}],"more":false}`},
		"folder": {`{"path":"src/"}`,
			`{"path":"src","entries":[{"path":"src/.git","type":"dir"},{"path":"src/c.go","type":"file","size":1},{"path":"src/deep","type":"dir"}],"more":false}`},
		"recursive and bounded": {`{"recursive":true}`,
			`{"path":".","entries":[{"path":"a.go","type":"file","size":9},{"path":"b.txt","type":"file","size":1},{"path":"link","type":"symlink"},{"path":"src","type":"dir"},{"path":"src/c.go","type":"file","size":1},{"path":"src/deep","type":"dir"}],"more":true}`},
		"by name": {`{"recursive":true,"glob":"*.go"}`,
			`{"path":".","entries":[{"path":"a.go","type":"file","size":9},{"path":"src/c.go","type":"file","size":1},{"path":"src/deep/d.go","type":"file","size":1}],"more":false}`},
		"by path":        {`{"recursive":true,"glob":"src/**/d.*"}`, `{"path":".","entries":[{"path":"src/deep/d.go","type":"file","size":1}],"more":false}`},
		"nothing":        {`{"glob":"*.rs"}`, `{"path":".","entries":[],"more":false}`},
		"file":           {`{"path":"a.go"}`, `error: cannot list a.go: it is not a directory`},
		"does not exist": {`{"path":"nope"}`, `error: cannot list nope: it does not exist; use list_files to see what does`},
	} {
		t.Run(name, func(t *testing.T) { check(t, call(t, tools, "list_files", tc.args), tc.want) })
	}
}

func TestListFiles_VisitsAreBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 30 {
		files[fmt.Sprintf("f%02d", i)] = ""
	}
	tools := open(t, project(t, files), localtools.Limits{Visits: 10})
	check(t, call(t, tools, "list_files", `{"glob":"f29"}`), `{"path":".","entries":[],"more":true}`)
	check(t, call(t, tools, "search_files", `{"query":"x"}`),
		`{"matches":[],"more":true,"why":"too many files","searchedFiles":10,"skippedFiles":0}`)
}

func TestGlob(t *testing.T) {
	tools := open(t, project(t, map[string]string{"a/b/c/b/d.go": ""}), localtools.Limits{})
	for glob, want := range map[string]bool{
		"d.go": true, "*.go": true, "d.*": true, "*.md": false,
		"a/b/c/b/d.go": true, "./a/**": true, "**/d.go": true, "**/b/d.go": true, "a/**/b/*.go": true,
		"a/**/**/d.go": true, "**/x/**": false, "a/*/d.go": false, "a/**/c": false, "/d.go": false, "b/**": false,
		strings.Repeat("**/", 200) + "x": false, // must not take for ever
	} {
		args, err := json.Marshal(map[string]any{"recursive": true, "glob": glob})
		must(t, err)
		if got := strings.Contains(call(t, tools, "list_files", string(args)), "d.go"); got != want {
			t.Errorf("%s: got %v, want %v", glob, got, want)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := project(t, map[string]string{
		"five": "one\ntwo\nthree\nfour\nfive", "empty": "", "crlf": "a\r\nb\r\n", "binary": "GIF\x00\x01", "latin1": "caf\xe9\n",
		"long": strings.Repeat("é", 40) + "\nnext\n", "dir/": "",
	})
	tools := open(t, dir, localtools.Limits{ReadBytes: 21})
	for name, tc := range map[string]struct{ args, want string }{
		"whole, as much as fits": {`{"path":"five"}`, `{"path":"five","size":23,"startLine":1,"endLine":4,"content":"one\ntwo\nthree\nfour\n","more":true}`},
		"range":                  {`{"path":"five","startLine":2,"endLine":3}`, `{"path":"five","size":23,"startLine":2,"endLine":3,"content":"two\nthree\n","more":true}`},
		"rest":                   {`{"path":"five","startLine":4}`, `{"path":"five","size":23,"startLine":4,"endLine":5,"content":"four\nfive","more":false}`},
		"last line":              {`{"path":"five","startLine":5,"endLine":5}`, `{"path":"five","size":23,"startLine":5,"endLine":5,"content":"five","more":false}`},
		"end beyond":             {`{"path":"five","startLine":5,"endLine":99}`, `{"path":"five","size":23,"startLine":5,"endLine":5,"content":"five","more":false}`},
		"start beyond":           {`{"path":"five","startLine":9}`, `error: cannot read five: it has only 5 lines`},
		"empty":                  {`{"path":"empty"}`, `{"path":"empty","size":0,"startLine":1,"endLine":0,"content":"","more":false}`},
		"windows line ends":      {`{"path":"crlf"}`, `{"path":"crlf","size":6,"startLine":1,"endLine":2,"content":"a\r\nb\r\n","more":false}`},
		"binary":                 {`{"path":"binary"}`, `error: cannot read binary: it is a binary file`},
		"other encoding":         {`{"path":"latin1"}`, `{"path":"latin1","size":5,"startLine":1,"endLine":1,"content":"caf` + "\ufffd" + `\n","more":false}`},
		"directory":              {`{"path":"dir"}`, `error: cannot read dir: it is a directory; use list_files`},
		"does not exist":         {`{"path":"nope/x"}`, `error: cannot read nope/x: it does not exist; use list_files to see what does`},
		"line too long":          {`{"path":"long"}`, `{"path":"long","size":86,"startLine":1,"endLine":1,"content":"` + strings.Repeat("é", 10) + `","more":true,"cut":true}`},
	} {
		t.Run(name, func(t *testing.T) { check(t, call(t, tools, "read_file", tc.args), tc.want) })
	}
}

func TestReadFile_HugeFiles(t *testing.T) {
	dir := t.TempDir()
	// A sparse file of 1 TiB that begins with text: reading it whole would not end.
	f, err := os.Create(filepath.Join(dir, "huge"))
	must(t, err)
	_, err = f.WriteString(strings.Repeat(strings.Repeat("x", 99)+"\n", 200))
	must(t, err)
	if err := f.Truncate(1 << 40); err != nil {
		must(t, f.Truncate(1<<30))
	}
	must(t, f.Close())
	tools := open(t, dir, localtools.Limits{ReadBytes: 1000, ScanBytes: 1 << 20})
	got := call(t, tools, "read_file", `{"path":"huge"}`)
	if !strings.Contains(got, `"endLine":10,`) || !strings.Contains(got, `"more":true`) {
		t.Errorf("got %.200s", got)
	}
	check(t, call(t, tools, "read_file", `{"path":"huge","startLine":100000}`),
		"error: cannot read huge: line 100000 lies beyond the first 1 MiB, which is as far as read_file goes")
	check(t, call(t, tools, "search_files", `{"query":"x"}`), `{"matches":[],"more":false,"searchedFiles":0,"skippedFiles":1}`)
}

func TestSearchFiles(t *testing.T) {
	long := strings.Repeat("-", 500) + "needle" + strings.Repeat("+", 500)
	dir := project(t, map[string]string{
		"a.go": "package a\nfunc Foo() {}\nfoo()\n", "b/c.go": "Foo\nFOO.bar\n", "d.md": "foo",
		".git/x": "foo", "bin": "foo\x00", "long.txt": long, "link": "-> a.go",
	})
	tools := open(t, dir, localtools.Limits{Matches: 3})
	for name, tc := range map[string]struct{ args, want string }{
		"literal": {`{"query":"Foo()"}`, `{"matches":[{"path":"a.go","line":2,"text":"func Foo() {}"}],"more":false,"searchedFiles":4,"skippedFiles":1}`},
		"regexp":  {`{"query":"^F..$","regexp":true}`, `{"matches":[{"path":"b/c.go","line":1,"text":"Foo"}],"more":false,"searchedFiles":4,"skippedFiles":1}`},
		"any case, bounded": {`{"query":"foo","ignoreCase":true}`,
			`{"matches":[{"path":"a.go","line":2,"text":"func Foo() {}"},{"path":"a.go","line":3,"text":"foo()"},{"path":"b/c.go","line":1,"text":"Foo"}],"more":true,"why":"there are more matches","searchedFiles":2,"skippedFiles":0}`},
		"glob":           {`{"query":"foo","glob":"*.md"}`, `{"matches":[{"path":"d.md","line":1,"text":"foo"}],"more":false,"searchedFiles":1,"skippedFiles":0}`},
		"folder":         {`{"query":".","path":"b"}`, `{"matches":[{"path":"b/c.go","line":2,"text":"FOO.bar"}],"more":false,"searchedFiles":1,"skippedFiles":0}`},
		"file":           {`{"query":"package","path":"a.go"}`, `{"matches":[{"path":"a.go","line":1,"text":"package a"}],"more":false,"searchedFiles":1,"skippedFiles":0}`},
		"long line":      {`{"query":"needle"}`, `{"matches":[{"path":"long.txt","line":1,"text":"…` + strings.Repeat("-", 100) + "needle" + strings.Repeat("+", 194) + `…"}],"more":false,"searchedFiles":4,"skippedFiles":1}`},
		"does not exist": {`{"query":"x","path":"nope"}`, `error: cannot search nope: it does not exist; use list_files to see what does`},
	} {
		t.Run(name, func(t *testing.T) { check(t, call(t, tools, "search_files", tc.args), tc.want) })
	}
}

func TestSearchFiles_ContentIsBounded(t *testing.T) {
	tools := open(t, project(t, map[string]string{"a": "xxxxx", "b": "xxxxx", "c": "needle"}), localtools.Limits{SearchBytes: 8})
	check(t, call(t, tools, "search_files", `{"query":"needle"}`),
		`{"matches":[],"more":true,"why":"too many files","searchedFiles":1,"skippedFiles":0}`)
}

func TestWriteFile(t *testing.T) {
	dir := project(t, map[string]string{"script.sh": "old", "folder/": "", "link": "-> script.sh"})
	must(t, os.Chmod(filepath.Join(dir, "script.sh"), 0o755))
	tools := open(t, dir, localtools.Limits{})
	check(t, call(t, tools, "write_file", `{"path":"new/deep/a.txt","content":"a<b\n"}`), `{"path":"new/deep/a.txt","bytes":4,"created":true}`)
	check(t, call(t, tools, "write_file", `{"path":"script.sh","content":"new"}`), `{"path":"script.sh","bytes":3,"created":false}`)
	check(t, call(t, tools, "write_file", `{"path":"folder","content":"x"}`), `error: cannot write folder: it is a directory`)
	check(t, call(t, tools, "write_file", `{"path":"link","content":"x"}`), `error: cannot write link: it is a symbolic link; write to the file that it leads to`)
	check(t, call(t, tools, "write_file", `{"path":".","content":"x"}`), `error: cannot write .: it is a directory`)
	check(t, call(t, tools, "write_file", `{"path":"script.sh/x","content":"x"}`), `error: cannot write script.sh/x: not a directory`)

	got, err := os.ReadFile(filepath.Join(dir, "new", "deep", "a.txt"))
	must(t, err)
	check(t, string(got), "a<b\n")
	info, err := os.Stat(filepath.Join(dir, "script.sh"))
	must(t, err)
	if info.Mode().Perm() != 0o755 || info.Size() != 3 {
		t.Errorf("script.sh is %v, %d bytes", info.Mode(), info.Size())
	}
	left, err := filepath.Glob(filepath.Join(dir, ".aptix-*"))
	must(t, err)
	if len(left) != 0 {
		t.Errorf("drafts were left: %v", left)
	}
}
